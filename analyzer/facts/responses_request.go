package facts

func (f *Request) responses(s *scanner) { s.fail(ErrDialect) }

func (f *Request) responsesInput(s *scanner) { s.fail(ErrDialect) }
