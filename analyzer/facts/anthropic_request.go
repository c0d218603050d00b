package facts

// anthropic reads a request of the Messages API. The bodies of Vertex AI (rawPredict) and Bedrock (invoke) are the same
// but for anthropic_version, and a model that the URL names.
func (f *Request) anthropic(s *scanner) {
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "messages":
			f.messages(s, (*Request).anthropicMessage)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = string(s.raw(s.kind())) == "true"
		case "max_tokens":
			f.MaxTokens = s.number()
		case "system":
			f.System = s.skip()
		case "tools":
			f.declared(s, (*Request).anthropicTools)
		case "mcp_servers":
			f.OpenTools = s.skip() == Array || f.OpenTools
		case "tool_choice":
			f.ToolChoice = s.kind()
			f.anthropicChoice(s)
		case "thinking":
			f.thinking(s)
		default:
			s.skip()
		}
	}
}

// anthropicTools reads tools. Those of Anthropic's own types (web_search_20250305, mcp_toolset) may declare functions
// under other names.
func (f *Request) anthropicTools(s *scanner) {
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
		f.tool(name)
		if len(typ) > 0 && string(typ) != "custom" {
			f.OpenTools = true
		}
	}
}

// anthropicChoice reads tool_choice: {"type": "auto"}, any, none, or tool with the name that it forces.
func (f *Request) anthropicChoice(s *scanner) {
	f.Forced = nil
	if s.kind() != Object {
		s.skip()
	} else if typ, name := s.typeAndName(); string(typ) == "tool" {
		f.Forced = name
	}
}

func (f *Request) anthropicMessages(s *scanner) { f.messages(s, (*Request).anthropicMessage) }

func (f *Request) anthropicMessage(s *scanner, m *Message) {
	calls, replies := len(f.calls), len(f.replies)
	var text texts
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "role":
			m.RoleName, m.RoleKind = s.text()
			m.Role = roleOf(m.RoleName, m.RoleKind)
		case "content":
			f.calls, f.replies = f.calls[:calls], f.replies[:replies]
			f.anthropicContent(s, m, &text)
		case "cache_control":
			m.Fields |= FieldCacheControl
			s.skip()
		case "clear_at", "output_config": // of beta versions
			s.skip()
		default:
			key = s.keep(key)
			k := s.kind()
			v := s.raw(k)
			m.foreign(key, k == Null || string(v) == "false", s)
		}
	}
	if s.err != nil {
		return
	}
	if m.Role == RoleAssistant { // only now the role is known: it may come after the content
		m.ContentHash = text.hash(f, s)
	} else {
		m.Signed = 0
	}
	f.own(m, calls, replies)
}

// foreign notes a key that the schema does not have; null, that its value is null or false.
func (m *Message) foreign(key []byte, null bool, s *scanner) {
	switch {
	case !null:
		m.NullFields &^= FieldUnknown
	case m.Fields&FieldUnknown == 0:
		m.NullFields |= FieldUnknown
	}
	m.Fields |= FieldUnknown
	m.other(s, key)
}

// anthropicContent reads a content: a string, or blocks.
func (f *Request) anthropicContent(s *scanner, m *Message, t *texts) {
	m.Parts, m.PartCount, m.FirstPart, m.Reasoning, m.Signed, *t = 0, 0, 0, Absent, 0, texts{}
	start := s.i
	if m.Content = s.kind(); m.Content != Array {
		var text []byte
		if m.ContentBytes, text = anthropicText(s, m.Content); text != nil {
			t.add(f, text)
		}
		return
	}
	for more := s.open(); more; more = s.more(']') {
		var b anthropicBlock
		b.read(s)
		if s.err != nil {
			return
		}
		f.anthropicPart(s, m, &b, t)
	}
	m.ContentBytes = s.i - start
}

// anthropicPart adds a block to its message.
func (f *Request) anthropicPart(s *scanner, m *Message, b *anthropicBlock, t *texts) {
	before, part := m.Parts, b.part()
	if m.PartCount == 0 {
		m.FirstPart = part
	}
	m.Parts |= part
	m.PartCount++
	switch b.typ {
	case anthropicTextBlock:
		if b.text != nil && (m.Role == RoleAssistant || m.Role == RoleNone) {
			t.add(f, b.text)
		}
	case anthropicThinking, anthropicRedacted:
		k, sealed := b.reasoning()
		m.Reasoning = firstReasoning([3]Kind{m.Reasoning, k})
		if textBytes(sealed) > 0 {
			m.Signed = anthropicSigned(m.Signed, s.hashText(sealed))
		}
	case anthropicToolUse:
		if c := f.newCall(); c != nil {
			*c = b.call
			c.Kind, c.FuncKind, c.Start, c.End = Object, Object, b.start, s.i
		}
	case anthropicToolResult:
		if r := f.newReply(); r != nil {
			*r = b.reply
			r.After, r.Start, r.End = before, b.start, s.i
		}
		if b.inner != nil {
			m.foreign(b.inner, b.innerNull, s)
		}
	case anthropicMoreTools:
		f.OpenTools = true
	case anthropicBad, anthropicOther, anthropicImage, anthropicDocument:
	}
	if b.keys&anthropicKeyCache != 0 {
		m.Fields |= FieldCacheControl
	}
	if key, null := b.foreign(s); key != nil {
		m.foreign(key, null, s)
	}
}
