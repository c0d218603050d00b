package content

import (
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
	repeatedBytes = 160 // approximate size of a repeated content
)

// A Request is a request to store.
type Request struct {
	Body
	Started      time.Time // start of the request, by the agent's clock
	Exchange     string
	Conversation string
	Turn         *session.Turn // nil if the request is not added to a conversation
	Facts        *facts.Request
}

// A Body is a body to store.
type Body struct {
	Service string
	Capture string
	Dialect wire.Dialect
	Bytes   []byte
}

// A Location describes where a request is stored.
type Location struct {
	Time       Time              // Time of the conversation's contents
	Branch     string            // branch of the conversation's history: the exchange that began it
	Leading    []string          // content ids of the leading system and developer messages, or of all messages if Branch is ""; immutable
	Marked     map[uint32]string // content ids of the messages with cache marks, by position
	Parameters string            // content id of the body without its messages
	MessagesAt int               // byte offset of the removed messages in the stored Parameters
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
	replayed     bool     // seen in a replay, which may have begun inside the conversation, so the branch may not be stored
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
}

func (h *histories) bytes() int64 {
	n := 192 + int64(len(h.leading))*repeatedBytes
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

// Request stores the new parts of a request and returns its location.
func (s *Store) Request(r *Request) (at Location) {
	if !s.stores(&r.Body) {
		return at
	}
	t := r.Turn
	if t == nil {
		return s.single(r)
	}
	h, _ := t.Kept().(*histories)
	if h == nil || h.epoch != s.epoch {
		h = &histories{time: timeOf(r.Started), epoch: s.epoch}
	}
	at.Time = h.time
	body, parts := s.captured(r)
	if r.Facts.Dropped > 0 || len(parts) == 0 {
		at.Parameters = s.put(shared, KindParameters, body)
		return at
	}
	at.Parameters, at.MessagesAt = s.putRepeated(&h.parameters, KindParameters, body[:parts[0].Start], body[parts[len(parts)-1].End:])
	lead := t.Lead()
	at.Leading = s.putLeading(h, body, parts[:lead])
	messages, parts := r.Facts.Messages[lead:], parts[lead:]
	hash := func(i int) uint64 { return t.Unmarked(lead + i) }
	for i := range messages {
		if m := &messages[i]; hash(i) != m.Hash && len(at.Marked) < maxMarked {
			if at.Marked == nil {
				at.Marked = make(map[uint32]string)
			}
			at.Marked[uint32(i)] = s.put(h.time, KindMessage, body[parts[i].Start:parts[i].End])
		}
	}
	b, from := s.extend(h, r, len(messages), hash)
	at.Branch = b.id
	for i := from; s.output != nil && i < len(messages); i++ {
		text := body[parts[i].Start:parts[i].End]
		if hash(i) != messages[i].Hash {
			text = session.Unmark(nil, text)
		}
		s.output.Position(Position{
			Branch: b.id, Parent: b.parent, Shared: b.shared, Index: i, Content: s.put(h.time, KindMessage, text), Role: messages[i].RoleName,
		})
	}
	s.sessions.Keep(t, h, h.bytes())
	return at
}

// single stores all messages of a request that is not added to a conversation, in a branch of its own. Contents that such
// requests of the same day repeat are stored once. Branches belong to conversations, and are erased with them, so the messages
// of a request without a conversation are all in Leading.
func (s *Store) single(r *Request) (at Location) {
	at.Time = timeOf(r.Started.Truncate(24 * time.Hour))
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
			if t = at.Time; r.Conversation != "" {
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
			Branch: at.Branch, Index: i, Content: s.put(at.Time, KindMessage, body[p.Start:p.End]), Role: messages[lead+i].RoleName,
		})
	}
	return at
}

// extend finds or begins the branch of n messages and returns the first position to store. hash(i) is the identity of
// message i.
func (s *Store) extend(h *histories, r *Request, n int, hash func(int) uint64) (b *branch, from int) {
	b, from = h.find(r.Conversation, n, hash)
	if b == nil || from < len(b.hashes) && from < n {
		fork := h.newBranch()
		fork.id, fork.conversation = r.Exchange, r.Conversation
		if b != nil && (!b.replayed || s.output == nil) {
			fork.parent, fork.shared, fork.hashes = b.id, from, slices.Clone(b.hashes[:from])
		} else {
			from = 0
		}
		b = fork
		h.add(b)
	}
	b.hashes = slices.Grow(b.hashes, max(n-from, 0))
	for i := from; i < n; i++ {
		b.hashes = append(b.hashes, hash(i))
	}
	switch {
	case s.output == nil:
		b.replayed = true
	case b.replayed: // emit the whole branch: rows that are already stored are the same
		b.hashes = b.hashes[:n]
		from, b.parent, b.shared, b.replayed = 0, "", 0, false
	}
	return b, from
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

// Answer stores the body of an answer to a request with Time t and returns its content id, or "" if the body is not
// stored.
func (s *Store) Answer(t Time, b *Body) string {
	if len(b.Bytes) == 0 || !s.stores(b) {
		return ""
	}
	body := b.Bytes
	if s.shapes(b) {
		body = s.shape(string(b.Dialect), true, body)
	}
	return s.put(t, KindAnswer, body)
}

// stores reports whether b must be stored.
func (s *Store) stores(b *Body) bool {
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
