package facts

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Bounds of a Memo.
const (
	memoLines = 2       // requests per conversation: a history and its newest fork
	maxMemo   = 1 << 20 // bytes per request; larger requests are not stored
	memoEnd   = 4       // a request that replaces at most this many messages at the end of a known one is not a fork of it
)

// A Memo contains the facts of the newest requests of one conversation. The next request mostly repeats one of them, and
// repeated messages are not scanned again, because the Memo has their facts. The zero Memo is empty.
//
// For each message and for the tools, the Memo stores the length, the xxh3 of the bytes and the facts, some 30 to 60 bytes
// in all. A value in a new body is known if the same number of bytes from its start have that hash. The bytes around it do
// not matter, because an object is complete in itself. If a client adds a member before the messages, changes the white
// space between them, or moves a mark from one message to the next, only the changed messages are scanned. Names and IDs
// are stored as offsets within their message, or as copies if they were escaped, so a Memo does not refer to old bodies.
type Memo struct {
	dialect wire.Dialect
	lines   [memoLines]memoLine // newest first
}

// memoLine contains the entries of one request.
type memoLine struct {
	data     []byte // the entry of the tools, then one entry per message
	tools    int    // length of the entry of the tools
	messages int
}

// Bytes returns the size of the memory that m refers to.
func (m *Memo) Bytes() int {
	n := 0
	for i := range m.lines {
		n += cap(m.lines[i].data)
	}
	return n
}

// ScanRequestAfter is like ScanRequest, but uses the facts in m about earlier requests of the conversation. The result
// is the same, only faster. known is the number of bytes that were recognised instead of scanned. If the scan succeeds,
// ScanRequestAfter adds the request to m.
func ScanRequestAfter(d wire.Dialect, body []byte, m *Memo, f *Request) (known int, err error) {
	if m.dialect != d {
		*m = Memo{dialect: d}
	}
	r := &f.recall
	r.begin(m, len(body))
	if err = ScanRequest(d, body, f); err == nil && r.count > 0 {
		r.flush()
		m.keep(r)
	}
	r.memo, r.run, r.lines = nil, nil, [memoLines]memoCursor{}
	return r.known, err
}

// keep adds the request of r to m. It replaces the request that it continues or, if there is none, the oldest request.
func (m *Memo) keep(r *recall) {
	at := 0
	for i := range r.lines {
		if r.lines[i].last > r.lines[at].last {
			at = i
		}
	}
	if c := &r.lines[at]; c.last == 0 || m.lines[at].messages-c.last > memoEnd {
		at = memoLines - 1
	}
	l := m.lines[at]
	copy(m.lines[1:], m.lines[:at])
	if len(r.tools)+len(r.messages) > maxMemo {
		m.lines[0] = memoLine{}
		return
	}
	l.data = append(append(l.data[:0], r.tools...), r.messages...)
	l.tools, l.messages = len(r.tools), r.count
	m.lines[0] = l
}

// recall is the state of a scan with a Memo: the facts to read from the Memo and the facts to add to it.
type recall struct {
	memo  *Memo // nil in a scan without a Memo
	lines [memoLines]memoCursor
	known int
	spare int // bytes that may still be hashed in vain; initially the length of the body, so that the cost is linear

	tools, messages []byte // entries of the current request
	run             []byte // further entries of the current request, contiguous in the Memo
	count           int    // number of messages
}

// memoCursor is a position in a memoLine.
type memoCursor struct {
	rest []byte // entries of the remaining messages
	last int    // number of messages up to and including the last recognised one
}

func (r *recall) begin(m *Memo, size int) {
	r.memo, r.known, r.spare, r.tools = m, 0, size, r.tools[:0]
	r.rewind()
}

// rewind is like begin, but only for the messages.
func (r *recall) rewind() {
	if r.memo == nil {
		return
	}
	for i := range r.lines {
		l := &r.memo.lines[i]
		r.lines[i] = memoCursor{rest: l.data[l.tools:]}
	}
	r.messages, r.run, r.count = r.messages[:0], nil, 0
}

// next returns the next entry twice, with its length (whole) and without; both are empty at the end.
func (c *memoCursor) next() (whole, entry []byte) {
	if len(c.rest) == 0 {
		return nil, nil
	}
	r := entryReader{b: c.rest}
	n := r.number()
	whole = c.rest[:r.i+n]
	c.rest = c.rest[len(whole):]
	return whole, whole[r.i:]
}

// recalled restores the current message into m if a known request has the same message at the same position, and reports
// whether it did. Elements that are not objects are always scanned.
func (f *Request) recalled(s *scanner, m *Message) bool {
	r := &f.recall
	if r.memo == nil {
		return false
	}
	found := false
	r.count++
	for i := range r.lines {
		c := &r.lines[i]
		whole, entry := c.next()
		// If the previous message was not known, checking the end of this one first is cheaper than hashing it.
		if found || len(entry) == 0 || !f.restore(s, m, entry, c.last == r.count-1) {
			continue
		}
		found, c.last = true, r.count
		r.copied(whole)
	}
	return found
}

// copied adds an entry of the Memo to the current request. Contiguous entries are collected in r.run, which flush appends
// to r.messages.
func (r *recall) copied(entry []byte) {
	if n := len(r.run); n > 0 && cap(r.run) > n && &r.run[:n+1][n] == &entry[0] {
		r.run = r.run[:n+len(entry)]
		return
	}
	r.flush()
	r.run = entry
}

func (r *recall) flush() {
	r.messages = append(r.messages, r.run...)
	r.run = nil
}

// remember adds an entry for the message m, which was just scanned; calls, replies and dropped are the counts before m. A
// message that is not an object, or that lacks some of its calls or replies, has an empty entry, which does not match any
// message.
func (f *Request) remember(s *scanner, m *Message, marks []Mark, calls, replies, dropped int, stored, openTools bool) {
	r := &f.recall
	if r.memo == nil {
		return
	}
	r.flush()
	if m.Kind != Object || f.Dropped != dropped || len(f.calls)-calls != len(m.Calls) || len(f.replies)-replies != len(m.Replies) {
		r.messages = append(r.messages, 0)
		return
	}
	if len(r.messages) > maxMemo {
		return // the request is too large, and keep will discard it
	}
	at := len(r.messages)
	r.messages = appendMessage(append(r.messages, 0), s.b, m, marks, stored, openTools)
	// Most entries are shorter than 128 bytes, so their length fits in the reserved byte.
	n := len(r.messages) - at - 1
	if n < 0x80 {
		r.messages[at] = byte(n)
		return
	}
	var b [binary.MaxVarintLen64]byte
	w := binary.PutUvarint(b[:], uint64(n))
	r.messages = append(r.messages, b[1:w]...)
	copy(r.messages[at+w:], r.messages[at+1:at+1+n])
	copy(r.messages[at:], b[:w])
}

// isKnown reports whether the next size bytes have the given hash, which is that of an object or an array. Unless a match
// is likely, it checks the last byte first.
func (f *Request) isKnown(s *scanner, size int, hash uint64, likely bool) bool {
	r := &f.recall
	switch {
	case size > len(s.b)-s.i || size > r.spare || !likely && s.b[s.i+size-1] != s.b[s.i]+2:
		return false
	case xxh3.Hash(s.b[s.i:s.i+size]) == hash:
		return true
	}
	r.spare -= size
	return false
}

// declared reads the current value, which declares the tools, or restores the facts of the tools from the Memo. If OpenTools was
// already set, it always reads the value, because an entry could not record whether this value sets OpenTools.
func (f *Request) declared(s *scanner, read func(*Request, *scanner)) {
	r := &f.recall
	r.tools = r.tools[:0]
	start, remembers := s.i, r.memo != nil && !f.OpenTools
	if !remembers || !f.recalledTools(s) {
		dropped, k := f.Dropped, s.kind()
		read(f, s)
		f.setup.ToolsHash = xxh3.Hash(s.b[start:s.i])
		if remembers && s.err == nil && f.Dropped == dropped && (k == Array || k == Object) {
			r.tools = f.appendTools(r.tools, Span{start, s.i})
		}
	}
	f.setup.Tools = Span{start, s.i}
}

// recalledTools restores the facts of the tools if a known request has the same tools, and reports whether it did.
func (f *Request) recalledTools(s *scanner) bool {
	r := &f.recall
	for i := range r.memo.lines {
		l := &r.memo.lines[i]
		if entry := l.data[:l.tools]; len(entry) > 0 && f.restoreTools(s, entry) {
			r.tools = append(r.tools, entry...)
			return true
		}
	}
	return false
}
