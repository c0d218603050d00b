package analyzer

import (
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/event"
)

// A request is stored as what is new in it. Its messages after the leading system messages are positions of a branch of
// the conversation's history:
//
//	exchange 1   u1 a1 t1            branch 1: 0 u1, 1 a1, 2 t1
//	exchange 2   u1 a1 t1 a2 t2      branch 1: 3 a2, 4 t2
//	exchange 3   u1 a1 tX            branch 3, which shares 2 with branch 1: 2 tX
//
// A branch is named by the exchange that began it, so its positions never change: what was forgotten and is seen again
// begins a new one. An exchange names its branch and how many messages it sent, and beside that whatever does not grow
// with the history: the leading system messages, the rest of the body, and the messages that carry cache marks.

// Bounds of what is remembered of histories and stored of bodies.
const (
	maxBranches = 8       // of one conversation; the one that was not used for longest is forgotten
	maxMarked   = 32      // messages with cache marks of one request; more are stored as if they had none
	maxContent  = 8 << 20 // bytes of one content; a larger one is not stored, and counted
	branchBytes = 192
)

// branch is a history that is stored.
type branch struct {
	id, parent   string
	conversation string   // whose it is: one that goes on under another id is stored anew, so that each is whole by itself
	shared       int      // messages that it has in common with its parent
	hashes       []uint64 // of all its messages
	replayed     bool     // known from replay, which may not have begun where the conversation did: it may not be stored
}

// histories are the branches of a conversation, the newest used last.
type histories struct {
	place    uint32 // of its contents
	era      uint32 // see ForgetContents
	branches []*branch

	parameters lastContent
	lead       []lastContent // the first ones of its newest request
	leadIDs    []string      // never written again: rows share it
}

func (h *histories) bytes() int64 {
	n := 192 + int64(len(h.lead))*lastBytes
	for _, b := range h.branches {
		n += branchBytes + 8*int64(cap(b.hashes))
	}
	return n
}

// find returns the branch of the conversation that shares the longest start with n messages, of which hash gives the
// identities, and how long that is.
func (h *histories) find(conversation string, n int, hash func(int) uint64) (best *branch, shared int) {
	at := 0
	for i, b := range slices.Backward(h.branches) {
		if b.conversation != conversation {
			continue
		}
		k := 0
		for k < n && k < len(b.hashes) && b.hashes[k] == hash(k) {
			k++
		}
		if k > shared {
			best, shared, at = b, k, i
		}
	}
	if best != nil {
		h.branches = append(slices.Delete(h.branches, at, at+1), best)
	}
	return best, shared
}

func (h *histories) add(b *branch) {
	if len(h.branches) == maxBranches {
		h.branches = slices.Delete(h.branches, 0, 1)
	}
	h.branches = append(h.branches, b)
}

// KeepContents makes the analyzer put out what bodies hold, of the services that keep names, each content as redact
// appends it to dst; nil changes nothing. It is called before the first event.
func (a *Analyzer) KeepContents(keep func(service string) bool, redact func(dst, body []byte) []byte) {
	a.keep, a.redact = keep, redact
}

// keeps reports whether what the bodies of e hold is stored.
func (a *Analyzer) keeps(e *Exchange) bool {
	return a.keep != nil && a.keep(e.Labels.Service) && (e.Capture == event.CaptureFull || e.Capture == event.CaptureShape)
}

// store stores what is new in the request whose facts are in a.req.
func (a *Analyzer) store(o *open, body []byte, at Position) {
	e, t, all := &o.row, o.turn, a.req.Messages
	if !a.keeps(e) {
		return
	}
	h, _ := t.Kept().(*histories)
	if h == nil || h.era != a.era {
		h = &histories{place: placeOf(e.StartedAt), era: a.era}
	}
	o.place = h.place
	body, cut := a.captured(o, body)
	if a.req.Dropped > 0 || len(cut) == 0 {
		e.Parameters = a.content(placeShared, ContentParameters, body)
		return
	}
	e.Parameters, e.MessagesAt = a.same(&h.parameters, ContentParameters, body[:cut[0].Start], body[cut[len(cut)-1].End:])
	lead := t.Lead()
	e.Lead = a.lead(h, body, cut[:lead])
	all, cut = all[lead:], cut[lead:]
	hash := func(i int) uint64 { return t.Unmarked(lead + i) }
	for i := range all {
		if m := &all[i]; hash(i) != m.Hash && len(e.Marked) < maxMarked {
			if e.Marked == nil {
				e.Marked = make(map[uint32]string)
			}
			e.Marked[uint32(i)] = a.content(h.place, ContentMessage, body[cut[i].Start:cut[i].End])
		}
	}
	b, shared := h.find(e.Conversation, len(all), hash)
	if b == nil || shared < len(b.hashes) && shared < len(all) {
		fork := &branch{id: e.ID, conversation: e.Conversation}
		if b != nil && (!b.replayed || !a.emit) {
			fork.parent, fork.shared, fork.hashes = b.id, shared, slices.Clone(b.hashes[:shared])
		} else {
			shared = 0
		}
		b = fork
		h.add(b)
	}
	e.Branch = b.id
	b.hashes = slices.Grow(b.hashes, max(len(all)-shared, 0))
	for i := shared; i < len(all); i++ {
		b.hashes = append(b.hashes, hash(i))
	}
	switch {
	case !a.emit:
		b.replayed = true
	case b.replayed: // all of it is put out again: where it is stored already, these are the same rows
		b.hashes = b.hashes[:len(all)]
		shared, b.parent, b.shared, b.replayed = 0, "", 0, false
	}
	for i := shared; a.emit && i < len(all); i++ {
		text := body[cut[i].Start:cut[i].End]
		if hash(i) != all[i].Hash {
			text = session.Unmark(text)
		}
		a.position(e, b, i, &all[i], h.place, text, at)
	}
	a.sessions.Keep(t, h, h.bytes())
}

// position stores message i of a branch, whose text is body.
func (a *Analyzer) position(e *Exchange, b *branch, i int, m *facts.Message, place uint32, body []byte, at Position) {
	h := HistoryEntry{
		Service: e.Labels.Service, Conversation: e.Conversation, Branch: b.id, Position: i, Parent: b.parent, Shared: b.shared, Exchange: e.ID,
		Seq: at.Seq, SeenAt: at.Time, Role: a.strings.name(m.RoleName), Content: a.content(place, ContentMessage, body),
	}
	a.metrics.positions.Inc()
	a.out.History = append(a.out.History, h)
}

// storeAnswer stores the body of an answer. That of a failed call is the error text of its row.
func (a *Analyzer) storeAnswer(o *open, body []byte) {
	if e := &o.row; o.turn != nil && e.Status < 400 && len(body) > 0 && a.keeps(e) {
		e.Answer = a.content(o.place, ContentAnswer, a.capturedAnswer(o, body))
	}
}
