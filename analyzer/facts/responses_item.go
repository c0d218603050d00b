package facts

// itemKeys is a set of keys of input items.
type itemKeys uint32

const (
	keyCommon itemKeys = 1 << iota
	keyMessage
	keyContent // keys of messages and reasoning
	keyTool    // keys of calls and replies
	keyCall
	keyReply
	keyReasoning
	keyUnknown
)

// itemSchema maps known item types to the keys that the provider accepts. The provider rejects other keys with status 400:
// "Unknown parameter: 'input[1].metadata'." Keys on which the provider's documents disagree, such as status, are included.
var itemSchema = [...]itemKeys{
	ItemMessage:   keyCommon | keyMessage | keyContent,
	ItemCall:      keyCommon | keyTool | keyCall,
	ItemReply:     keyCommon | keyTool | keyReply,
	ItemReasoning: keyCommon | keyContent | keyReasoning,
	ItemReference: keyCommon,
}

// An item contains the members of an input element until its type is known, because the type may be the last member.
type item struct {
	start            int
	seen             itemKeys
	typ              []byte
	typeKind, idKind Kind
	call             Call // a call, or the ID and the name of a reply
	arguments, input int  // offsets of these values; 0 if absent
	action           int  // offset of what a call of another type does; 0 if absent
	tools            int  // length of the found tools
	environment      Kind // of a shell
	hosted           bool // the provider runs the tool
	content, output  itemContent
	text             texts // text parts of content, for the content hash
	reasoning        [3]Kind
	encrypted        []byte // raw encrypted_content
}

// An itemContent is the value of content or output.
type itemContent struct {
	kind         Kind
	bytes, count int
	parts, first Parts
}

func (f *Request) readItem(s *scanner, m *Message) {
	it := item{start: s.i}
	for more := s.open(); more; more = s.more('}') {
		f.itemMember(s, m, &it)
	}
	if s.err != nil {
		return
	}
	calls, replies := len(f.calls), len(f.replies)
	if isOtherCall(it.typ) || isOtherOutput(it.typ) {
		it.call.Name, it.call.NameKind = otherName(it.typ), Absent
	}
	if it.call.IDKind == Absent && string(it.typ) == "local_shell_call_output" {
		it.call.ID, it.call.IDKind = m.ID, it.idKind // clients write either
	}
	switch m.Item = it.kind(); m.Item {
	case ItemMessage:
		m.content(&it.content)
		m.Name, m.NameKind = it.call.Name, it.call.NameKind
		if m.Role == RoleAssistant {
			m.ContentHash = it.text.hash(f, s)
		}
	case ItemCall:
		it.asCall(f, s)
	case ItemReply:
		if isOtherOutput(it.typ) { // such outputs have formats of their own, which are not checked
			it.output = itemContent{kind: String, bytes: it.output.bytes + it.tools}
		}
		m.content(&it.output)
		it.asReply(f, s)
	case ItemReasoning:
		m.Reasoning = firstReasoning(it.reasoning[:]...)
		m.Signed = s.signed(it.encrypted)
	case ItemReference:
		f.Stored = true
	case ItemOther, NoItem:
		if m.Unpaired = mayBeCall(it.typ); m.Unpaired {
			m.CallID = it.call.ID
		}
	}
	f.otherItem(it.typ)
	f.own(m, calls, replies)
	m.itemRole()
	if m.Item == ItemOther || isOtherCall(it.typ) || isOtherOutput(it.typ) {
		m.Fields, m.NullFields, m.OtherField = 0, 0, nil
	} else if schema := itemSchema[m.Item]; it.seen&^schema != 0 {
		m.unknownKeys(s, it.start, schema)
	}
}

// itemMember reads one member of an item.
func (f *Request) itemMember(s *scanner, m *Message, it *item) {
	key := s.key()
	it.seen |= itemKey(key)
	switch string(key) {
	case "type":
		it.typ, it.typeKind = s.text()
	case "id":
		m.ID, it.idKind = s.text()
	case "role":
		m.role(s)
	case "content":
		it.text = texts{}
		it.reasoning[1] = s.kind()
		f.itemContent(s, m, &it.content, &it.text)
	case "output":
		f.itemContent(s, m, &it.output, nil)
	case "call_id":
		it.call.ID, it.call.IDKind = s.text()
	case "name":
		it.call.Name, it.call.NameKind = s.text()
	case "namespace":
		if it.call.Fields &^= FieldNamespace; s.skip() > Null {
			it.call.Fields |= FieldNamespace
		}
	case "arguments":
		it.arguments = s.i
		s.skip()
	case "input":
		it.input = s.i
		s.skip()
	case "action", "actions", "operation":
		if start := s.i; s.skip() > Null {
			it.action = start
		}
	case "tools":
		start := s.i
		s.skip()
		it.tools = s.i - start
	case "environment":
		var hosted bool
		it.environment, hosted = s.environment()
		it.hosted = it.hosted || hosted
	case "execution":
		it.hosted = s.isServer() || it.hosted
	case "encrypted_content":
		it.reasoning[0] = s.kind()
		it.encrypted = s.raw(it.reasoning[0])
	case "summary":
		it.reasoning[2] = s.skip()
	default:
		s.skip()
	}
}

// itemKey returns the set to which key belongs.
func itemKey(key []byte) itemKeys {
	switch string(key) {
	case "type", "id", "status", "created_by":
		return keyCommon
	case "role", "phase":
		return keyMessage
	case "content":
		return keyContent
	case "call_id", "name", "caller", "namespace":
		return keyTool
	case "arguments", "input", "async":
		return keyCall
	case "output":
		return keyReply
	case "summary", "encrypted_content":
		return keyReasoning
	}
	return keyUnknown
}

// kind returns the type of the item. Messages and references may omit their type. A call or reply whose call_id is null
// belongs to a tool that the provider runs, and so do a reply that has the name of a tool instead of a call_id, a shell call
// in a container of the provider, and a tool search with execution server.
func (it *item) kind() Item {
	if it.typeKind <= Null {
		if it.seen == keyCommon && it.idKind == String {
			return ItemReference
		}
		return ItemMessage
	}
	id := it.call.IDKind
	switch string(it.typ) {
	case "message":
		return ItemMessage
	case "function_call", "custom_tool_call":
		if id != Null {
			return ItemCall
		}
	case "function_call_output", "custom_tool_call_output":
		if id != Null && (id != Absent || it.call.NameKind == Absent) {
			return ItemReply
		}
	case "reasoning":
		return ItemReasoning
	case "item_reference":
		return ItemReference
	}
	switch {
	case id != String || it.hosted:
	case isOtherCall(it.typ):
		return ItemCall
	case isOtherOutput(it.typ):
		return ItemReply
	}
	return ItemOther
}

func (it *item) asCall(f *Request, s *scanner) {
	c := f.newCall()
	if c == nil {
		return
	}
	*c = it.call
	if isOtherCall(it.typ) {
		it.asOtherCall(c, s)
		return
	}
	c.Kind, c.FuncKind, c.TypeKind, c.Type = Object, Object, String, TypeFunction
	c.Start, c.End = it.start, s.i
	at := it.arguments
	custom := string(it.typ) == "custom_tool_call"
	if custom {
		c.Type, at = TypeCustom, it.input
	}
	if at > 0 {
		c.arguments(&scanner{b: s.b, i: at})
	}
	if custom {
		c.Args = ArgsUnknown // free text
	}
}

func (it *item) asOtherCall(c *Call, s *scanner) {
	c.Kind, c.TypeKind, c.Type = Object, String, TypeOther
	c.Start, c.End = it.start, s.i
	if string(it.typ) == "shell_call" && it.environment == Absent {
		c.Type = TypeEither
	}
	at := it.action
	if string(it.typ) == "tool_search_call" {
		at = it.arguments
	}
	if at > 0 {
		c.arguments(&scanner{b: s.b, i: at})
		c.Args = ArgsUnknown // not the arguments of a function
	}
}

func (it *item) asReply(f *Request, s *scanner) {
	if r := f.newReply(); r != nil {
		*r = Reply{
			ID: it.call.ID, IDKind: it.call.IDKind, Name: it.call.Name, NameKind: it.call.NameKind,
			Content: it.output.kind, ContentBytes: it.output.bytes, Parts: it.output.parts, PartCount: it.output.count,
			Start: it.start, End: s.i,
		}
	}
}

// otherItem records what an item implies for the rest of the request.
func (f *Request) otherItem(typ []byte) {
	switch string(typ) {
	case "compaction", "compaction_summary": // encrypted; replaces the messages and calls before it
		f.Stored = true
	case "additional_tools", "tool_search_output", "mcp_list_tools":
		f.OpenTools = true
	}
}

// itemRole sets the role of an item that is not a message.
func (m *Message) itemRole() {
	if m.Item == ItemMessage {
		return
	}
	m.Role, m.RoleKind, m.RoleName = RoleNone, Absent, nil
	switch m.Item {
	case ItemCall:
		m.Role = RoleAssistant
	case ItemReply:
		m.Role = RoleTool
	case NoItem, ItemMessage, ItemReasoning, ItemReference, ItemOther:
	}
}

func (m *Message) content(c *itemContent) {
	m.Content, m.ContentBytes = c.kind, c.bytes
	m.Parts, m.PartCount, m.FirstPart = c.parts, c.count, c.first
}

// unknownKeys records the keys outside the schema of the item at start.
func (m *Message) unknownKeys(s *scanner, start int, schema itemKeys) {
	again := scanner{b: s.b, i: start, scratch: s.scratch}
	for more := again.open(); more; more = again.more('}') {
		key := again.key()
		if itemKey(key)&schema != 0 {
			again.skip()
			continue
		}
		m.unknown(&again, key)
	}
	s.scratch = again.scratch
}

// signed returns the hash of the encrypted content of a reasoning item, or 0 if there is none.
func (s *scanner) signed(raw []byte) uint64 {
	if len(raw) <= len(`""`) || raw[0] != '"' {
		return 0
	}
	return s.hashText(raw[1 : len(raw)-1])
}

// itemContent reads the member content or output into c and, if t is not nil, adds its texts to t.
func (f *Request) itemContent(s *scanner, m *Message, c *itemContent, t *texts) {
	start := s.i
	*c = itemContent{kind: s.kind()}
	if c.kind != Array {
		var text []byte
		if c.bytes, text = s.sizedText(c.kind); text != nil && t != nil {
			t.add(f, text)
		}
		return
	}
	for more := s.open(); more; more = s.more(']') {
		part, text, mark := m.itemPart(s)
		f.markPart(mark, c.count)
		if c.count == 0 {
			c.first = part
		}
		c.parts |= part
		c.count++
		if t != nil && part&PartText != 0 {
			t.add(f, text)
		}
	}
	c.bytes = s.i - start
}

// itemPart reads a content part; text is the raw text of a text part.
func (m *Message) itemPart(s *scanner) (part Parts, text []byte, mark cacheMark) {
	part = PartBad
	for more := s.enter(Object); more; more = s.more('}') {
		switch key := s.key(); string(key) {
		case "type":
			if name, k := s.text(); k == String {
				part = itemPartOf(name)
			} else {
				part = PartBad
			}
		case "text":
			text = s.rawText()
		case "prompt_cache_breakpoint":
			mark = s.cacheMark()
		case "cache_control": // a key of Anthropic's API, certainly rejected
			m.unknown(s, key)
		default:
			s.skip()
		}
	}
	if part == PartText && text != nil && textBytes(text) == 0 {
		part |= PartBlank
	}
	return part, text, mark
}

func itemPartOf(name []byte) Parts {
	switch string(name) {
	case "input_text", "output_text", "text":
		return PartText
	case "input_image", "computer_screenshot":
		return PartImage
	case "input_audio":
		return PartAudio
	case "input_file":
		return PartFile
	case "refusal":
		return PartRefusal
	case "reasoning_text", "summary_text":
		return PartReasoning
	}
	return PartOther
}
