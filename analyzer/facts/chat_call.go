package facts

func (f *Request) toolCalls(s *scanner, m *Message) {
	first := len(f.calls)
	m.Calls = nil
	if m.ToolCalls = s.kind(); m.ToolCalls != Array {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		c := f.newCall()
		if c == nil {
			s.skip()
			continue
		}
		c.Start = s.i
		if c.Kind = s.kind(); c.Kind == Object {
			chatCall(s, c)
		} else {
			s.skip()
		}
		c.End = s.i
	}
	m.Calls = f.calls[first:len(f.calls):len(f.calls)]
}

func chatCall(s *scanner, c *Call) {
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "id":
			c.ID, c.IDKind = s.text()
		case "type":
			var name []byte
			name, c.TypeKind = s.text()
			c.Type = callType(name, c.TypeKind)
		case "function":
			c.FuncKind = s.kind()
			c.chatFunction(s, "arguments")
		case "custom":
			c.chatFunction(s, "input")
		case "extra_content":
			c.Fields |= FieldExtraContent
			c.Signature = signature(s)
		default:
			c.other(s, key)
		}
	}
}

// other records a key outside the schema of a call or its function, and steps over its value.
func (c *Call) other(s *scanner, key []byte) {
	field, ok := chatFields[string(key)]
	if !ok {
		field = FieldUnknown
	}
	c.Fields |= field
	s.skip()
}

func callType(name []byte, k Kind) CallType {
	switch {
	case k != String:
		return TypeNone
	case string(name) == "function":
		return TypeFunction
	case string(name) == "custom":
		return TypeCustom
	}
	return TypeOther
}

// signature returns the kind of the signature in extra_content: {"google": {"thought_signature": "…"}}.
func signature(s *scanner) (k Kind) {
	for more := s.enter(Object); more; more = s.more('}') {
		if string(s.key()) != "google" {
			s.skip()
			continue
		}
		k = Absent
		for more := s.enter(Object); more; more = s.more('}') {
			if string(s.key()) == "thought_signature" {
				k = s.skip()
			} else {
				s.skip()
			}
		}
	}
	return k
}

// chatFunction reads the target of a call: a function with "arguments", or a custom tool whose "input" is free text. The
// parameter is that key.
func (c *Call) chatFunction(s *scanner, arguments string) {
	c.Name, c.NameKind = nil, Absent
	c.noArguments()
	for more := s.enter(Object); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "name":
			c.Name, c.NameKind = s.text()
		case arguments:
			if c.arguments(s); arguments == "input" {
				c.Args = ArgsUnknown
			}
		default:
			c.other(s, key)
		}
	}
}
