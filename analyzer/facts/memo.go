package facts

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/wire"
)

// Bounds of a Memo.
const (
	memoLines = 2       // requests of one conversation: a history and its newest fork
	maxMemo   = 1 << 20 // bytes of one of them; a larger one is not kept
	memoEnd   = 4       // a request that leaves a known one so many messages before its end goes on with it: it is no fork
)

// A Memo is what is kept of the newest requests of one conversation. The next request mostly repeats one of them, and
// what it repeats is not scanned again: its facts are taken from here. The zero Memo knows nothing.
//
// Kept are, for each message and for the tools, their length, the xxh3 of their bytes and what was found in them, some
// 30 to 60 bytes each. A value of a new body is known when as many bytes from where it starts have that hash: an object
// ends where its bytes end, whatever follows, so nothing need be known of the bytes around it. A new member before the
// messages, another spelling between them, or a mark that moves from one message to the next costs a scan of the
// messages that changed and of no others. Names and ids are kept as places within their message, or as copies where
// they were escaped; nothing points into an old body.
type Memo struct {
	dialect wire.Dialect
	lines   [memoLines]memoLine // the newest first
}

// memoLine is one request.
type memoLine struct {
	data     []byte // the entry of the tools, then one of each message
	tools    int    // bytes of the first
	messages int
}

// Bytes is the memory that m refers to.
func (m *Memo) Bytes() int {
	n := 0
	for i := range m.lines {
		n += cap(m.lines[i].data)
	}
	return n
}

// ScanRequestAfter is ScanRequest of a body of a conversation of which m knows earlier requests. The facts are those
// of ScanRequest; only the time differs. Known is the number of bytes that were recognised instead of scanned. Then m
// knows this request too, unless it was broken.
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

// keep puts the request that r has seen into m: in the place of the one that it goes on with, else of the oldest.
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

// recall is the state of a scan that knows earlier requests: what it takes from them, and what they shall be told.
type recall struct {
	memo  *Memo // nil in a scan that knows nothing and tells nothing
	lines [memoLines]memoCursor
	known int
	spare int // bytes that may still be hashed in vain: as many as the body has, so that no body takes long

	tools, messages []byte // entries of the request at hand
	run             []byte // further entries, which stand in the memo in one piece
	count           int    // of messages
}

// memoCursor is a place in a memoLine.
type memoCursor struct {
	rest []byte // entries of the messages that are not passed yet
	last int    // the messages up to the last one that was recognised
}

func (r *recall) begin(m *Memo, size int) {
	r.memo, r.known, r.spare, r.tools = m, 0, size, r.tools[:0]
	r.again()
}

// again is begin for the messages alone.
func (r *recall) again() {
	if r.memo == nil {
		return
	}
	for i := range r.lines {
		l := &r.memo.lines[i]
		r.lines[i] = memoCursor{rest: l.data[l.tools:]}
	}
	r.messages, r.run, r.count = r.messages[:0], nil, 0
}

// next passes an entry: whole is all of it, entry what stands behind its length; both are empty at the end.
func (c *memoCursor) next() (whole, entry []byte) {
	if len(c.rest) == 0 {
		return nil, nil
	}
	r := entryReader(c.rest)
	n := r.number()
	end := len(c.rest) - len(r) + n
	whole = c.rest[:end]
	c.rest = c.rest[end:]
	return whole, r[:n]
}

// recalled reads the message at hand into m if a known request has it in the same place. Only an object ends where its
// bytes end; any other element is scanned.
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
		// Where the message before was not known, the end of this one is looked at first: that is cheaper than its hash.
		if found || len(entry) == 0 || !f.restore(s, m, entry, c.last == r.count-1) {
			continue
		}
		found, c.last = true, r.count
		r.copied(whole)
	}
	return found
}

// copied appends an entry of the memo to the messages, at the latest when flush is called.
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

// remember keeps the message m, which was read just now: made is how many calls and replies were made for it. A message
// that does not hold all of them, or for which some were dropped, has an empty entry, which no message is like.
func (f *Request) remember(s *scanner, m *Message, calls, replies, dropped int, stored, open bool) {
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
		return // it is not kept
	}
	at := len(r.messages)
	r.messages = appendMessage(append(r.messages, 0), s.b, m, stored, open)
	// Most entries are shorter than 128 bytes: their length fits into the byte left for it.
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

// isKnown reports whether the size bytes at hand have that hash, which is an object's or an array's. Unless that is
// likely, it looks first at where it should end.
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

// declared reads the value at hand, which declares the functions, by read, if it is not known. Where something before
// it said that there are functions without a name, the value could not be told to say so too: then it is scanned.
func (f *Request) declared(s *scanner, read func(*Request, *scanner)) {
	r := &f.recall
	r.tools = r.tools[:0]
	if r.memo == nil || f.OpenTools {
		read(f, s)
		return
	}
	for i := range r.memo.lines {
		l := &r.memo.lines[i]
		if entry := l.data[:l.tools]; len(entry) > 0 && f.restoreTools(s, entry) {
			r.tools = append(r.tools, entry...)
			return
		}
	}
	start, dropped, k := s.i, f.Dropped, s.kind()
	read(f, s)
	if s.err == nil && f.Dropped == dropped && (k == Array || k == Object) {
		r.tools = f.appendTools(r.tools, s.b[start:s.i])
	}
}
