package facts

func (f *Request) responses(s *scanner) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "input":
			f.messages(s, (*Request).readItem)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = string(s.raw(s.kind())) == "true"
		case "instructions":
			f.System = s.skip()
		case "tools":
			f.declared(s, (*Request).responsesTools)
		case "tool_choice":
			f.ToolChoice = s.kind()
			f.responsesToolChoice(s)
		case "parallel_tool_calls":
			f.ParallelCalls = s.skip()
		case "max_output_tokens":
			f.MaxTokens = s.number()
		case "reasoning":
			f.Thinking = effort(s.member("effort"))
		case "store":
			f.Unstored = string(s.raw(s.kind())) == "false"
		case "previous_response_id":
			f.PreviousResponse, _ = s.text()
			f.Stored = f.Stored || len(f.PreviousResponse) > 0
		case "conversation":
			f.Stored = s.skip() > Null || f.Stored
		case "prompt": // a template that the provider keeps; it may hold messages and tools
			if s.skip() > Null {
				f.Stored, f.OpenTools = true, true
			}
		default:
			s.skip()
		}
	}
}

func (f *Request) responsesInput(s *scanner) { f.messages(s, (*Request).readItem) }

// responsesTools reads tools. Functions and custom tools have a name; any other type, a namespace too, may declare
// functions that are not named here. OpenTools only ever becomes true, because input items declare tools as well.
func (f *Request) responsesTools(s *scanner) {
	f.Tools, f.ToolCount = f.Tools[:0], 0
	if f.HasTools = s.kind() == Array; !f.HasTools {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		f.ToolCount++
		if s.kind() != Object {
			s.skip()
			continue
		}
		typ, name := s.typeAndName()
		if !isAgentTool(typ) {
			name = nil
		}
		f.tool(name)
	}
}

// responsesToolChoice reads tool_choice: a word, or an object that forces one tool or a kind of tools.
func (f *Request) responsesToolChoice(s *scanner) {
	f.Forced = nil
	if s.kind() != Object {
		s.skip()
	} else if typ, name := s.typeAndName(); isAgentTool(typ) {
		f.Forced = name
	}
}

// isAgentTool reports whether tools of this type are named and run by the agent.
func isAgentTool(typ []byte) bool { return string(typ) == "function" || string(typ) == "custom" }

// effort is what reasoning.effort asks for.
func effort(word []byte) Thinking {
	switch string(word) {
	case "none":
		return ThinkingOff
	case "minimal", "low", "medium", "high", "xhigh", "max":
		return ThinkingOn
	}
	return ThinkingUnknown
}
