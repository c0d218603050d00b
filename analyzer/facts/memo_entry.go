package facts

import (
	"bytes"
	"encoding/binary"
)

// An entry of a Memo consists of varints, hashes of eight bytes, and texts (see appendPlaced). Small enumerations share a
// head, with a few bits each; the bits above them mark which of the less common facts follow.

// Bits of the head of a message. The lower bits contain the item, the role, and the kinds of role, name, content,
// tool_calls and reasoning.
const (
	memoRole     = 1 << (28 + iota) // RoleName is the usual word for the role
	memoOther                       // RoleName is another string, which follows
	memoID                          // an ID follows
	memoName                        // a name follows
	memoParts                       // parts follow
	memoHash                        // a content hash follows
	memoSigned                      // a hash of signatures follows
	memoFields                      // fields follow
	memoStored                      // the message sets Request.Stored
	memoOpen                        // the message sets Request.OpenTools
	memoCalls                       // calls follow
	memoReplies                     // replies follow
	memoThought                     // a hash of thinking texts follows
	memoUnpaired                    // the item is unpaired
	memoCallID                      // the call_id of an unpaired item follows
	memoMarks                       // marks of the cache follow
)

// Bits of the head of a call. The lower bits contain nine kinds and types.
const (
	memoArgs       = 1 << (36 + iota) // hash and length of the arguments follow
	memoCallFields                    // fields follow
)

// Bits of the head of a reply, a varint of two bytes. The lower bits contain the kinds of ID, name and content, three bits
// each.
const (
	memoError      = 1 << (9 + iota)
	memoWhole      // the reply is the whole message
	memoSame       // same content and parts as its message
	memoReplyParts // parts follow
	memoAfter      // the parts before the reply follow
)

func appendNumber(e []byte, n int) []byte { return binary.AppendUvarint(e, uint64(n)) }

// appendPlaced appends the length of text, a text of the value b[from:to], and its offset relative to zero. A text that is
// escaped in b is copied instead.
func appendPlaced(e, b []byte, zero, from, to int, text []byte) []byte {
	if text == nil {
		return append(e, 0)
	}
	n := uint64(len(text)+1) << 1
	if at := bytes.Index(b[from:to], text); at >= 0 {
		return appendNumber(binary.AppendUvarint(e, n), from+at-zero)
	}
	return append(binary.AppendUvarint(e, n|1), text...)
}

// appendMessage appends the entry of m, an object in the body b.
func appendMessage(e, b []byte, m *Message, marks []Mark, stored, openTools bool) []byte {
	text := func(t []byte) { e = appendPlaced(e, b, m.Start, m.Start, m.End, t) }
	word := roleWords[m.Role]
	head := uint64(m.Item) | uint64(m.Role)<<4 | uint64(m.RoleKind)<<8 | uint64(m.NameKind)<<12 |
		uint64(m.Content)<<16 | uint64(m.ToolCalls)<<20 | uint64(m.Reasoning)<<24
	for _, f := range [...]struct {
		is  bool
		bit uint64
	}{
		{m.RoleName != nil && word != nil && string(m.RoleName) == string(word), memoRole},
		{m.RoleName != nil && (word == nil || string(m.RoleName) != string(word)), memoOther},
		{m.ID != nil, memoID},
		{m.Name != nil, memoName},
		{m.Parts != 0 || m.PartCount != 0 || m.FirstPart != 0, memoParts},
		{m.ContentHash != 0, memoHash},
		{m.Signed != 0, memoSigned},
		{m.Fields != 0 || m.NullFields != 0 || m.OtherField != nil, memoFields},
		{stored, memoStored},
		{openTools, memoOpen},
		{len(m.Calls) > 0, memoCalls},
		{len(m.Replies) > 0, memoReplies},
		{m.Thought != 0, memoThought},
		{m.Unpaired, memoUnpaired},
		{m.CallID != nil, memoCallID},
		{len(marks) > 0, memoMarks},
	} {
		if f.is {
			head |= f.bit
		}
	}
	e = appendNumber(e, m.End-m.Start)
	e = binary.LittleEndian.AppendUint64(e, m.Hash)
	e = binary.LittleEndian.AppendUint64(e, head)
	e = appendNumber(e, m.ContentBytes)
	if head&memoOther != 0 {
		text(m.RoleName)
	}
	if head&memoID != 0 {
		text(m.ID)
	}
	if head&memoName != 0 {
		text(m.Name)
	}
	if head&memoCallID != 0 {
		text(m.CallID)
	}
	if head&memoParts != 0 {
		e = appendNumber(appendNumber(appendNumber(e, int(m.Parts)), m.PartCount), int(m.FirstPart))
	}
	if head&memoHash != 0 {
		e = binary.LittleEndian.AppendUint64(e, m.ContentHash)
	}
	if head&memoSigned != 0 {
		e = binary.LittleEndian.AppendUint64(e, m.Signed)
	}
	if head&memoThought != 0 {
		e = binary.LittleEndian.AppendUint64(e, m.Thought)
	}
	if head&memoFields != 0 {
		e = appendNumber(appendNumber(e, int(m.Fields)), int(m.NullFields))
		text(m.OtherField)
	}
	if head&memoMarks != 0 {
		e = appendNumber(e, len(marks))
		for _, mark := range marks {
			e = appendMark(e, mark.Part, mark)
		}
	}
	if head&memoCalls != 0 {
		e = appendNumber(e, len(m.Calls))
	}
	if head&memoReplies != 0 {
		e = appendNumber(e, len(m.Replies))
	}
	for i := range m.Calls {
		e = appendCall(e, b, m, &m.Calls[i])
	}
	for i := range m.Replies {
		e = appendReply(e, b, m, &m.Replies[i])
	}
	return e
}

func appendCall(e, b []byte, m *Message, c *Call) []byte {
	head := uint64(c.Kind) | uint64(c.IDKind)<<4 | uint64(c.NameKind)<<8 | uint64(c.TypeKind)<<12 | uint64(c.Type)<<16 |
		uint64(c.FuncKind)<<20 | uint64(c.ArgsKind)<<24 | uint64(c.Args)<<28 | uint64(c.Signature)<<32
	if c.ArgsHash != 0 || c.ArgsBytes != 0 {
		head |= memoArgs
	}
	if c.Fields != 0 {
		head |= memoCallFields
	}
	e = appendNumber(appendNumber(binary.LittleEndian.AppendUint64(e, head), c.Start-m.Start), c.End-c.Start)
	e = appendPlaced(e, b, m.Start, c.Start, c.End, c.ID)
	e = appendPlaced(e, b, m.Start, c.Start, c.End, c.Name)
	if head&memoArgs != 0 {
		e = appendNumber(binary.LittleEndian.AppendUint64(e, c.ArgsHash), c.ArgsBytes)
	}
	if head&memoCallFields != 0 {
		e = appendNumber(e, int(c.Fields))
	}
	return e
}

func appendReply(e, b []byte, m *Message, r *Reply) []byte {
	head := uint64(r.IDKind) | uint64(r.NameKind)<<3 | uint64(r.Content)<<6
	for _, f := range [...]struct {
		is  bool
		bit uint64
	}{
		{r.IsError, memoError},
		{r.Start == m.Start && r.End == m.End, memoWhole},
		{r.Content == m.Content && r.ContentBytes == m.ContentBytes && r.Parts == m.Parts && r.PartCount == m.PartCount, memoSame},
		{r.After != 0, memoAfter},
	} {
		if f.is {
			head |= f.bit
		}
	}
	if head&memoSame == 0 && (r.Parts != 0 || r.PartCount != 0) {
		head |= memoReplyParts
	}
	e = binary.AppendUvarint(e, head)
	if head&memoWhole == 0 {
		e = appendNumber(appendNumber(e, r.Start-m.Start), r.End-r.Start)
	}
	e = appendPlaced(e, b, m.Start, r.Start, r.End, r.ID)
	e = appendPlaced(e, b, m.Start, r.Start, r.End, r.Name)
	if head&memoSame == 0 {
		e = appendNumber(e, r.ContentBytes)
	}
	if head&memoReplyParts != 0 {
		e = appendNumber(appendNumber(e, int(r.Parts)), r.PartCount)
	}
	if head&memoAfter != 0 {
		e = appendNumber(e, int(r.After))
	}
	return e
}

// appendMark appends a mark of a message or of the tools; at is its part or its index.
func appendMark(e []byte, at int, m Mark) []byte {
	if m.Hour {
		return appendNumber(e, at<<1|1)
	}
	return appendNumber(e, at<<1)
}

// appendTools appends the entry of the tools that are declared at a part of the body. Their names are copied, because searching for each
// of them would not be linear.
func (f *Request) appendTools(e []byte, at Span) []byte {
	e = binary.LittleEndian.AppendUint64(appendNumber(e, at.End-at.Start), f.setup.ToolsHash)
	flags := 0
	if f.HasTools {
		flags |= 1
	}
	if f.OpenTools {
		flags |= 2
	}
	if f.HasFunctions {
		flags |= 4
	}
	if f.Builtins {
		flags |= 8
	}
	e = appendNumber(appendNumber(e, flags), f.ToolCount)
	for _, names := range [...][][]byte{f.Tools, f.Spaced} {
		e = appendNumber(e, len(names))
		for _, name := range names {
			e = append(binary.AppendUvarint(e, uint64(len(name)+1)<<1|1), name...)
		}
	}
	end := at.Start
	e = appendNumber(e, len(f.setup.Each))
	for _, p := range f.setup.Each {
		e = appendNumber(appendNumber(e, p.Start-end), p.End-p.Start)
		end = p.End
	}
	for _, m := range f.cache.Marks {
		if m.Place == InTools {
			e = appendMark(e, m.Index, m)
		}
	}
	return e
}
