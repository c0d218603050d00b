package facts

func (f *Request) chat(s *scanner) {
	var limit, completionLimit int64
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "messages":
			f.messages(s, (*Request).chatMessage)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = string(s.raw(s.kind())) == "true"
		case "tools":
			f.chatTools(s)
		case "tool_choice":
			f.ToolChoice = s.kind()
			f.toolChoice(s)
		case "parallel_tool_calls":
			f.ParallelCalls = s.skip()
		case "functions", "function_call":
			f.Functions = max(f.Functions, s.skip())
		case "thinking":
			f.thinking(s)
		case "enable_thinking":
			f.Thinking = thinkingIf(string(s.raw(s.kind())) == "true")
		case "max_tokens":
			limit = s.number()
		case "max_completion_tokens":
			completionLimit = s.number()
		default:
			s.skip()
		}
	}
	if f.MaxTokens = completionLimit; completionLimit == 0 {
		f.MaxTokens = limit
	}
}

// chatTools reads tools. One that is no function, such as a search of the provider, is an open tool.
func (f *Request) chatTools(s *scanner) {
	f.Tools, f.ToolCount, f.OpenTools = f.Tools[:0], 0, false
	if f.HasTools = s.kind() == Array; !f.HasTools {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more(']') {
		f.ToolCount++
		var name []byte
		if s.kind() != Object {
			s.skip()
			continue
		}
		for more := s.open(); more; more = s.more('}') {
			switch string(s.key()) {
			case "function", "custom":
				name = s.member("name")
			default:
				s.skip()
			}
		}
		f.tool(name)
	}
}

// thinking reads thinking: {"type": "enabled"}, as Anthropic, DeepSeek, GLM and Kimi have it.
func (f *Request) thinking(s *scanner) {
	switch string(s.member("type")) {
	case "enabled", "adaptive":
		f.Thinking = ThinkingOn
	case "disabled":
		f.Thinking = ThinkingOff
	}
}

func thinkingIf(on bool) Thinking {
	if on {
		return ThinkingOn
	}
	return ThinkingOff
}

// toolChoice reads tool_choice: a word, or an object that forces one function.
func (f *Request) toolChoice(s *scanner) {
	f.Forced = nil
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "function":
			f.Forced = s.member("name")
		default:
			s.skip()
		}
	}
}

func (f *Request) chatMessages(s *scanner) { f.messages(s, (*Request).chatMessage) }

// chatFields are the keys of a message that role, content and calls do not cover.
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
	var content texts
	var reasoning [3]Kind
	var reply Reply
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "role":
			m.RoleName, m.RoleKind = s.text()
			m.Role = roleOf(m.RoleName, m.RoleKind)
		case "content":
			f.chatContent(s, m, &content)
		case "tool_calls":
			f.toolCalls(s, m)
		case "tool_call_id":
			reply.ID, reply.IDKind = s.text()
		case "name":
			m.Fields |= FieldName
			m.Name, m.NameKind = s.text()
		case "reasoning_content":
			reasoning[0] = m.field(s, FieldReasoningContent)
		case "reasoning":
			reasoning[1] = m.field(s, FieldReasoning)
		case "reasoning_details":
			reasoning[2] = m.field(s, FieldReasoningDetails)
		default:
			field, ok := chatFields[string(key)]
			if !ok {
				field = FieldUnknown
				m.other(s, key)
			}
			m.field(s, field)
		}
	}
	m.Reasoning = firstReasoning(reasoning)
	if s.err != nil {
		return
	}
	switch m.Role { // only now the role is known: it may come after the content
	case RoleAssistant:
		m.ContentHash = content.hash(f, s)
	case RoleTool:
		if r := f.newReply(); r != nil {
			*r = reply
			r.Name, r.NameKind, r.Content, r.ContentBytes, r.Parts, r.PartCount = m.Name, m.NameKind, m.Content, m.ContentBytes, m.Parts, m.PartCount
			r.Start, r.End = start, s.i
		}
		m.Replies = f.replies[firstReply:len(f.replies):len(f.replies)]
	}
}

// field notes a key and steps over its value, whose kind it returns.
func (m *Message) field(s *scanner, field Fields) Kind {
	k := s.kind()
	raw := s.raw(k)
	m.Fields |= field
	if k == Null || string(raw) == "false" {
		m.NullFields |= field
	} else {
		m.NullFields &^= field
	}
	return k
}

// other keeps the name of the first key that the dialect does not have.
func (m *Message) other(s *scanner, key []byte) {
	if m.OtherField == nil {
		m.OtherField = s.keep(key)
	}
}

// firstReasoning is the first kind that is neither absent nor null, else null if any is there.
func firstReasoning(kinds [3]Kind) Kind {
	best := Absent
	for _, k := range kinds {
		if k > Null {
			return k
		}
		best = max(best, k)
	}
	return best
}

// chatContent reads a content and gathers its texts, but for those of a message that is surely not an assistant's.
func (f *Request) chatContent(s *scanner, m *Message, t *texts) {
	m.Parts, m.PartCount, m.FirstPart, *t = 0, 0, 0, texts{}
	start := s.i
	m.Content = s.kind()
	if m.Content != Array {
		raw := s.raw(m.Content)
		m.ContentBytes = len(raw)
		if m.Content == String && s.err == nil {
			m.ContentBytes = textBytes(raw[1 : len(raw)-1])
			t.add(f, raw[1:len(raw)-1])
		}
		return
	}
	for more := s.open(); more; more = s.more(']') {
		part, text := chatPart(s)
		if m.PartCount == 0 {
			m.FirstPart = part
		}
		m.Parts |= part
		m.PartCount++
		if part&PartText != 0 && (m.Role == RoleAssistant || m.Role == RoleNone) {
			t.add(f, text)
		}
	}
	m.ContentBytes = s.i - start
}

// chatPart reads a content part; text is the raw text of a text part.
func chatPart(s *scanner) (part Parts, text []byte) {
	if s.kind() != Object {
		s.skip()
		return PartBad, nil
	}
	part = PartBad
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			if name, k := s.text(); k == String {
				part = partOf(name)
			} else {
				part = PartBad
			}
		case "text":
			if k := s.kind(); k == String {
				raw := s.raw(k)
				if s.err != nil {
					return part, nil
				}
				text = raw[1 : len(raw)-1]
			} else {
				s.skip()
			}
		default:
			s.skip()
		}
	}
	if part == PartText && text != nil && textBytes(text) == 0 {
		part |= PartBlank
	}
	return part, text
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
	// When calls grows, earlier messages keep the old array: their calls are final.
	m.Calls = f.calls[first:len(f.calls):len(f.calls)]
}

func chatCall(s *scanner, c *Call) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "id":
			c.ID, c.IDKind = s.text()
		case "type":
			var name []byte
			name, c.TypeKind = s.text()
			c.Type = callType(name)
		case "function":
			chatFunction(s, c)
		case "custom":
			c.Name = s.member("name")
		case "index":
			c.Fields |= FieldIndex
			s.skip()
		case "extra_content":
			c.Fields |= FieldExtraContent
			c.Signature = signature(s)
		default:
			c.Fields |= FieldUnknown
			s.skip()
		}
	}
}

func callType(name []byte) CallType {
	switch string(name) {
	case "":
		return TypeNone
	case "function":
		return TypeFunction
	case "custom":
		return TypeCustom
	}
	return TypeOther
}

// signature reads extra_content: {"google": {"thought_signature": "…"}}.
func signature(s *scanner) (k Kind) {
	if s.kind() != Object {
		s.skip()
		return Absent
	}
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) != "google" || s.kind() != Object {
			s.skip()
			continue
		}
		for more := s.open(); more; more = s.more('}') {
			if string(s.key()) == "thought_signature" {
				k = s.skip()
			} else {
				s.skip()
			}
		}
	}
	return k
}

func chatFunction(s *scanner, c *Call) {
	c.Name, c.NameKind = nil, Absent
	c.noArguments()
	if c.FuncKind = s.kind(); c.FuncKind != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "name":
			c.Name, c.NameKind = s.text()
		case "arguments":
			c.arguments(s)
		default:
			s.skip()
		}
	}
}
