package facts

import "math/bits"

// anthropicType is the type of a content block, as far as facts tell types apart.
type anthropicType uint8

const (
	anthropicBad   anthropicType = iota // no object, or without a type
	anthropicOther                      // server_tool_use, mcp_tool_use and their results, search_result, whatever comes
	anthropicTextBlock
	anthropicImage
	anthropicDocument
	anthropicThinking
	anthropicRedacted
	anthropicToolUse
	anthropicToolResult
	anthropicMoreTools // declares tools in the middle of the messages
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

// anthropicKeys is a set of keys of blocks.
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

// anthropicSchema says what part a block is and, for types whose keys the API checks ("content.1.tool_use.text: Extra
// inputs are not permitted"), which keys it may have, in any version of the API; 0 is any. cache_control passes
// everywhere.
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

// An anthropicHead is what is read of every block, also of one within the content of another.
type anthropicHead struct {
	typ   anthropicType
	keys  anthropicKeys
	start int    // of the block in the body
	text  []byte // raw, between the quotes; nil when it is no string
}

// An anthropicBlock is a content block of a message, an answer or a stream. Its type may come after all else, so
// everything is read that any type could need.
type anthropicBlock struct {
	anthropicHead
	signature []byte // as text
	data      []byte // of redacted thinking
	thinking  Kind
	dataKind  Kind
	call      Call   // of tool_use; Kind and place are not set
	input     []byte // the raw value
	reply     Reply  // of tool_result; place is not set

	// The first key that a block within content should not have, and whether all such keys are null or false.
	inner     []byte
	innerNull bool
}

// read reads the value at hand.
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
			b.reply.IsError = string(s.raw(s.kind())) == "true"
		case anthropicKeyThinking:
			b.thinking = s.skip()
		case anthropicKeySignature:
			_, b.signature = anthropicText(s, s.kind())
		case anthropicKeyData:
			b.dataKind = s.kind()
			_, b.data = anthropicText(s, b.dataKind)
		default:
			b.member(s, key)
		}
	}
}

// member reads a key of every block.
func (h *anthropicHead) member(s *scanner, key anthropicKeys) {
	h.keys |= key
	switch key {
	case anthropicKeyType:
		h.typ = anthropicBad
		if name, k := s.text(); k == String {
			h.typ = anthropicTypeOf(name)
		}
	case anthropicKeyText:
		_, h.text = anthropicText(s, s.kind())
	default:
		s.skip()
	}
}

// content reads what a tool gave: a string, or blocks.
func (b *anthropicBlock) content(s *scanner) {
	r, start := &b.reply, s.i
	r.Parts, r.PartCount, b.inner = 0, 0, nil
	if r.Content = s.kind(); r.Content != Array {
		r.ContentBytes, _ = anthropicText(s, r.Content)
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
		if key, null := in.foreign(s); key != nil {
			b.innerNull = null && (b.inner == nil || b.innerNull)
			if b.inner == nil {
				b.inner = key
			}
		}
	}
	r.ContentBytes = s.i - start
}

// part is what the block is as a part of its message.
func (h *anthropicHead) part() Parts {
	p := anthropicSchema[h.typ].part
	if p == PartText && h.text != nil && textBytes(h.text) == 0 {
		p |= PartBlank
	}
	return p
}

// foreign is the first key that a block of this type does not have, nil when there is none, and whether all of them are
// null or false. Only a block that has such keys is read again.
func (h *anthropicHead) foreign(s *scanner) (key []byte, null bool) {
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

// reasoning is of a thinking block: the kind of what the model thought, and what the provider signed of it, raw.
func (b *anthropicBlock) reasoning() (k Kind, sealed []byte) {
	if b.typ == anthropicRedacted {
		return b.dataKind, b.data
	}
	return b.thinking, b.signature
}

// anthropicText reads a value of kind k. Of a string, text is what stands between the quotes, else nil; size is as
// Message.ContentBytes.
func anthropicText(s *scanner, k Kind) (size int, text []byte) {
	raw := s.raw(k)
	if k != String || s.err != nil {
		return len(raw), nil
	}
	text = raw[1 : len(raw)-1]
	return textBytes(text), text
}

// anthropicSigned adds the hash of a signature to those before it in the message.
func anthropicSigned(before, hash uint64) uint64 { return bits.RotateLeft64(before, 1) ^ hash }
