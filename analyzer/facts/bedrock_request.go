package facts

// bedrock reads a request of Converse or ConverseStream. The model is named in the URL, which says too whether the
// answer is a stream.
func (f *Request) bedrock(s *scanner) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "messages":
			f.bedrockMessages(s)
		case "system":
			f.System = s.skip()
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

// bedrockFilled steps over a value and reports whether it is an object with members. A request that fills in the
// variables of a prompt has the messages, system prompt and tools of that prompt, which lie with AWS, before its own.
func bedrockFilled(s *scanner) (filled bool) {
	if s.kind() != Object {
		s.skip()
		return false
	}
	for more := s.open(); more; more = s.more('}') {
		filled = true
		s.key()
		s.skip()
	}
	return filled
}

func (f *Request) bedrockLimit(s *scanner) {
	f.MaxTokens = 0
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "maxTokens" {
			f.MaxTokens = s.number()
		} else {
			s.skip()
		}
	}
}

// bedrockThinking reads what a request passes on to its model: thinking or reasoning_config of Claude, reasoningConfig
// of Nova.
func (f *Request) bedrockThinking(s *scanner) {
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "thinking", "reasoning_config", "reasoningConfig":
			f.thinking(s)
		default:
			s.skip()
		}
	}
}

// bedrockTools reads toolConfig. A cache point among the tools is none.
func (f *Request) bedrockTools(s *scanner) {
	f.Tools, f.HasTools, f.ToolCount, f.OpenTools = f.Tools[:0], false, 0, false
	f.ToolChoice, f.Forced = Absent, nil
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
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

func (f *Request) bedrockToolList(s *scanner) {
	f.Tools, f.ToolCount, f.OpenTools = f.Tools[:0], 0, false
	if f.HasTools = s.kind() == Array; !f.HasTools {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		if s.kind() != Object {
			f.ToolCount++
			s.skip()
			continue
		}
		var name []byte
		cache := false
		for more := s.open(); more; more = s.more('}') {
			switch string(s.key()) {
			case "toolSpec":
				name = s.member("name")
			case "cachePoint":
				cache = s.skip() != Null
			default: // systemTool: AWS runs it
				s.skip()
			}
		}
		if name != nil || !cache {
			f.ToolCount++
			f.tool(name)
		}
	}
}

// bedrockChoice reads toolChoice: {"auto": {}}, {"any": {}} or {"tool": {"name": …}}.
func (f *Request) bedrockChoice(s *scanner) {
	f.Forced = nil
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "tool" {
			f.Forced = s.member("name")
		} else {
			s.skip()
		}
	}
}
