package facts

func (f *Request) gemini(s *scanner) { s.fail(ErrDialect) }

func (f *Request) geminiContents(s *scanner) { s.fail(ErrDialect) }
