package facts

// bedrock reads a request of Converse or ConverseStream. The URL names the model and decides whether the answer is a
// stream.
func (f *Request) bedrock(s *scanner) {
	for more := s.open(); more; more = f.nextMember(s) {
		switch string(f.member(s)) {
		case "messages":
			f.bedrockMessages(s)
		case "system":
			f.system(s)
		case "toolConfig":
			f.bedrockTools(s)
		case "inferenceConfig":
			f.bedrockLimit(s)
		case "additionalModelRequestFields":
			f.bedrockThinking(s)
		case "promptVariables":
			f.Stored = bedrockFilled(s)
		default:
			s.skip()
		}
	}
}

// bedrockFilled steps over a value and reports whether it is an object with members. A request that sets the variables of a
// prompt stored by AWS includes the messages, the system prompt and the tools of that prompt.
func bedrockFilled(s *scanner) (filled bool) {
	for more := s.enter(Object); more; more = s.more('}') {
		filled = true
		s.key()
		s.skip()
	}
	return filled
}

func (f *Request) bedrockLimit(s *scanner) {
	f.MaxTokens = 0
	for more := s.enter(Object); more; more = s.more('}') {
		if string(s.key()) == "maxTokens" {
			f.MaxTokens = s.number()
		} else {
			s.skip()
		}
	}
}

// bedrockThinking reads the fields specific to a model: thinking or reasoning_config of Claude, reasoningConfig of Nova.
func (f *Request) bedrockThinking(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "thinking", "reasoning_config", "reasoningConfig":
			f.thinking(s)
		default:
			s.skip()
		}
	}
}

// bedrockTools reads toolConfig.
func (f *Request) bedrockTools(s *scanner) {
	f.forgetTools()
	f.OpenTools, f.ToolChoice, f.Forced, f.Forces = false, Absent, nil, false
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "tools":
			f.declared(s, (*Request).bedrockToolList)
		case "toolChoice":
			f.ToolChoice = s.kind()
			f.bedrockChoice(s)
		default:
			s.skip()
		}
	}
}

// bedrockToolList reads tools. A cache point among them is not a tool.
func (f *Request) bedrockToolList(s *scanner) {
	f.OpenTools = false
	for more := f.enterTools(s); more; more = s.more(']') {
		start := s.i
		if s.kind() != Object {
			s.skip()
			f.declare(s, start, cacheMark{})
			continue
		}
		var name []byte
		var mark cacheMark
		cache := false
		for more := s.open(); more; more = s.more('}') {
			switch string(s.key()) {
			case "toolSpec":
				name = s.member("name")
			case "cachePoint":
				cache = s.kind() != Null
				mark = s.cacheMark()
			default: // systemTool, a tool that AWS runs
				s.skip()
			}
		}
		if name != nil || !cache {
			f.declare(s, start, cacheMark{})
			f.tool(name)
		}
		f.mark(mark, InTools, max(len(f.setup.Each)-1, 0), 0)
	}
}

// bedrockChoice reads toolChoice: {"auto": {}}, {"any": {}} or {"tool": {"name": …}}.
func (f *Request) bedrockChoice(s *scanner) {
	f.Forced, f.Forces = nil, false
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "tool":
			f.Forced = s.member("name")
			f.Forces = f.Forces || f.Forced != nil
		case "any":
			f.Forces = s.skip() != Null || f.Forces
		default:
			s.skip()
		}
	}
}
