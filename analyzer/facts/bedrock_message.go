package facts

import "strings"

func (f *Request) bedrockMessages(s *scanner) {
	f.cache.ownBlocks = true
	f.messages(s, (*Request).bedrockMessage)
}

func (f *Request) bedrockMessage(s *scanner, m *Message) {
	calls, replies := len(f.calls), len(f.replies)
	var content texts
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "role":
			m.role(s)
		case "content":
			f.calls, f.replies, content = f.calls[:calls], f.replies[:replies], texts{}
			f.unmarkMessage()
			f.bedrockContent(s, m, &content)
		default:
			m.unknown(s, key) // the SDKs of AWS reject the key; whether AWS does is unknown
		}
	}
	if s.err != nil {
		return
	}
	if m.Role == RoleAssistant { // only now, because the role may follow the content
		m.ContentHash = content.hash(f, s)
	} else {
		m.Signed = 0
	}
	f.own(m, calls, replies)
}

func (f *Request) bedrockContent(s *scanner, m *Message, t *texts) {
	m.Parts, m.PartCount, m.FirstPart, m.Reasoning, m.Signed = 0, 0, 0, Absent, 0
	start := s.i
	m.Content = s.kind()
	if m.Content != Array {
		var text []byte
		if m.ContentBytes, text = s.sizedText(m.Content); text != nil {
			t.add(f, text)
		}
		return
	}
	for more := s.open(); more; more = s.more(']') {
		m.addPart(f.bedrockBlock(s, m, t))
	}
	m.ContentBytes = s.i - start
}

// bedrockBlock reads a block, whose only key is its type. A null value counts as absent, as in all protocols of AWS. If
// there are several keys, it returns the part types of all of them.
func (f *Request) bedrockBlock(s *scanner, m *Message, t *texts) (part Parts) {
	if s.kind() != Object {
		s.skip()
		return PartBad
	}
	for more := s.open(); more; more = s.more('}') {
		key := s.key()
		if s.kind() == Null {
			s.skip()
			continue
		}
		switch string(key) {
		case "text":
			part |= f.bedrockText(s, m, t)
		case "toolUse":
			part |= f.bedrockCall(s)
		case "toolResult":
			part |= f.bedrockReply(s, m)
		case "reasoningContent":
			part |= m.bedrockReasoning(s)
		case "citationsContent":
			part |= f.bedrockCited(s, m, t)
		case "cachePoint":
			if mark := s.cacheMark(); mark.set {
				f.markPart(mark, m.PartCount)
				part |= PartOther
			} else {
				part |= PartBad
			}
		default:
			media := bedrockMedia(key)
			if media == 0 {
				part |= PartOther
				m.unknown(s, key)
			} else if s.skip() == Object {
				part |= media
			} else {
				part |= PartBad
			}
		}
	}
	if part == 0 {
		return PartBad
	}
	return part
}

// bedrockMedia returns the part type of a block with this key if the value is an object that contains no facts, else 0.
func bedrockMedia(key []byte) Parts {
	switch string(key) {
	case "image":
		return PartImage
	case "audio":
		return PartAudio
	case "document":
		return PartFile
	case "video", "searchResult", "guardContent":
		return PartOther
	}
	return 0
}

// bedrockText reads the text of a block. It collects the text unless the message is known not to be an assistant's. Empty
// texts are ignored, because an answer has no block for an empty text.
func (f *Request) bedrockText(s *scanner, m *Message, t *texts) Parts {
	raw := s.rawText()
	if raw == nil {
		return PartBad
	}
	if textBytes(raw) == 0 {
		return PartText | PartBlank
	}
	if m.Role == RoleAssistant || m.Role == RoleNone {
		t.add(f, raw)
	}
	return PartText
}

// bedrockCited reads citationsContent, whose texts are part of the text of the message.
func (f *Request) bedrockCited(s *scanner, m *Message, t *texts) Parts {
	if s.kind() != Object {
		s.skip()
		return PartBad
	}
	part := PartOther
	s.citedTexts(func() { part = f.bedrockText(s, m, t) &^ PartBlank })
	return part
}

// citedTexts calls text at each text of citationsContent: {"content": [{"text": …}], "citations": […]}. A stream sends these
// members as the text and the citations of one block.
func (s *scanner) citedTexts(text func()) {
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) != "content" {
			s.skip()
			continue
		}
		for more := s.enter(Array); more; more = s.more(']') {
			for more := s.enter(Object); more; more = s.more('}') {
				if string(s.key()) == "text" {
					text()
				} else {
					s.skip()
				}
			}
		}
	}
}

// bedrockCall reads toolUse. A call of a tool that AWS runs is not a call for the agent.
func (f *Request) bedrockCall(s *scanner) Parts {
	c := Call{Kind: s.kind(), Start: s.i}
	if c.FuncKind = c.Kind; c.Kind != Object {
		s.skip()
	} else {
		server := false
		for more := s.open(); more; more = s.more('}') {
			switch string(s.key()) {
			case "toolUseId":
				c.ID, c.IDKind = s.text()
			case "name":
				c.Name, c.NameKind = s.text()
			case "input":
				c.arguments(s)
			case "type":
				kind, _ := s.text()
				server = bedrockServerCall(kind)
			default:
				c.Fields |= FieldUnknown
				s.skip()
			}
		}
		if server {
			return PartOther
		}
	}
	c.End = s.i
	if kept := f.newCall(); kept != nil {
		*kept = c
	}
	return PartCall
}

// bedrockServerCall reports whether kind is the type of a toolUse that AWS runs. In answers, other calls have a type, too.
func bedrockServerCall(kind []byte) bool { return string(kind) == "server_tool_use" }

// bedrockReply reads toolResult. The result of a tool that AWS ran, such as nova_grounding_result, is in an assistant
// message and does not answer a call for the agent.
func (f *Request) bedrockReply(s *scanner, m *Message) Parts {
	r := Reply{After: m.Parts, Start: s.i}
	if s.kind() != Object {
		s.skip()
	} else {
		server := false
		for more := s.open(); more; more = s.more('}') {
			switch key := s.key(); string(key) {
			case "toolUseId":
				r.ID, r.IDKind = s.text()
			case "content":
				r.bedrockContent(s)
			case "status":
				status, _ := s.text()
				r.IsError = string(status) == "error"
			case "type":
				kind, _ := s.text()
				server = strings.HasSuffix(string(kind), "_result") && string(kind) != "tool_result"
			default:
				m.unknown(s, key)
			}
		}
		if server {
			return PartOther
		}
	}
	r.End = s.i
	if kept := f.newReply(); kept != nil {
		*kept = r
	}
	return PartReply
}

func (r *Reply) bedrockContent(s *scanner) {
	r.Parts, r.PartCount = 0, 0
	start := s.i
	r.Content = s.kind()
	if r.Content != Array {
		r.ContentBytes, _ = s.sizedText(r.Content)
		return
	}
	for more := s.open(); more; more = s.more(']') {
		r.Parts |= bedrockResult(s)
		r.PartCount++
	}
	r.ContentBytes = s.i - start
}

// bedrockResult reads a block of a toolResult. AWS rejects a member json that is not an object.
func bedrockResult(s *scanner) (part Parts) {
	if s.kind() != Object {
		s.skip()
		return PartBad
	}
	for more := s.open(); more; more = s.more('}') {
		key := s.key()
		want, is := Object, bedrockMedia(key)
		switch {
		case string(key) == "text":
			want, is = String, PartText
		case is == 0: // json and unknown keys
			is = PartOther
		}
		json := string(key) == "json"
		k := s.kind()
		raw := s.raw(k)
		switch {
		case s.err != nil:
			return PartBad
		case k == Null:
		case k != want && (json || is != PartOther):
			part |= PartBad
		case is == PartText && textBytes(raw[1:len(raw)-1]) == 0:
			part |= PartText | PartBlank
		default:
			part |= is
		}
	}
	if part == 0 {
		return PartBad
	}
	return part
}

// bedrockReasoning reads reasoningContent: {"reasoningText": {"text": …, "signature": …}} or {"redactedContent": …}.
func (m *Message) bedrockReasoning(s *scanner) Parts {
	if s.kind() != Object {
		s.skip()
		return PartBad
	}
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); {
		case string(key) == "redactedContent":
			m.Reasoning = max(m.Reasoning, s.kind())
			m.bedrockSigned(s)
		case string(key) == "reasoningText" && s.kind() == Object:
			signed := false
			for more := s.open(); more; more = s.more('}') {
				switch string(s.key()) {
				case "text":
					m.Reasoning = max(m.Reasoning, s.skip())
				case "signature":
					signed = s.kind() != Null
					m.bedrockSigned(s)
				default:
					s.skip()
				}
			}
			if !signed {
				m.Fields |= FieldUnsigned
			}
		default:
			s.skip()
		}
	}
	return PartReasoning
}

// bedrockSigned folds a signature into m.Signed.
func (m *Message) bedrockSigned(s *scanner) {
	if raw := s.rawText(); len(raw) > 0 {
		m.Signed = foldHash(m.Signed, s.hashText(raw))
	}
}
