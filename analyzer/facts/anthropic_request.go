package facts

// anthropic reads a request of the Messages API. Requests to Vertex AI (rawPredict) and Bedrock (invoke) differ only in
// anthropic_version and in the model, which is in the URL.
func (f *Request) anthropic(s *scanner) {
	for more := s.open(); more; more = f.nextMember(s) {
		switch string(f.member(s)) {
		case "messages":
			f.anthropicMessages(s)
		case "model":
			f.Model, _ = s.text()
		case "stream":
			f.Stream = s.isTrue()
		case "max_tokens":
			f.MaxTokens = s.number()
		case "system":
			f.system(s)
		case "tools":
			f.declared(s, (*Request).anthropicTools)
		case "mcp_servers":
			f.OpenTools = s.skip() == Array || f.OpenTools
		case "tool_choice":
			f.ToolChoice = s.kind()
			f.anthropicChoice(s)
		case "thinking":
			f.thinking(s)
		case "container":
			f.Container = s.skip()
		case "thread":
			f.Threaded = s.kind() == Object
			f.PreviousResponse = s.member("previous_message_id")
			f.Stored = f.Stored || len(f.PreviousResponse) > 0
		case "compaction":
			f.Compacts = s.skip() == Object
		case "cache_control":
			f.automatic(s)
		default:
			s.skip()
		}
	}
}

// anthropicTools reads tools. Tools of Anthropic's own types (web_search_20250305, mcp_toolset) may declare functions with
// other names.
func (f *Request) anthropicTools(s *scanner) {
	for more := f.enterTools(s); more; more = s.more(']') {
		start := s.i
		if s.kind() != Object {
			s.skip()
			f.declare(s, start, cacheMark{})
			continue
		}
		typ, name, mark := s.typeNameAndMark()
		f.declare(s, start, mark)
		f.tool(name)
		if len(typ) > 0 && string(typ) != "custom" {
			f.OpenTools = true
		}
	}
}

// anthropicChoice reads tool_choice, an object whose type is auto, any, none, or tool with the name of the forced tool.
func (f *Request) anthropicChoice(s *scanner) {
	f.Forced, f.Forces = nil, false
	if s.kind() != Object {
		s.skip()
		return
	}
	typ, name := s.typeAndName()
	if string(typ) == "tool" {
		f.Forced = name
	}
	f.Forces = string(typ) == "tool" || string(typ) == "any"
}

func (f *Request) anthropicMessages(s *scanner) { f.messages(s, (*Request).anthropicMessage) }

func (f *Request) anthropicMessage(s *scanner, m *Message) {
	calls, replies := len(f.calls), len(f.replies)
	var text texts
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "role":
			m.role(s)
		case "content":
			f.calls, f.replies = f.calls[:calls], f.replies[:replies]
			f.unmarkMessage()
			f.anthropicContent(s, m, &text)
		case "cache_control":
			m.Fields |= FieldCacheControl
			s.skip()
		case "clear_at", "output_config": // keys of beta versions
			s.skip()
		default:
			m.unknown(s, key)
		}
	}
	if s.err != nil {
		return
	}
	if m.Role == RoleAssistant { // only now, because the role may follow the content
		m.ContentHash = text.hash(f, s)
	} else {
		m.Signed, m.Thought = 0, 0
	}
	f.own(m, calls, replies)
}

// anthropicContent reads the content of a message: a string or an array of blocks.
func (f *Request) anthropicContent(s *scanner, m *Message, t *texts) {
	m.Parts, m.PartCount, m.FirstPart, m.Reasoning, m.Signed, m.Thought, *t = 0, 0, 0, Absent, 0, 0, texts{}
	f.serverUses, f.served = f.serverUses[:0], 0
	start := s.i
	if m.Content = s.kind(); m.Content != Array {
		var text []byte
		if m.ContentBytes, text = s.sizedText(m.Content); text != nil {
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
	if f.served < len(f.serverUses) {
		m.Fields |= FieldServerOpen
	}
}

// anthropicPart adds a block to its message.
func (f *Request) anthropicPart(s *scanner, m *Message, b *anthropicBlock, t *texts) {
	before := m.Parts
	m.addPart(b.part())
	switch b.typ {
	case anthropicTextBlock:
		if b.text != nil && (m.Role == RoleAssistant || m.Role == RoleNone) {
			t.add(f, b.text)
		}
	case anthropicThinking, anthropicRedacted:
		k, sealed := b.reasoning()
		m.Reasoning = firstReasoning(m.Reasoning, k)
		if textBytes(sealed) > 0 {
			m.Signed = foldHash(m.Signed, s.hashText(sealed))
			if textBytes(b.thought) > 0 {
				m.Thought = foldHash(m.Thought, s.hashText(b.thought))
			}
		}
		if b.typ == anthropicThinking && sealed == nil {
			m.Fields |= FieldUnsigned
		}
	case anthropicToolUse:
		if c := f.newCall(); c != nil {
			*c = b.call
			c.Kind, c.FuncKind, c.Start, c.End = Object, Object, b.start, s.i
		}
		if b.sandboxed {
			m.Fields |= FieldSandboxCall
		}
	case anthropicToolResult:
		if r := f.newReply(); r != nil {
			*r = b.reply
			r.After, r.Start, r.End = before, b.start, s.i
		}
		if b.inner != nil {
			m.note(FieldUnknown, b.innerNull)
			m.other(s, b.inner)
		}
	case anthropicMoreTools:
		f.OpenTools = true
	case anthropicCompaction: // replaces the blocks before it, and may declare tools
		f.Stored, f.OpenTools = true, true
	case anthropicServerUse:
		m.Fields |= FieldServerUse
		f.serverUses = append(f.serverUses, b.call.ID)
		if b.sandboxed { // the code receives its result
			f.serve(len(f.serverUses) - 1)
		}
	case anthropicServerResult:
		f.serve(m.noteServerResult(f, b.reply.ID))
	case anthropicBad, anthropicOther, anthropicImage, anthropicDocument:
	}
	if b.keys&anthropicKeyCache != 0 {
		m.Fields |= FieldCacheControl
		f.markPart(b.mark, m.PartCount-1)
	}
	if key, null := b.unknown(s); key != nil {
		m.note(FieldUnknown, null)
		m.other(s, key)
	}
}

// serve moves call i of serverUses to those that need no further result.
func (f *Request) serve(i int) {
	if i >= f.served {
		f.serverUses[f.served], f.serverUses[i] = f.serverUses[i], f.serverUses[f.served]
		f.served++
	}
}
