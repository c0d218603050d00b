package facts

func (f *Request) anthropic(s *scanner) { s.fail(ErrDialect) }

func (f *Request) anthropicMessages(s *scanner) { s.fail(ErrDialect) }
