package facts

import "encoding/binary"

// An entryReader reads an entry of a Memo from i on. Entries are trusted, because this package wrote them.
type entryReader struct {
	b []byte
	i int
}

// number reads a number. Most have one byte, for which it is inlined.
func (r *entryReader) number() int {
	if c := r.b[r.i]; c < 0x80 {
		r.i++
		return int(c)
	}
	return r.longNumber()
}

func (r *entryReader) longNumber() int {
	b := r.b[r.i:]
	if b[1] < 0x80 {
		r.i += 2
		return int(b[0]&0x7f) | int(b[1])<<7
	}
	n, w := binary.Uvarint(b)
	r.i += w
	return int(n)
}

// word reads eight bytes.
func (r *entryReader) word() uint64 {
	r.i += 8
	return binary.LittleEndian.Uint64(r.b[r.i-8:])
}

// text reads a text; zero is the index in the body at which the value of the entry starts. A copied text is copied again,
// because the Memo may change while the facts are still in use.
func (r *entryReader) text(s *scanner, zero int) []byte {
	n := r.number()
	if n == 0 {
		return nil
	}
	size := n>>1 - 1
	if n&1 == 0 {
		at := zero + r.number()
		return s.b[at : at+size : at+size]
	}
	r.i += size
	return s.keep(r.b[r.i-size : r.i])
}

// restore reads entry into m, which is empty, if the entry is that of the current message, and reports whether it did.
func (f *Request) restore(s *scanner, m *Message, entry []byte, likely bool) bool {
	r := entryReader{b: entry}
	size, hash := r.number(), r.word()
	if !f.isKnown(s, size, hash, likely) {
		return false
	}
	head := r.word()
	zero := s.i
	m.Kind, m.Start, m.End, m.Hash, m.ContentBytes = Object, zero, zero+size, hash, r.number()
	m.Item, m.Role, m.RoleKind, m.NameKind = Item(head&15), Role(head>>4&15), Kind(head>>8&15), Kind(head>>12&15)
	m.Content, m.ToolCalls, m.Reasoning = Kind(head>>16&15), Kind(head>>20&15), Kind(head>>24&15)
	switch {
	case head&memoRole != 0:
		m.RoleName = roleWords[m.Role]
	case head&memoOther != 0:
		m.RoleName = r.text(s, zero)
	}
	if head&memoID != 0 {
		m.ID = r.text(s, zero)
	}
	if head&memoName != 0 {
		m.Name = r.text(s, zero)
	}
	if m.Unpaired = head&memoUnpaired != 0; head&memoCallID != 0 {
		m.CallID = r.text(s, zero)
	}
	if head&memoParts != 0 {
		m.Parts, m.PartCount, m.FirstPart = Parts(r.number()), r.number(), Parts(r.number())
	}
	if head&memoHash != 0 {
		m.ContentHash = r.word()
	}
	if head&memoSigned != 0 {
		m.Signed = r.word()
	}
	if head&memoThought != 0 {
		m.Thought = r.word()
	}
	if head&memoFields != 0 {
		m.Fields, m.NullFields = Fields(r.number()), Fields(r.number())
		m.OtherField = r.text(s, zero)
	}
	marks := f.cache.Marks
	if head&memoMarks != 0 {
		for range r.number() {
			part, hour := r.mark()
			f.cache.Marks = append(f.cache.Marks, Mark{InMessages, len(f.Messages) - 1, part, hour})
		}
	}
	if len(f.cache.Marks) > maxMarks || head&(memoCalls|memoReplies) != 0 && !f.restoreCalls(s, m, r, head) {
		f.cache.Marks = marks
		*m = Message{}
		return false
	}
	f.Stored = f.Stored || head&memoStored != 0
	f.OpenTools = f.OpenTools || head&memoOpen != 0
	f.recall.known += size
	s.i += size
	return true
}

// mark reads what appendMark wrote.
func (r *entryReader) mark() (at int, hour bool) {
	n := r.number()
	return n >> 1, n&1 != 0
}

// restoreCalls reads the calls and replies of m. It returns false if f would have more than maxKept of either.
func (f *Request) restoreCalls(s *scanner, m *Message, r entryReader, head uint64) bool {
	var calls, replies int
	if head&memoCalls != 0 {
		calls = r.number()
	}
	if head&memoReplies != 0 {
		replies = r.number()
	}
	if len(f.calls)+calls > maxKept || len(f.replies)+replies > maxKept {
		return false
	}
	firstCall, firstReply := len(f.calls), len(f.replies)
	for range calls {
		r.call(s, m, f.newCall())
	}
	for range replies {
		r.reply(s, m, f.newReply())
	}
	f.own(m, firstCall, firstReply)
	return true
}

func (r *entryReader) call(s *scanner, m *Message, c *Call) {
	head := r.word()
	c.Kind, c.IDKind, c.NameKind, c.TypeKind = Kind(head&15), Kind(head>>4&15), Kind(head>>8&15), Kind(head>>12&15)
	c.Type, c.FuncKind, c.ArgsKind = CallType(head>>16&15), Kind(head>>20&15), Kind(head>>24&15)
	c.Args, c.Signature = Args(head>>28&15), Kind(head>>32&15)
	c.Start = m.Start + r.number()
	c.End = c.Start + r.number()
	c.ID = r.text(s, m.Start)
	c.Name = r.text(s, m.Start)
	if head&memoArgs != 0 {
		c.ArgsHash, c.ArgsBytes = r.word(), r.number()
	}
	if head&memoCallFields != 0 {
		c.Fields = Fields(r.number())
	}
}

func (r *entryReader) reply(s *scanner, m *Message, p *Reply) {
	head := r.number()
	p.IDKind, p.NameKind, p.Content, p.IsError = Kind(head&7), Kind(head>>3&7), Kind(head>>6&7), head&memoError != 0
	p.Start, p.End = m.Start, m.End
	if head&memoWhole == 0 {
		p.Start = m.Start + r.number()
		p.End = p.Start + r.number()
	}
	p.ID = r.text(s, m.Start)
	p.Name = r.text(s, m.Start)
	if head&memoSame != 0 {
		p.ContentBytes, p.Parts, p.PartCount = m.ContentBytes, m.Parts, m.PartCount
	} else {
		p.ContentBytes = r.number()
	}
	if head&memoReplyParts != 0 {
		p.Parts, p.PartCount = Parts(r.number()), r.number()
	}
	if head&memoAfter != 0 {
		p.After = Parts(r.number())
	}
}

// restoreTools reads the facts of the tools from entry if the entry is that of the current value, and reports whether it
// did.
func (f *Request) restoreTools(s *scanner, entry []byte) bool {
	r := entryReader{b: entry}
	size, hash := r.number(), r.word()
	if !f.isKnown(s, size, hash, false) {
		return false
	}
	f.setup.ToolsHash = hash
	flags := r.number()
	f.HasTools, f.OpenTools, f.HasFunctions, f.Builtins = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	f.ToolCount, f.Tools, f.Spaced, f.setup.Each = r.number(), f.Tools[:0], f.Spaced[:0], f.setup.Each[:0]
	f.unmark(InTools)
	for range r.number() {
		f.Tools = append(f.Tools, r.text(s, 0))
	}
	for range r.number() {
		f.Spaced = append(f.Spaced, r.text(s, 0))
	}
	end := s.i
	for range r.number() {
		start := end + r.number()
		end = start + r.number()
		f.setup.Each = append(f.setup.Each, Span{start, end})
	}
	for r.i < len(r.b) {
		at, hour := r.mark()
		f.mark(cacheMark{true, hour}, InTools, at, 0)
	}
	f.recall.known += size
	s.i += size
	return true
}
