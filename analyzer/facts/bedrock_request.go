package facts

func (f *Request) bedrock(s *scanner) { s.fail(ErrDialect) }

func (f *Request) bedrockMessages(s *scanner) { s.fail(ErrDialect) }
