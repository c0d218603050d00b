package facts

import "github.com/zeebo/xxh3"

// gemini reads a GenerateContentRequest. Google parses its JSON as protocol buffers: names may be in camel case or snake
// case, null means absent, and bytes may be in either Base64 alphabet. Google also accepts one object instead of an array,
// and its samples use this; the facts are the same as for an array with one element. The URL names the model and selects streaming.
func (f *Request) gemini(s *scanner) {
	for more := s.open(); more; more = f.nextMember(s) {
		switch string(f.member(s)) {
		case "contents":
			f.geminiContents(s)
		case "systemInstruction", "system_instruction":
			f.system(s)
		case "tools":
			f.declared(s, (*Request).geminiTools)
		case "toolConfig", "tool_config":
			f.geminiToolConfig(s)
		case "generationConfig", "generation_config":
			f.geminiConfig(s)
		case "cachedContent", "cached_content":
			f.cache.Content, _ = s.text()
			f.Stored = len(f.cache.Content) > 0
		default:
			s.skip()
		}
	}
	if f.Stored { // a cache may contain tools
		f.OpenTools = true
	}
}

// geminiContents reads an array of contents, or one content.
func (f *Request) geminiContents(s *scanner) {
	if s.kind() != Object {
		f.messages(s, (*Request).geminiContent)
		return
	}
	f.Messages, f.calls, f.replies, f.Dropped = append(f.Messages[:0], Message{Kind: Object}), f.calls[:0], f.replies[:0], 0
	f.MessagesKind = Array
	m, start := &f.Messages[0], s.i
	f.geminiContent(s, m)
	if s.err != nil {
		f.Messages = f.Messages[:0]
		return
	}
	m.Start, m.End, m.Hash = start, s.i, xxh3.Hash(s.b[start:s.i])
}

// geminiTools reads tools. A tool is an object whose members are lists of functions or Google's own tools. ToolCount is the
// number of functions plus the number of Google's own tools.
func (f *Request) geminiTools(s *scanner) {
	f.forgetTools()
	f.OpenTools = false
	k := s.kind()
	if f.HasTools = k == Array || k == Object; !f.HasTools {
		s.skip()
		return
	}
	one := k == Object
	for more := one || s.open(); more; more = !one && s.more(']') {
		start := s.i
		if s.kind() != Object {
			s.skip()
			f.declare(s, start, cacheMark{})
			continue
		}
		for more := s.open(); more; more = s.more('}') {
			start = s.i
			switch key := s.key(); string(key) {
			case "functionDeclarations", "function_declarations":
				f.geminiFunctions(s)
			default:
				builtin := isBuiltin(key)
				if s.skip() != Null {
					f.declare(s, start, cacheMark{})
					f.OpenTools = true
					f.Builtins = f.Builtins || builtin
				}
			}
		}
	}
}

// isBuiltin reports whether key declares a tool of Google that was seen refused beside functions without the option to combine them.
func isBuiltin(key []byte) bool {
	switch string(key) {
	case "googleSearch", "google_search", "urlContext", "url_context", "codeExecution", "code_execution":
		return true
	}
	return false
}

func (f *Request) geminiFunctions(s *scanner) {
	for one, more := s.enterList(); more; more = !one && s.more(']') {
		f.HasFunctions = true
		start := s.i
		name := s.member("name")
		f.declare(s, start, cacheMark{})
		f.tool(name)
	}
}

// geminiToolConfig reads toolConfig. ToolChoice is the kind of functionCallingConfig, because other members do not concern
// functions. The API accepts the mode in upper or lower case.
func (f *Request) geminiToolConfig(s *scanner) {
	f.ToolChoice, f.Forced, f.Combines = Absent, nil, false
	if s.kind() != Object {
		f.ToolChoice = s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "functionCallingConfig", "function_calling_config":
			f.ToolChoice = s.kind()
			f.geminiCalling(s)
		case "includeServerSideToolInvocations", "include_server_side_tool_invocations":
			f.Combines = s.isTrue()
		default:
			s.skip()
		}
	}
}

func (f *Request) geminiCalling(s *scanner) {
	f.Forced = nil
	var mode, name []byte
	names := 0
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "mode":
			mode, _ = s.text()
		case "allowedFunctionNames", "allowed_function_names":
			k := s.kind()
			if k != Array && k != String {
				s.skip()
				continue
			}
			names = 0
			one := k == String
			for more := one || s.open(); more; more = !one && s.more(']') {
				names++
				if names == 1 {
					name, _ = s.text()
				} else {
					s.skip()
				}
			}
		default:
			s.skip()
		}
	}
	if names == 1 && isWord(mode, "any") {
		f.Forced = name
	}
}

// enterList steps into an array, or stays at an object that replaces an array of one element. one reports that it is such an
// object, and more reports whether there is an element. Values of other kinds are skipped.
func (s *scanner) enterList() (one, more bool) {
	if s.kind() == Object {
		return true, true
	}
	return false, s.enter(Array)
}

// isWord reports whether text equals word if case is ignored. word must be in lower case.
func isWord(text []byte, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i, c := range text {
		if c|0x20 != word[i] {
			return false
		}
	}
	return true
}

// geminiConfig reads generationConfig.
func (f *Request) geminiConfig(s *scanner) {
	f.MaxTokens, f.Thinking = 0, ThinkingUnknown
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "maxOutputTokens", "max_output_tokens":
			f.MaxTokens = s.number()
		case "thinkingConfig", "thinking_config":
			f.geminiThinking(s)
		default:
			s.skip()
		}
	}
}

// geminiThinking reads thinkingConfig. A budget of 0 disables thinking; with a budget of -1, the model decides.
func (f *Request) geminiThinking(s *scanner) {
	f.Thinking = ThinkingUnknown
	var on, off bool
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "thinkingBudget", "thinking_budget":
			isNumber := s.kind() == Number
			budget := s.number()
			off = isNumber && budget == 0
			on = on || budget > 0
		case "thinkingLevel", "thinking_level":
			on = s.skip() == String || on
		case "includeThoughts", "include_thoughts":
			on = s.isTrue() || on
		default:
			s.skip()
		}
	}
	switch {
	case off:
		f.Thinking = ThinkingOff
	case on:
		f.Thinking = ThinkingOn
	}
}
