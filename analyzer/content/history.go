package content

import (
	"bytes"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	maxBranches = 8  // branches of one conversation; beyond them, the least recently used is dropped
	maxMarked   = 32 // messages with cache marks in one request; further messages are stored without their marks
	maxLeading  = 8  // leading system messages that are compared with the previous request

	branchBytes   = 192 // approximate size of a branch
	repeatedBytes = 168 // approximate size of a repeated content

	maxHeldAnswer = 64 << 10 // bytes of a withheld answer that is retained until the next request
)

// A Request is a request to store.
type Request struct {
	Body
	Exchange     string
	Conversation string
	Facts        *facts.Request
	Withhold     bool // the request may be stored later, see Store.Release
}

// A Body is a body to store.
type Body struct {
	Turn    *session.Turn // nil if the request is not added to a conversation
	Started time.Time     // start of the request, by the agent's clock
	Service string
	Capture string
	Dialect wire.Dialect
	Bytes   []byte
}

// A Location describes where a request is stored.
type Location struct {
	Branch     string            // branch of the conversation's history: the exchange that began it
	Leading    []string          // content ids of the leading system and developer messages, or of all messages if Branch is ""; immutable
	Marked     map[uint32]string // content ids of the messages with cache marks, by position
	Parameters string            // content id of the body without its messages
	MessagesAt int               // byte offset of the removed messages in the stored Parameters
	Place      Place             // for Store.Release
}

// A Place is where the messages of a request belong in its conversation.
type Place struct {
	histories *histories // nil if the request is not added to a conversation
	branch    *branch    // nil if there is none
	lead      int        // leading messages
}

// A Position is a position in a branch and the message there.
type Position struct {
	Branch, Parent string // Parent is "" if the branch has none
	Shared         int    // positions that the branch shares with Parent
	Index          int
	Content        string // content id; "" if the content was too large
	Role           []byte // role as sent
}

// branch is a stored branch of a history.
type branch struct {
	id, parent   string
	conversation string   // if a conversation continues under another id, it is stored again, so that both are complete
	shared       int      // positions shared with the parent
	hashes       []uint64 // hashes of all messages of the branch
	stored       int      // positions that are stored; 0 after a replay, which may have begun inside the conversation
	counted      int      // positions whose sizes are counted; they are those that a process without a restart has stored
}

// histories contains the branches of a conversation, the most recently used last.
type histories struct {
	time     Time   // Time of the conversation's contents
	epoch    uint32 // epoch of the store
	branches []*branch
	first    branch // the first of branches, in most conversations the only one
	slot     [1]*branch

	parameters repeated
	leading    []repeated // first leading messages of the newest request
	leadingIDs []string   // immutable, because rows share it

	answer []byte // newest answer, if it is withheld; nil if there was no memory for it
	whole  bool   // the rest of the conversation is stored
}

func (h *histories) bytes() int64 {
	n := 224 + int64(len(h.leading))*repeatedBytes + int64(cap(h.answer))
	for _, b := range h.branches {
		n += branchBytes + 8*int64(cap(b.hashes))
	}
	return n
}

// find returns the branch of the conversation with the longest common prefix with n messages, and the length of that
// prefix. hash(i) is the identity of message i.
func (h *histories) find(conversation string, n int, hash func(int) uint64) (best *branch, common int) {
	at := 0
	for i, b := range slices.Backward(h.branches) {
		if b.conversation != conversation {
			continue
		}
		k := 0
		for k < n && k < len(b.hashes) && b.hashes[k] == hash(k) {
			k++
		}
		if k > common {
			best, common, at = b, k, i
		}
	}
	if best != nil {
		h.branches = append(slices.Delete(h.branches, at, at+1), best)
	}
	return best, common
}

// newBranch returns an empty branch, which is not added yet.
func (h *histories) newBranch() *branch {
	if h.branches == nil {
		h.branches = h.slot[:0]
		return &h.first
	}
	return new(branch)
}

func (h *histories) add(b *branch) {
	if len(h.branches) == maxBranches {
		h.branches = slices.Delete(h.branches, 0, 1)
	}
	h.branches = append(h.branches, b)
}

// Request stores the new parts of a request, whose service must be one that s stores, and returns its location. If the request is to be withheld, it stores nothing. The
// location is the same, but empty for a request that is not added to a conversation.
func (s *Store) Request(r *Request) (at Location) {
	t := r.Turn
	if t == nil {
		if r.Withhold {
			return at
		}
		return s.single(r)
	}
	h := r.histories()
	if h == nil || h.epoch != s.epoch {
		h = &histories{time: timeOf(r.Started), epoch: s.epoch, whole: h != nil && h.whole}
	}
	body, parts := s.captured(r)
	p := Place{histories: h, lead: t.Lead()}
	if r.Facts.Dropped == 0 && len(parts) > 0 {
		p.branch = s.extend(h, r, len(parts)-p.lead, func(i int) uint64 { return t.Unmarked(p.lead + i) })
	}
	at = s.place(r, p, body, parts)
	s.sessions.Keep(t, h, h.bytes())
	return at
}

// Release stores the new parts of a request that Request has withheld since the last call of Forget, and returns its location.
func (s *Store) Release(r *Request, p Place) Location {
	if p.histories == nil {
		return s.single(r)
	}
	body, parts := s.captured(r)
	return s.place(r, p, body, parts)
}

// place stores what the histories of p lack of a request, unless it is to be withheld. body and parts are those that are stored.
func (s *Store) place(r *Request, p Place, body []byte, parts []facts.Message) (at Location) {
	s.withhold = r.Withhold
	defer func() { s.withhold = false }()
	h, b, lead := p.histories, p.branch, p.lead
	at.Place = p
	s.answerBefore(h)
	if b == nil {
		at.Parameters = s.put(shared, KindParameters, body)
		return at
	}
	at.Branch = b.id
	at.Parameters, at.MessagesAt = s.putRepeated(&h.parameters, KindParameters, body[:parts[0].Start], body[parts[len(parts)-1].End:])
	at.Leading = s.putLeading(h, body, parts[:lead])
	messages, parts := r.Facts.Messages[lead:], parts[lead:]
	for i := range messages {
		if m := &messages[i]; b.hashes[i] != m.Hash && len(at.Marked) < maxMarked {
			if at.Marked == nil {
				at.Marked = make(map[uint32]string)
			}
			at.Marked[uint32(i)] = s.put(h.time, KindMessage, body[parts[i].Start:parts[i].End])
		}
	}
	if s.withhold {
		return at
	}
	for i := b.counted; i < len(messages); i++ {
		s.size += int64(parts[i].End - parts[i].Start)
	}
	b.counted = max(b.counted, len(messages))
	for i := b.stored; s.output != nil && i < len(messages); i++ {
		text := body[parts[i].Start:parts[i].End]
		if b.hashes[i] != messages[i].Hash {
			text = session.Unmark(nil, text)
		}
		s.output.Position(Position{
			Branch: b.id, Parent: b.parent, Shared: b.shared, Index: i, Content: s.put(h.time, KindMessage, text), Role: messages[i].RoleName,
		})
		b.stored = i + 1
	}
	return at
}

// answerBefore stores the withheld answer of the conversation, of which the request that is placed shows something.
func (s *Store) answerBefore(h *histories) {
	if s.withhold || h.answer == nil {
		return
	}
	s.size += int64(len(h.answer))
	s.put(h.time, KindAnswer, h.answer)
	h.answer = nil
}

// dayOf returns the Time of the contents of a request that is not added to a conversation.
func dayOf(started time.Time) Time { return timeOf(started.Truncate(24 * time.Hour)) }

// single stores all messages of a request that is not added to a conversation, in a branch of its own. Contents that such
// requests of the same day repeat are stored once. Branches belong to conversations, and are erased with them, so the messages
// of a request without a conversation are all in Leading.
func (s *Store) single(r *Request) (at Location) {
	day := dayOf(r.Started)
	body, parts := s.captured(r)
	if r.Facts.Dropped > 0 || len(parts) == 0 {
		at.Parameters = s.put(shared, KindParameters, body)
		return at
	}
	_, at.Parameters, at.MessagesAt = s.putSplit(shared, KindParameters, body[:parts[0].Start], body[parts[len(parts)-1].End:])
	messages := r.Facts.Messages
	for i := range messages {
		t := shared
		if !messages[i].Role.Instructs() {
			if t = day; r.Conversation != "" {
				break
			}
		}
		at.Leading = append(at.Leading, s.put(t, KindMessage, body[parts[i].Start:parts[i].End]))
	}
	if r.Conversation == "" {
		return at
	}
	at.Branch = r.Exchange
	for i, lead := 0, len(at.Leading); s.output != nil && lead+i < len(messages); i++ {
		p := &parts[lead+i]
		s.output.Position(Position{
			Branch: at.Branch, Index: i, Content: s.put(day, KindMessage, body[p.Start:p.End]), Role: messages[lead+i].RoleName,
		})
	}
	return at
}

// extend finds or begins the branch of n messages. hash(i) is the identity of message i.
func (s *Store) extend(h *histories, r *Request, n int, hash func(int) uint64) *branch {
	b, from := h.find(r.Conversation, n, hash)
	if b == nil || from < len(b.hashes) && from < n {
		fork := h.newBranch()
		fork.id, fork.conversation = r.Exchange, r.Conversation
		if b != nil {
			fork.hashes, fork.counted = slices.Clone(b.hashes[:from]), min(from, b.counted)
			if b.stored >= from { // else all positions are emitted: rows that are already stored are the same
				fork.parent, fork.shared, fork.stored = b.id, from, from
			}
		}
		b = fork
		h.add(b)
	}
	b.hashes = slices.Grow(b.hashes, max(n-from, 0))
	for i := from; i < n; i++ {
		b.hashes = append(b.hashes, hash(i))
	}
	return b
}

// putLeading stores the leading system messages in body and returns their ids.
func (s *Store) putLeading(h *histories, body []byte, parts []facts.Message) []string {
	if len(h.leading) != min(len(parts), maxLeading) {
		h.leading, h.leadingIDs = make([]repeated, min(len(parts), maxLeading)), nil
	}
	changed := len(h.leadingIDs) != len(h.leading)
	for i := range h.leading {
		id, _ := s.putRepeated(&h.leading[i], KindMessage, body[parts[i].Start:parts[i].End], nil)
		changed = changed || id != h.leadingIDs[i]
	}
	switch {
	case changed && len(h.leading) == 1 && h.leading[0].id != "":
		h.leadingIDs = s.sharedID(h.leading[0].key)
	case changed:
		h.leadingIDs = make([]string, len(h.leading))
		for i := range h.leading {
			h.leadingIDs[i] = h.leading[i].id
		}
	}
	ids := slices.Clip(h.leadingIDs)
	for i := len(h.leading); i < len(parts); i++ {
		ids = append(ids, s.put(shared, KindMessage, body[parts[i].Start:parts[i].End]))
	}
	return ids
}

// Answer stores the body of an answer and returns its content id, or "" if the body is not stored.
func (s *Store) Answer(b *Body) string {
	body := s.answer(b)
	if body == nil {
		return ""
	}
	s.size += int64(len(body))
	return s.putAnswer(b, body)
}

// WithholdAnswer is like Answer, but stores the answer only if a later request of its conversation is stored before there is another
// answer.
func (s *Store) WithholdAnswer(b *Body) string {
	body := s.answer(b)
	if body == nil {
		return ""
	}
	if h := b.histories(); h != nil {
		if h.answer = nil; len(body) <= maxHeldAnswer && !s.sessions.HalfFull() {
			h.answer = bytes.Clone(body)
		}
		s.sessions.Keep(b.Turn, h, h.bytes())
	}
	s.withhold = true
	defer func() { s.withhold = false }()
	return s.putAnswer(b, body)
}

func (s *Store) putAnswer(b *Body, body []byte) string {
	t := dayOf(b.Started)
	if h := b.histories(); h != nil {
		t = h.time
	}
	return s.put(t, KindAnswer, body)
}

// histories returns the branches of the conversation of b, or nil.
func (b *Body) histories() *histories {
	if b.Turn == nil {
		return nil
	}
	h, _ := b.Turn.Kept().(*histories)
	return h
}

// answer returns the body of an answer as stored; nil if it is not.
func (s *Store) answer(b *Body) []byte {
	switch {
	case len(b.Bytes) == 0 || !s.Stores(b):
		return nil
	case s.shapes(b):
		return s.shape(string(b.Dialect), true, b.Bytes)
	}
	return b.Bytes
}

// StoreRest makes StoresRest return true for the conversation of t.
func (s *Store) StoreRest(t *session.Turn) {
	if h, ok := t.Kept().(*histories); ok {
		h.whole = true
	}
}

// StoresRest reports whether StoreRest was called for the conversation of t.
func (s *Store) StoresRest(t *session.Turn) bool {
	h, ok := t.Kept().(*histories)
	return ok && h.whole
}

// Stores reports whether bodies like b are stored.
func (s *Store) Stores(b *Body) bool {
	return s.enabled != nil && s.enabled(b.Service) && (b.Capture == event.CaptureFull || b.Capture == event.CaptureShape)
}

// shapes reports whether b must be stored as its shape.
func (s *Store) shapes(b *Body) bool {
	return s.shaped != nil && b.Capture == event.CaptureFull && s.shaped(b.Service)
}

// captured returns the body of a request as stored, and its messages in that body; no messages if they do not match
// r.Facts.
func (s *Store) captured(r *Request) ([]byte, []facts.Message) {
	if !s.shapes(&r.Body) {
		return r.Bytes, r.Facts.Messages
	}
	body := s.shape(string(r.Dialect), false, r.Bytes)
	if err := facts.ScanRequest(r.Dialect, body, &s.facts); err != nil || s.facts.Dropped > 0 || len(s.facts.Messages) != len(r.Facts.Messages) {
		return body, nil
	}
	return body, s.facts.Messages
}
