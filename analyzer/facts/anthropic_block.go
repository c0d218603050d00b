package facts

// anthropicType is the type of a content block, as far as facts depend on it.
type anthropicType uint8

const (
	anthropicBad   anthropicType = iota // not an object, or without a type
	anthropicOther                      // server_tool_use, mcp_tool_use and their results, search_result, unknown types
	anthropicTextBlock
	anthropicImage
	anthropicDocument
	anthropicThinking
	anthropicRedacted
	anthropicToolUse
	anthropicToolResult
	anthropicMoreTools // declares tools between the messages
)

func anthropicTypeOf(name []byte) anthropicType {
	switch string(name) {
	case "text":
		return anthropicTextBlock
	case "image":
		return anthropicImage
	case "document":
		return anthropicDocument
	case "thinking":
		return anthropicThinking
	case "redacted_thinking":
		return anthropicRedacted
	case "tool_use":
		return anthropicToolUse
	case "tool_result":
		return anthropicToolResult
	case "tool_addition", "compaction":
		return anthropicMoreTools
	}
	return anthropicOther
}

// anthropicKeys is a set of block keys.
type anthropicKeys uint32

const (
	anthropicKeyType anthropicKeys = 1 << iota
	anthropicKeyText
	anthropicKeyID
	anthropicKeyName
	anthropicKeyInput
	anthropicKeyToolUseID
	anthropicKeyContent
	anthropicKeyIsError
	anthropicKeyThinking
	anthropicKeySignature
	anthropicKeyData
	anthropicKeyCache
	anthropicKeyCitations
	anthropicKeyCaller
	anthropicKeyToolset
	anthropicKeySource
	anthropicKeyContext
	anthropicKeyTitle
	anthropicKeyTransformations
	anthropicKeyUnknown // any other
)

func anthropicKeyOf(name []byte) anthropicKeys {
	switch string(name) {
	case "type":
		return anthropicKeyType
	case "text":
		return anthropicKeyText
	case "id":
		return anthropicKeyID
	case "name":
		return anthropicKeyName
	case "input":
		return anthropicKeyInput
	case "tool_use_id":
		return anthropicKeyToolUseID
	case "content":
		return anthropicKeyContent
	case "is_error":
		return anthropicKeyIsError
	case "thinking":
		return anthropicKeyThinking
	case "signature":
		return anthropicKeySignature
	case "data":
		return anthropicKeyData
	case "cache_control":
		return anthropicKeyCache
	case "citations":
		return anthropicKeyCitations
	case "caller":
		return anthropicKeyCaller
	case "toolset_name":
		return anthropicKeyToolset
	case "source":
		return anthropicKeySource
	case "context":
		return anthropicKeyContext
	case "title":
		return anthropicKeyTitle
	case "transformations":
		return anthropicKeyTransformations
	}
	return anthropicKeyUnknown
}

// anthropicSchema maps a block type to its part and, for types whose keys the API checks ("content.1.tool_use.text: Extra
// inputs are not permitted"), to the keys of all versions of the API; 0 is any key. cache_control is allowed everywhere.
var anthropicSchema = [...]struct {
	part Parts
	keys anthropicKeys
}{
	anthropicBad:       {part: PartBad},
	anthropicOther:     {part: PartOther},
	anthropicMoreTools: {part: PartOther},
	anthropicTextBlock: {PartText, anthropicKeyText | anthropicKeyCitations},
	anthropicImage:     {PartImage, anthropicKeySource | anthropicKeyTransformations},
	anthropicDocument:  {PartFile, anthropicKeySource | anthropicKeyContext | anthropicKeyTitle | anthropicKeyCitations},
	anthropicThinking:  {PartReasoning, anthropicKeyThinking | anthropicKeySignature},
	anthropicRedacted:  {PartReasoning, anthropicKeyData},
	anthropicToolUse:   {PartCall, anthropicKeyID | anthropicKeyName | anthropicKeyInput | anthropicKeyCaller | anthropicKeyToolset},
	anthropicToolResult: {
		PartReply, anthropicKeyToolUseID | anthropicKeyContent | anthropicKeyIsError | anthropicKeyToolset,
	},
}

// An anthropicHead has the facts of every block, also of a block within the content of another.
type anthropicHead struct {
	typ   anthropicType
	keys  anthropicKeys
	start int    // of the block in the body
	text  []byte // raw, between the quotes; nil if it is not a string
}

// An anthropicBlock is a content block of a message, an answer or a stream. Its type may be the last member, so the members
// of all types are read.
type anthropicBlock struct {
	anthropicHead
	signature []byte // like text
	data      []byte // of redacted thinking
	thinking  Kind
	dataKind  Kind
	call      Call   // of tool_use; Kind, Start and End are not set
	input     []byte // the raw value
	reply     Reply  // of tool_result; Start and End are not set

	// The first unknown key of a block within content, and whether all unknown keys are null or false.
	inner     []byte
	innerNull bool
}

// read reads the current value.
func (b *anthropicBlock) read(s *scanner) {
	b.start = s.i
	if s.kind() != Object {
		s.skip()
		return
	}
	for more := s.open(); more; more = s.more('}') {
		key := anthropicKeyOf(s.key())
		b.keys |= key
		switch key {
		case anthropicKeyID:
			b.call.ID, b.call.IDKind = s.text()
		case anthropicKeyName:
			b.call.Name, b.call.NameKind = s.text()
		case anthropicKeyInput:
			start := s.i
			b.call.arguments(s)
			b.input = s.b[start:s.i]
		case anthropicKeyToolUseID:
			b.reply.ID, b.reply.IDKind = s.text()
		case anthropicKeyContent:
			b.content(s)
		case anthropicKeyIsError:
			b.reply.IsError = s.isTrue()
		case anthropicKeyThinking:
			b.thinking = s.skip()
		case anthropicKeySignature:
			b.signature = s.rawText()
		case anthropicKeyData:
			b.dataKind = s.kind()
			b.data = s.rawText()
		default:
			b.member(s, key)
		}
	}
}

// member reads a member of every block.
func (h *anthropicHead) member(s *scanner, key anthropicKeys) {
	h.keys |= key
	switch key {
	case anthropicKeyType:
		h.typ = anthropicBad
		if name, k := s.text(); k == String {
			h.typ = anthropicTypeOf(name)
		}
	case anthropicKeyText:
		h.text = s.rawText()
	default:
		s.skip()
	}
}

// content reads the result of a tool: a string, or blocks.
func (b *anthropicBlock) content(s *scanner) {
	r, start := &b.reply, s.i
	r.Parts, r.PartCount, b.inner = 0, 0, nil
	if r.Content = s.kind(); r.Content != Array {
		r.ContentBytes, _ = s.sizedText(r.Content)
		return
	}
	for more := s.open(); more; more = s.more(']') {
		in := anthropicHead{start: s.i}
		if s.kind() == Object {
			for more := s.open(); more; more = s.more('}') {
				in.member(s, anthropicKeyOf(s.key()))
			}
		} else {
			s.skip()
		}
		if s.err != nil {
			return
		}
		r.Parts |= in.part()
		r.PartCount++
		if key, null := in.unknown(s); key != nil {
			b.innerNull = null && (b.inner == nil || b.innerNull)
			if b.inner == nil {
				b.inner = key
			}
		}
	}
	r.ContentBytes = s.i - start
}

// part returns the block's type as a part of its message.
func (h *anthropicHead) part() Parts {
	p := anthropicSchema[h.typ].part
	if p == PartText && h.text != nil && textBytes(h.text) == 0 {
		p |= PartBlank
	}
	return p
}

// unknown returns the first key outside the schema of the block's type, nil without any, and whether the values of all such
// keys are null or false. Only a block with such keys is read again.
func (h *anthropicHead) unknown(s *scanner) (key []byte, null bool) {
	legal := anthropicSchema[h.typ].keys
	if legal == 0 {
		return nil, false
	}
	legal |= anthropicKeyType | anthropicKeyCache
	if h.keys&^legal == 0 {
		return nil, false
	}
	null = true
	again := scanner{b: s.b, i: h.start}
	for more := again.open(); more; more = again.more('}') {
		name := again.key()
		known := anthropicKeyOf(name)&legal != 0
		if !known && key == nil {
			key = s.keep(name)
		}
		k := again.kind()
		v := again.raw(k)
		null = null && (known || k == Null || string(v) == "false")
	}
	return key, null
}

// reasoning returns the kind of the thoughts of a thinking block, and their raw signature.
func (b *anthropicBlock) reasoning() (k Kind, sealed []byte) {
	if b.typ == anthropicRedacted {
		return b.dataKind, b.data
	}
	return b.thinking, b.signature
}
