package facts

func (f *Request) chat(s *scanner) {
	var limit, completionLimit int64
	var functions, functionCall Kind
	var enabled, think Thinking
	for more := s.open(); more; more = f.nextMember(s) {
		switch key := f.member(s); string(key) {
		case "messages":
			f.chatMessages(s)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = s.isTrue()
		case "tools":
			f.declared(s, (*Request).chatTools)
		case "tool_choice":
			f.toolChoice(s)
		case "parallel_tool_calls":
			f.ParallelCalls = s.skip()
		case "functions":
			functions = s.skip()
		case "function_call":
			functionCall = s.skip()
		case "thinking":
			f.thinking(s)
		case "reasoning_effort":
			word, _ := s.text()
			f.Effort = effort(word)
		case "enable_thinking": // Qwen
			enabled = thinkingIf(s)
		case "think": // Ollama
			think = thinkingIf(s)
		case "max_tokens":
			limit = s.number()
		case "max_completion_tokens":
			completionLimit = s.number()
		default:
			if !f.cacheOptions(s, key) {
				s.skip()
			}
		}
	}
	if f.MaxTokens = completionLimit; completionLimit == 0 {
		f.MaxTokens = limit
	}
	if f.Functions = functions; functions == Absent {
		f.Functions = functionCall
	}
	for _, t := range [...]Thinking{enabled, think} {
		if f.Thinking == ThinkingUnknown {
			f.Thinking = t
		}
	}
}

// chatTools reads tools. A tool that is not a function, such as the provider's search, sets OpenTools.
func (f *Request) chatTools(s *scanner) {
	f.OpenTools = false
	for more := f.enterTools(s); more; more = s.more(']') {
		start := s.i
		name, custom, mark := s.called()
		f.declare(s, start, mark)
		f.tool(name)
		f.HasFunctions = f.HasFunctions || name != nil && !custom
	}
}

// toolChoice reads tool_choice, which is a word or an object that forces one function.
func (f *Request) toolChoice(s *scanner) {
	f.ToolChoice, f.Forced = s.kind(), nil
	if f.ToolChoice == String {
		word, _ := s.text()
		f.Forces = forces(word)
		return
	}
	f.Forced, _, _ = s.called()
	f.Forces = f.Forced != nil
}

// forces reports whether the word of a tool_choice forces a call.
func forces(word []byte) bool { return string(word) == "required" || string(word) == "any" }

// called steps over a tool or a tool choice, {"function": {"name": "f"}}, and returns the name, or nil if there is none, and the
// mark.
func (s *scanner) called() (name []byte, custom bool, m cacheMark) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "function", "custom":
			custom = string(key) == "custom"
			name = s.member("name")
		case "cache_control":
			m = s.cacheMark()
		default:
			s.skip()
		}
	}
	return name, custom, m
}

// thinking reads the member "thinking" of requests to Anthropic, DeepSeek, GLM, Kimi and Cohere: {"type": "enabled"}.
func (f *Request) thinking(s *scanner) {
	word := string(s.member("type"))
	f.Adaptive = word == "adaptive"
	switch word {
	case "enabled", "adaptive":
		f.Thinking = ThinkingOn
	case "disabled":
		f.Thinking = ThinkingOff
	default:
		f.Thinking = ThinkingUnknown
	}
}

// thinkingIf reads a member that is true, false, or a level of thinking, which is a string.
func thinkingIf(s *scanner) Thinking {
	k := s.kind()
	switch raw := string(s.raw(k)); {
	case raw == "true", k == String:
		return ThinkingOn
	case raw == "false":
		return ThinkingOff
	}
	return ThinkingUnknown
}

func (f *Request) chatMessages(s *scanner) { f.messages(s, (*Request).chatMessage) }

// chatFields maps the keys of a message, except role, content and calls, to their bits.
var chatFields = map[string]Fields{
	"name": FieldName, "refusal": FieldRefusal, "audio": FieldAudio, "function_call": FieldFunctionCall,
	"prefix": FieldPrefix, "partial": FieldPrefix, "reasoning_content": FieldReasoningContent, "reasoning": FieldReasoning,
	"reasoning_details": FieldReasoningDetails, "extra_content": FieldExtraContent, "index": FieldIndex,
	"finish_reason": FieldFinishReason, "logprobs": FieldLogprobs, "annotations": FieldAnnotations,
	"timestamp": FieldTimestamp, "metadata": FieldMetadata, "tool_name": FieldToolName, "cache_control": FieldCacheControl,
	"id": FieldID, "tool_plan": FieldToolPlan,
}

func (f *Request) chatMessage(s *scanner, m *Message) {
	start, firstReply := s.i, len(f.replies)
	var content Span
	var reasoning [3]Kind
	var thinking Kind
	var own cacheMark // of the whole message
	var reply Reply
	var toolName []byte
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "role":
			m.role(s)
		case "content":
			content.Start = s.i
			f.unmarkMessage()
			f.chatContent(s, m)
			content.End = s.i
		case "tool_calls":
			f.toolCalls(s, m)
		case "tool_call_id":
			reply.ID, reply.IDKind = s.text()
		case "name":
			m.Name, m.NameKind = m.text(s, FieldName)
		case "tool_name": // Ollama's replies name the function
			toolName, _ = m.text(s, FieldToolName)
		case "reasoning_content":
			reasoning[0] = m.field(s, FieldReasoningContent)
		case "reasoning":
			reasoning[1] = m.field(s, FieldReasoning)
		case "reasoning_details":
			reasoning[2] = m.field(s, FieldReasoningDetails)
		case "thinking": // Ollama
			thinking = m.unknown(s, key)
		default:
			field, ok := chatFields[string(key)]
			start := s.i
			if !ok {
				m.unknown(s, key)
			} else if m.field(s, field) == Object && field == FieldCacheControl {
				again := scanner{b: s.b, i: start}
				own = again.cacheMark()
			}
		}
	}
	if s.err != nil {
		return
	}
	if m.Parts&PartReasoning != 0 { // in Mistral's content parts
		thinking = max(thinking, Array)
	}
	m.Reasoning = firstReasoning(reasoning[0], reasoning[1], reasoning[2], thinking)
	f.markPart(own, max(m.PartCount, 1)-1)
	switch m.Role { // only now, because the role may follow the content
	case RoleAssistant:
		m.ContentHash = f.chatHash(s, m, content)
	case RoleTool:
		if r := f.newReply(); r != nil {
			*r = reply
			r.Name, r.NameKind, r.Content, r.ContentBytes, r.Parts, r.PartCount = m.Name, m.NameKind, m.Content, m.ContentBytes, m.Parts, m.PartCount
			if r.NameKind != String && toolName != nil {
				r.Name, r.NameKind = toolName, String
			}
			r.Start, r.End = start, s.i
		}
		m.Replies = f.replies[firstReply:len(f.replies):len(f.replies)]
	default:
	}
}

func (f *Request) chatContent(s *scanner, m *Message) {
	m.Parts, m.PartCount, m.FirstPart = 0, 0, 0
	start := s.i
	if m.Content = s.kind(); m.Content != Array {
		m.ContentBytes, _ = s.sizedText(m.Content)
		return
	}
	for more := s.open(); more; more = s.more(']') {
		part, _, mark := chatPart(s)
		f.markPart(mark, m.PartCount)
		m.addPart(part)
	}
	m.ContentBytes = s.i - start
}

// chatHash returns the ContentHash of m. It reads content parts a second time, because the role is known only now; few
// assistant messages have content parts.
func (f *Request) chatHash(s *scanner, m *Message, content Span) uint64 {
	var t texts
	switch {
	case m.Content == String:
		return s.hashText(s.b[content.Start+1 : content.End-1])
	case m.Parts&PartText != 0:
		end := s.i
		s.i = content.Start
		for more := s.open(); more; more = s.more(']') {
			if part, text, _ := chatPart(s); part&PartText != 0 {
				t.add(f, text)
			}
		}
		s.i = end
	}
	return t.hash(f, s)
}

// chatPart reads a content part; text is the raw text of a text part, or nil if there is none.
func chatPart(s *scanner) (part Parts, text []byte, m cacheMark) {
	part = PartBad
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			if name, k := s.text(); k == String {
				part = partOf(name)
			} else {
				part = PartBad
			}
		case "text":
			text = s.rawText()
		case "cache_control", "prompt_cache_breakpoint":
			m = s.cacheMark()
		default:
			s.skip()
		}
	}
	if part == PartText && text != nil && textBytes(text) == 0 {
		part |= PartBlank
	}
	return part, text, m
}

func partOf(name []byte) Parts {
	switch string(name) {
	case "text":
		return PartText
	case "image_url", "image":
		return PartImage
	case "input_audio":
		return PartAudio
	case "file", "document", "document_url":
		return PartFile
	case "thinking":
		return PartReasoning
	case "refusal":
		return PartRefusal
	}
	return PartOther
}
