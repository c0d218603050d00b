package facts

import "bytes"

// interactions reads a request to Gemini's Interactions API, POST /v1beta/interactions. Sources, both of 2026-08:
// ai.google.dev/gemini-api/docs/interactions and googleapis/python-genai (google/genai/_gaos/types/interactions).
func (f *Request) interactions(s *scanner) {
	for more := s.open(); more; more = f.nextMember(s) {
		switch key := f.member(s); string(key) {
		case "input":
			f.interactionInput(s)
		case "model", "agent": // a request has one of them
			f.Model, _ = s.text()
		case "stream":
			f.Stream = s.isTrue()
		case "system_instruction":
			f.system(s)
		case "tools":
			f.declared(s, (*Request).responsesTools)
		case "generation_config":
			f.interactionConfig(s)
		case "store":
			f.Unstored = s.isFalse()
		case "previous_interaction_id":
			f.PreviousResponse, _ = s.text()
			f.Stored = f.Stored || len(f.PreviousResponse) > 0
		default:
			s.skip()
		}
	}
}

// interactionInput reads steps, or a list of contents, each of which counts as a message of the user. A single content is like
// a string.
func (f *Request) interactionInput(s *scanner) {
	one := s.kind() == Object
	f.messages(s, (*Request).readStep)
	if one {
		f.MessagesKind = String
	}
}

func (f *Request) interactionConfig(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "max_output_tokens":
			f.MaxTokens = s.number()
		case "thinking_level":
			if s.skip() == String {
				f.Thinking = ThinkingOn
			}
		case "tool_choice":
			f.interactionChoice(s)
		default:
			s.skip()
		}
	}
}

// interactionChoice reads a tool choice: a mode, or {"allowed_tools": {"mode": …, "tools": [names]}}.
func (f *Request) interactionChoice(s *scanner) {
	f.ToolChoice, f.Forced = s.kind(), nil
	if f.ToolChoice != Object {
		mode, _ := s.text()
		f.Forces = forces(mode)
		return
	}
	var mode, name []byte
	names := 0
	for more := s.open(); more; more = s.more('}') {
		if string(s.key()) != "allowed_tools" {
			s.skip()
			continue
		}
		for more := s.enter(Object); more; more = s.more('}') {
			switch string(s.key()) {
			case "mode":
				mode, _ = s.text()
			case "tools":
				for more := s.enter(Array); more; more = s.more(']') {
					name, _ = s.text()
					names++
				}
			default:
				s.skip()
			}
		}
	}
	if f.Forces = forces(mode); f.Forces && names == 1 {
		f.Forced = name
	}
}

// A step contains the members of an input element until its type is known, because the type may be the last member.
type step struct {
	typ             []byte
	typeKind        Kind
	id, callID      []byte
	idKind, refKind Kind
	name            []byte
	nameKind        Kind
	arguments       int // offset of the value; 0 if absent
	isError         bool
	content, result itemContent
	texts           texts
	text            itemContent // of a content that is no step
	reasoning       Kind
	signature       []byte // raw
}

func (f *Request) readStep(s *scanner, m *Message) {
	start := s.i
	var st step
	for more := s.open(); more; more = s.more('}') {
		f.stepMember(s, m, &st)
	}
	if s.err != nil {
		return
	}
	m.Fields, m.NullFields, m.OtherField = 0, 0, nil
	calls, replies := len(f.calls), len(f.replies)
	switch m.Item = st.kind(); m.Item {
	case ItemMessage:
		f.stepMessage(s, m, &st)
	case ItemCall:
		m.Role = RoleAssistant
		st.asCall(f, s, start)
		if st.refKind > Absent {
			m.unknownKey(s, "call_id")
		}
	case ItemReply:
		m.Role = RoleTool
		m.content(&st.result)
		if r := f.newReply(); r != nil {
			*r = Reply{
				ID: st.callID, IDKind: st.refKind, Name: st.name, NameKind: st.nameKind, Content: st.result.kind, ContentBytes: st.result.bytes,
				Parts: st.result.parts, PartCount: st.result.count, IsError: st.isError, Start: start, End: s.i,
			}
		}
		if st.idKind > Absent {
			m.unknownKey(s, "id")
		}
	case ItemReasoning:
		m.Reasoning = firstReasoning(st.reasoning, String)
		m.Signed = foldSignature(s, 0, st.signature)
	default:
		switch m.Unpaired = false; {
		case bytes.HasSuffix(st.typ, serverCall):
			m.Fields |= FieldServerUse
		case bytes.HasSuffix(st.typ, serverStepResult):
			m.Fields |= FieldServerOrphan // its call is another step
		default:
			m.Unpaired = true
		}
	}
	f.own(m, calls, replies)
}

// unknownKey records a key of a step that only another step has. The provider refuses them with status 400
// (router-for-me/CLIProxyAPI#5830, 2026-09-15); of further keys that is not known.
func (m *Message) unknownKey(s *scanner, key string) {
	m.other(s, []byte(key))
	m.note(FieldUnknown, false)
}

func (f *Request) stepMember(s *scanner, m *Message, st *step) {
	switch string(s.key()) {
	case "type":
		st.typ, st.typeKind = s.text()
	case "id":
		st.id, st.idKind = s.text()
	case "call_id":
		st.callID, st.refKind = s.text()
	case "name":
		st.name, st.nameKind = s.text()
	case "arguments":
		st.arguments = s.i
		s.skip()
	case "content":
		st.texts = texts{}
		f.itemContent(s, m, &st.content, &st.texts)
	case "result":
		f.itemContent(s, m, &st.result, nil)
	case "is_error":
		st.isError = s.isTrue()
	case "text":
		st.text = itemContent{kind: s.kind()}
		st.text.bytes, _ = s.sizedText(st.text.kind)
	case "summary":
		st.reasoning = s.skip()
	case "signature":
		st.signature = s.rawText()
	case "role": // of a message before the schema of June 2026
		m.role(s)
	default:
		s.skip()
	}
}

func (st *step) kind() Item {
	if st.typeKind <= Null {
		return ItemMessage
	}
	switch string(st.typ) {
	case "user_input", "model_output":
		return ItemMessage
	case "function_call":
		return ItemCall
	case "function_result":
		return ItemReply
	case "thought":
		return ItemReasoning
	}
	if contentPart(st.typ) != PartOther {
		return ItemMessage
	}
	return ItemOther
}

// contentPart returns the part of a content, which may take the place of a step.
func contentPart(typ []byte) Parts {
	switch string(typ) {
	case "text":
		return PartText
	case "image":
		return PartImage
	case "audio":
		return PartAudio
	case "document", "video", "file":
		return PartFile
	}
	return PartOther
}

// serverCall and serverStepResult end the types of steps that are calls and results of tools that the provider runs:
// google_search_call with an id, and google_search_result with the same call_id.
var serverCall, serverStepResult = []byte("_call"), []byte("_result")

// isServerStep reports whether steps of this type are calls or results of tools that the provider runs.
func isServerStep(typ []byte) bool {
	return bytes.HasSuffix(typ, serverCall) || bytes.HasSuffix(typ, serverStepResult)
}

func (f *Request) stepMessage(s *scanner, m *Message, st *step) {
	switch string(st.typ) {
	case "user_input":
		m.Role = RoleUser
	case "model_output":
		m.Role = RoleAssistant
	case "":
		if string(m.RoleName) == "model" {
			m.Role = RoleAssistant
		}
	default: // a content, which is the user's
		m.Role = RoleUser
		if part := contentPart(st.typ); part == PartText {
			m.content(&st.text)
		} else {
			m.Content = Array
			m.addPart(part)
		}
		return
	}
	m.content(&st.content)
	if m.Role == RoleAssistant {
		m.ContentHash = st.texts.hash(f, s)
	}
}

func (st *step) asCall(f *Request, s *scanner, start int) {
	c := f.newCall()
	if c == nil {
		return
	}
	*c = Call{
		ID: st.id, IDKind: st.idKind, Name: st.name, NameKind: st.nameKind, Kind: Object, FuncKind: Object, TypeKind: String, Type: TypeFunction,
		Start: start, End: s.i,
	}
	if len(st.signature) > 0 {
		c.Signature = String
	}
	if st.arguments > 0 {
		c.arguments(&scanner{b: s.b, i: st.arguments})
	}
}
