package facts

import (
	"bytes"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

// geminiContent reads a content, which has a role and parts. A content without a role is the user's. functionResponse parts
// are replies, whatever the role.
func (f *Request) geminiContent(s *scanner, m *Message) {
	calls, replies := len(f.calls), len(f.replies)
	var content texts
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "role":
			m.RoleName, m.RoleKind = s.text()
			m.Role = geminiRole(m.RoleName, m.RoleKind)
		case "parts":
			f.calls, f.replies = f.calls[:calls], f.replies[:replies]
			f.geminiParts(s, m, &content)
		default:
			m.unknown(s, key)
		}
	}
	if m.RoleKind <= Null {
		m.Role = RoleUser
	}
	if m.Role == RoleAssistant { // only now, because many clients write the role last
		m.ContentHash = content.hash(f, s)
	} else {
		m.Signed = 0
	}
	f.own(m, calls, replies)
}

// geminiRole returns the role in this API, in upper or lower case. "assistant" is RoleOther, because the API rejects such a
// content.
func geminiRole(role []byte, k Kind) Role {
	switch {
	case k == String && len(role) == 0, isWord(role, "user"), isWord(role, "function"):
		return RoleUser
	case isWord(role, "model"):
		return RoleAssistant
	}
	if r := roleOf(role, k); r != RoleAssistant {
		return r
	}
	return RoleOther
}

// geminiParts reads the parts of a content. It collects the texts unless the content is known not to be the model's. Empty
// texts are ignored, because some clients drop them and others do not.
func (f *Request) geminiParts(s *scanner, m *Message, t *texts) {
	m.Parts, m.PartCount, m.FirstPart, m.Reasoning, m.Signed, *t = 0, 0, 0, Absent, 0, texts{}
	f.serverUses = f.serverUses[:0]
	start := s.i
	m.Content, m.ContentBytes = s.kind(), 0
	if m.Content != Array && m.Content != Object {
		m.ContentBytes, _ = s.sizedText(m.Content)
		return
	}
	one := m.Content == Object
	m.Content = Array
	for more := one || s.open(); more; more = !one && s.more(']') {
		p := f.geminiPart(s, m)
		m.addPart(p.kind)
		if p.kind&PartReasoning != 0 {
			m.Reasoning = String
		}
		m.Signed = foldSignature(s, m.Signed, p.signature)
		if p.kind&PartText != 0 && textBytes(p.text) > 0 && (m.Role == RoleAssistant || m.Role == RoleNone) {
			t.add(f, p.text)
		}
	}
	m.ContentBytes = s.i - start
}

// A geminiPart is one part. Its slices are raw, without the quotes of strings.
type geminiPart struct {
	kind      Parts
	text      []byte // text or thought; nil if there is neither
	signature []byte // empty if there is none
	args      []byte // arguments of a call
}

// geminiPart reads a part of m and appends its call or reply to those of f. The single data member of a part determines its
// type. A part without a data member is a thought if it is marked as a thought or signed. Otherwise it counts as an empty
// text, because the API rejects both with the same message. A signed empty text is not blank, because models send such
// texts and require them back.
func (f *Request) geminiPart(s *scanner, m *Message) (p geminiPart) {
	if s.kind() != Object {
		s.skip()
		return geminiPart{kind: PartBad}
	}
	calls, replies := len(f.calls), len(f.replies)
	var data Parts // part types of the members other than text
	var thought bool
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "text":
			if k := s.kind(); k != String && k != Null {
				data |= PartBad
			}
			p.text = s.rawText()
		case "thought":
			thought = s.isTrue()
		case "thoughtSignature", "thought_signature":
			p.signature = s.rawText()
		case "functionCall", "function_call":
			f.calls = f.calls[:calls]
			if s.kind() == Null {
				s.skip()
				continue
			}
			data |= PartCall
			p.args = f.geminiCall(s)
		case "functionResponse", "function_response":
			f.replies = f.replies[:replies]
			if s.kind() == Null {
				s.skip()
				continue
			}
			data |= PartReply
			f.geminiReply(s, m)
		case "inlineData", "inline_data", "fileData", "file_data":
			data |= geminiMedia(s)
		case "executableCode", "executable_code", "codeExecutionResult", "code_execution_result",
			"audioTranscription", "audio_transcription":
			if s.skip() != Null {
				data |= PartOther
			}
		case "toolCall", "tool_call":
			if id, k := geminiServerID(s); k != Null {
				data |= PartOther
				m.Fields |= FieldServerUse
				f.serverUses = append(f.serverUses, id)
			}
		case "toolResponse", "tool_response":
			if id, k := geminiServerID(s); k != Null {
				data |= PartOther
				m.noteServerResult(f, id)
			}
		case "videoMetadata", "video_metadata", "mediaResolution", "media_resolution", "partMetadata", "part_metadata":
			s.skip()
		default:
			m.unknown(s, key)
		}
	}
	p.kind = data
	switch {
	case p.text != nil && thought:
		p.kind |= PartReasoning
	case p.text != nil:
		p.kind |= PartText
		if len(p.signature) == 0 && textBytes(p.text) == 0 {
			p.kind |= PartBlank
		}
	case data == 0 && (thought || len(p.signature) > 0):
		p.kind = PartReasoning
	case data == 0:
		p.kind = PartText | PartBlank
	}
	if len(f.calls) > calls && len(p.signature) > 0 {
		f.calls[calls].Signature = String
	}
	return p
}

// geminiCall reads a functionCall. Arguments are optional: a call without arguments, or with null, is valid and has ArgsKind
// Absent.
func (f *Request) geminiCall(s *scanner) (args []byte) {
	c := f.newCall()
	if c == nil {
		s.skip()
		return nil
	}
	c.Start, c.Kind = s.i, s.kind()
	c.FuncKind = c.Kind
	if c.Kind != Object {
		s.skip()
		c.End = s.i
		return nil
	}
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "name":
			c.Name, c.NameKind = s.text()
		case "id":
			c.ID, c.IDKind = s.text()
		case "args":
			start := s.i
			c.arguments(s)
			args = s.b[start:s.i]
			if c.ArgsKind == Null {
				c.noArguments()
				args = nil
			}
		case "partialArgs", "partial_args", "willContinue", "will_continue":
			s.skip()
		default:
			c.Fields |= FieldUnknown
			s.skip()
		}
	}
	c.End = s.i
	return args
}

// geminiServerID reads a toolCall or toolResponse, of a tool that the provider ran, and returns its id, and its kind.
func geminiServerID(s *scanner) (id []byte, k Kind) {
	if k = s.kind(); k != Object {
		s.skip()
		return nil, k
	}
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) == "id" {
			id, _ = s.text()
		} else {
			s.skip()
		}
	}
	return id, k
}

// noteServerResult notes the result of a tool that the provider ran, which belongs to the call with the same id before it. It
// returns the index of that call in serverUses, or -1.
func (m *Message) noteServerResult(f *Request, id []byte) int {
	i := slices.IndexFunc(f.serverUses, func(use []byte) bool { return bytes.Equal(use, id) })
	if i < 0 {
		m.Fields |= FieldServerOrphan
	}
	return i
}

// geminiReply reads a functionResponse of m. Content is the kind of the member response. Parts are the types of the media in
// the member parts, which newer models accept.
func (f *Request) geminiReply(s *scanner, m *Message) {
	r := f.newReply()
	if r == nil {
		s.skip()
		return
	}
	r.Start, r.After = s.i, m.Parts
	if s.kind() != Object {
		s.skip()
		r.End = s.i
		return
	}
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "name":
			r.Name, r.NameKind = s.text()
		case "id":
			r.ID, r.IDKind = s.text()
		case "response":
			r.Content = s.kind()
			r.ContentBytes, _ = s.sizedText(r.Content)
		case "parts":
			geminiReplyParts(s, r)
		case "willContinue", "will_continue", "scheduling":
			s.skip()
		default:
			m.unknown(s, key)
		}
	}
	r.End = s.i
}

func geminiReplyParts(s *scanner, r *Reply) {
	r.Parts, r.PartCount = 0, 0
	for one, more := s.enterList(); more; more = !one && s.more(']') {
		r.PartCount++
		if s.kind() != Object {
			s.skip()
			r.Parts |= PartBad
			continue
		}
		for more := s.open(); more; more = s.more('}') {
			switch string(s.key()) {
			case "inlineData", "inline_data", "fileData", "file_data":
				r.Parts |= geminiMedia(s)
			default:
				s.skip()
			}
		}
	}
}

// geminiMedia returns the part type of inlineData or fileData, or 0 for null.
func geminiMedia(s *scanner) Parts {
	switch s.kind() {
	case Object:
	case Null:
		s.skip()
		return 0
	default:
		s.skip()
		return PartBad
	}
	part := PartFile
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "mimeType", "mime_type":
			mime, _ := s.text()
			switch {
			case bytes.HasPrefix(mime, []byte("image/")):
				part = PartImage
			case bytes.HasPrefix(mime, []byte("audio/")):
				part = PartAudio
			default:
				part = PartFile
			}
		default:
			s.skip()
		}
	}
	return part
}

// foldSignature folds the signature encoded by raw into sum (see Signed). Google's answers use the standard Base64 alphabet,
// but its Python client sends the same bytes in the URL-safe alphabet. Both are hashed in the standard alphabet, without
// padding. The values that disable the provider's check are not signatures and are ignored.
func foldSignature(s *scanner, sum uint64, raw []byte) uint64 {
	if len(raw) == 0 || s.err != nil {
		return sum
	}
	n := len(s.scratch)
	escaped := bytes.IndexByte(raw, '\\') >= 0
	if escaped {
		s.scratch = jsonscan.AppendText(s.scratch, raw)
		raw = s.scratch[n:]
	}
	switch string(raw) {
	case "skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=",
		"context_engineering_is_the_way_to_go", "Y29udGV4dF9lbmdpbmVlcmluZ19pc190aGVfd2F5X3RvX2dv":
		s.scratch = s.scratch[:n]
		return sum
	}
	if bytes.IndexByte(raw, '-') >= 0 || bytes.IndexByte(raw, '_') >= 0 {
		if !escaped {
			s.scratch = append(s.scratch, raw...)
			raw = s.scratch[n:]
		}
		for i, c := range raw {
			switch c {
			case '-':
				raw[i] = '+'
			case '_':
				raw[i] = '/'
			}
		}
	}
	sum = foldHash(sum, xxh3.Hash(bytes.TrimRight(raw, "=")))
	s.scratch = s.scratch[:n]
	return sum
}
