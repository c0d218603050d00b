package facts

func (f *Request) responses(s *scanner) {
	for more := s.open(); more; more = f.nextMember(s) {
		switch key := f.member(s); string(key) {
		case "input":
			f.responsesInput(s)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = s.isTrue()
		case "instructions":
			f.system(s)
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
			f.Unstored = s.isFalse()
		case "previous_response_id":
			f.PreviousResponse, _ = s.text()
			f.Stored = f.Stored || len(f.PreviousResponse) > 0
		case "conversation":
			f.Stored = s.skip() > Null || f.Stored
		case "prompt": // a template stored by the provider, which may contain messages and tools
			if s.skip() > Null {
				f.Stored, f.OpenTools = true, true
			}
		default:
			if !f.cacheOptions(s, key) {
				s.skip()
			}
		}
	}
}

func (f *Request) responsesInput(s *scanner) { f.messages(s, (*Request).readItem) }

// responsesTools reads tools. Functions and custom tools have a name. Tools of other types, such as namespaces, may provide
// functions whose names are not in the request. OpenTools is not reset, because input items declare tools, too.
func (f *Request) responsesTools(s *scanner) {
	for more := f.enterTools(s); more; more = s.more(']') {
		start := s.i
		if s.kind() != Object {
			s.skip()
			f.declare(s, start, cacheMark{})
			continue
		}
		typ, name := s.typeAndName()
		f.declare(s, start, cacheMark{})
		if !isAgentTool(typ) {
			name = nil
		}
		if string(typ) == "namespace" && s.err == nil {
			f.namespace(s, start)
		}
		f.HasFunctions = f.HasFunctions || name != nil && string(typ) == "function"
		f.tool(name)
	}
}

// namespace reads the names of the functions in a namespace, the value at start.
func (f *Request) namespace(s *scanner, start int) {
	again := scanner{b: s.b, i: start, scratch: s.scratch}
	for more := again.open(); more; more = again.more('}') {
		if string(again.key()) != "tools" {
			again.skip()
			continue
		}
		for more := again.enter(Array); more; more = again.more(']') {
			if name := again.member("name"); name != nil && len(f.Spaced) < maxKept {
				f.Spaced = append(f.Spaced, name)
			}
		}
	}
	s.scratch = again.scratch
}

// responsesToolChoice reads tool_choice: a word, or an object that forces one tool or a type of tools.
func (f *Request) responsesToolChoice(s *scanner) {
	f.Forced = nil
	if s.kind() != Object {
		word, _ := s.text()
		f.Forces = forces(word)
		return
	}
	if typ, name := s.typeAndName(); isAgentTool(typ) {
		f.Forced = name
	}
	f.Forces = f.Forced != nil
}

// isAgentTool reports whether tools of this type have a name and are run by the agent.
func isAgentTool(typ []byte) bool { return string(typ) == "function" || string(typ) == "custom" }

// effort returns the thinking mode of reasoning.effort.
func effort(word []byte) Thinking {
	switch string(word) {
	case "none":
		return ThinkingOff
	case "minimal", "low", "medium", "high", "xhigh", "max":
		return ThinkingOn
	}
	return ThinkingUnknown
}
