package facts

import "bytes"

// serverResult ends the types of blocks with the result of a tool that the provider ran.
var serverResult = []byte("_tool_result")

// anthropicType is the type of a content block. Types that facts do not depend on are not distinguished.
type anthropicType uint8

const (
	anthropicBad   anthropicType = iota // not an object, or an object without a type
	anthropicOther                      // search_result, unknown types
	anthropicTextBlock
	anthropicImage
	anthropicDocument
	anthropicThinking
	anthropicRedacted
	anthropicToolUse
	anthropicToolResult
	anthropicMoreTools  // a block that declares tools between the messages
	anthropicCompaction // the provider's summary of the history before it

	anthropicServerUse    // server_tool_use, mcp_tool_use: a call of a tool that the provider runs
	anthropicServerResult // web_search_tool_result, mcp_tool_result, …: the result of such a tool
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
	case "tool_addition":
		return anthropicMoreTools
	case "compaction":
		return anthropicCompaction
	case "server_tool_use", "mcp_tool_use":
		return anthropicServerUse
	}
	if bytes.HasSuffix(name, serverResult) {
		return anthropicServerResult
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
	anthropicKeyUnknown // any other key
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

// anthropicSchema maps a block type to its part type and, if the API checks the keys of such blocks
// ("content.1.tool_use.text: Extra inputs are not permitted"), to the keys that any version of the API accepts. 0 means
// that the keys are not checked. Every block may have cache_control.
var anthropicSchema = [...]struct {
	part Parts
	keys anthropicKeys
}{
	anthropicBad:        {part: PartBad},
	anthropicOther:      {part: PartOther},
	anthropicMoreTools:  {part: PartOther},
	anthropicCompaction: {part: PartOther},

	anthropicServerUse:    {part: PartOther},
	anthropicServerResult: {part: PartOther},
	anthropicTextBlock:    {PartText, anthropicKeyText | anthropicKeyCitations},
	anthropicImage:        {PartImage, anthropicKeySource | anthropicKeyTransformations},
	anthropicDocument:     {PartFile, anthropicKeySource | anthropicKeyContext | anthropicKeyTitle | anthropicKeyCitations},
	anthropicThinking:     {PartReasoning, anthropicKeyThinking | anthropicKeySignature},
	anthropicRedacted:     {PartReasoning, anthropicKeyData},
	anthropicToolUse:      {PartCall, anthropicKeyID | anthropicKeyName | anthropicKeyInput | anthropicKeyCaller | anthropicKeyToolset},
	anthropicToolResult: {
		PartReply, anthropicKeyToolUseID | anthropicKeyContent | anthropicKeyIsError | anthropicKeyToolset,
	},
}

// An anthropicHead contains the facts of any block, including a block inside the content of another block.
type anthropicHead struct {
	typ   anthropicType
	keys  anthropicKeys
	start int    // offset of the block in the body
	text  []byte // raw, without its quotes; nil if it is not a string
	mark  cacheMark
}

// An anthropicBlock is a content block of a message, an answer or a stream. The type may be the last member of a block, so
// the members of all types are read.
type anthropicBlock struct {
	anthropicHead
	signature []byte // raw, like text
	data      []byte // data of redacted thinking; raw, like text
	thinking  Kind
	thought   []byte // text of thinking; raw, like text
	dataKind  Kind
	call      Call   // call in a tool_use block; Kind, Start and End are not set
	sandboxed bool   // code in a container made the call
	input     []byte // raw value of input
	reply     Reply  // reply in a tool_result block; Start and End are not set

	// First unknown key of the blocks inside content, and whether the values of all their unknown keys are null or false.
	inner     []byte
	innerNull bool
}

// read reads the current value into b.
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
		case anthropicKeyCaller:
			b.sandboxed = bytes.HasPrefix(s.member("type"), []byte("code_execution"))
		case anthropicKeyToolUseID:
			b.reply.ID, b.reply.IDKind = s.text()
		case anthropicKeyContent:
			b.content(s)
		case anthropicKeyIsError:
			b.reply.IsError = s.isTrue()
		case anthropicKeyThinking:
			b.thinking = s.kind()
			b.thought = s.rawText()
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

// member reads a member that any block may have.
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
	case anthropicKeyCache:
		h.mark = s.cacheMark()
	default:
		s.skip()
	}
}

// content reads the result of a tool: a string or an array of blocks.
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

// part returns the part type of the block.
func (h *anthropicHead) part() Parts {
	p := anthropicSchema[h.typ].part
	if p == PartText && h.text != nil && textBytes(h.text) == 0 {
		p |= PartBlank
	}
	return p
}

// unknown returns the first key outside the schema of the block's type, or nil if there is none, and whether the values of
// all such keys are null or false. Only a block with such keys is read a second time.
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

// reasoning returns the kind of the reasoning in a thinking block, and its raw signature. In a redacted_thinking block, data
// takes the place of both.
func (b *anthropicBlock) reasoning() (k Kind, sealed []byte) {
	if b.typ == anthropicRedacted {
		return b.dataKind, b.data
	}
	return b.thinking, b.signature
}
