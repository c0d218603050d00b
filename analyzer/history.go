package analyzer

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"time"

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
	maxKnown    = 1 << 17 // contents that are known to be stored, in each of two generations
	branchBytes = 192

	// knownFor is how long a content is not stored again: what is used for long is, which renews its time to live.
	knownFor = 12 * time.Hour
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
}

func (h *histories) bytes() int64 {
	n := int64(64)
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

// contents remembers what was stored and when, in two generations.
type contents struct{ new, old map[contentID]storedAt }

type storedAt struct {
	time  time.Time
	split int // where a part of it ends, after redaction
}

// contentID is the place of a content, four bytes, and the first 128 bits of the SHA-256 of the captured bytes. The place is
// the second in which the first request seen of its conversation was sent, so that a store that sorts by id has side by side what is read
// together, is alike and expires together: an answer and the message that the next request makes of it, conversations of
// one kind. Of recorded traffic that takes half of what an order by hash takes. What the conversations of an agent share,
// its prompts and tools, is at place 0 and stored once for all of them.
type contentID [20]byte

const placeShared = 0

// placeOf is by the clock of the agent, not by the stream's: traffic that is imported twice is at one place.
func placeOf(started time.Time) uint32 {
	return uint32(min(max(started.Unix(), placeShared+1), math.MaxUint32))
}

func idOf(place uint32, body []byte) (id contentID) {
	binary.BigEndian.PutUint32(id[:4], place)
	sum := sha256.Sum256(body)
	copy(id[4:], sum[:])
	return id
}

// find returns what is known of id, unless that is too old.
func (c *contents) find(id contentID, now time.Time) (storedAt, bool) {
	at, ok := c.new[id]
	if !ok {
		if at, ok = c.old[id]; ok {
			c.put(id, at)
		}
	}
	return at, ok && now.Sub(at.time) < knownFor
}

func (c *contents) put(id contentID, at storedAt) {
	if c.new == nil || len(c.new) >= maxKnown {
		c.old, c.new = c.new, make(map[contentID]storedAt)
	}
	c.new[id] = at
}

// content stores a part of a body, once at its place, and returns its id; "" when it is too large.
func (a *Analyzer) content(place uint32, kind string, body []byte) string {
	id, _ := a.split(place, kind, body, len(body))
	return id
}

// split is content, and returns also where what is at byte n of the body is in what is stored.
func (a *Analyzer) split(place uint32, kind string, body []byte, n int) (id string, at int) {
	if len(body) > maxContent {
		a.drop(dropContent)
		return "", 0
	}
	key := idOf(place, body)
	c := Content{ID: hex.EncodeToString(key[:]), Kind: kind, SeenAt: a.now, Bytes: len(body)}
	// Replay may begin in the middle of a conversation, which is then at another place than before: what is not put out
	// is not known to be stored there.
	if !a.emit && place != placeShared {
		return c.ID, n
	}
	if known, ok := a.contents.find(key, a.now); ok {
		return c.ID, known.split
	}
	if a.redact != nil {
		head := a.redact(body[:n])
		n, body = len(head), append(head, a.redact(body[n:])...)
	}
	a.contents.put(key, storedAt{a.now, n})
	if a.emit {
		c.Body = string(body)
		a.metrics.contents.Inc()
		a.out.Contents = append(a.out.Contents, c)
	}
	return c.ID, n
}

// KeepContents makes the analyzer put out what bodies hold, of the services that keep names, each content as redact
// returns it, which is the caller's no more; nil changes nothing. It is called before the first event.
func (a *Analyzer) KeepContents(keep func(service string) bool, redact func(body []byte) []byte) {
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
	first, last := cut[0].Start, cut[len(cut)-1].End
	rest := make([]byte, 0, len(body)-last+first)
	e.Parameters, e.MessagesAt = a.split(placeShared, ContentParameters, append(append(rest, body[:first]...), body[last:]...), first)
	lead := t.Lead()
	for i := range all[:lead] {
		e.Lead = append(e.Lead, a.content(placeShared, ContentMessage, body[cut[i].Start:cut[i].End]))
	}
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
		a.position(e, b, i, &all[i], h.place, body[cut[i].Start:cut[i].End], at)
	}
	a.sessions.Keep(t, h, h.bytes())
}

// position stores message i of a branch, whose text is body.
func (a *Analyzer) position(e *Exchange, b *branch, i int, m *facts.Message, place uint32, body []byte, at Position) {
	h := HistoryEntry{
		Service: e.Labels.Service, Conversation: e.Conversation, Branch: b.id, Position: i, Parent: b.parent, Shared: b.shared, Exchange: e.ID,
		Seq: at.Seq, SeenAt: at.Time, Role: string(m.RoleName), Content: a.content(place, ContentMessage, session.Unmark(body)),
	}
	h.Role = name(a.strings.string(h.Role))
	a.metrics.positions.Inc()
	a.out.History = append(a.out.History, h)
}

// storeAnswer stores the body of an answer. That of a failed call is the error text of its row.
func (a *Analyzer) storeAnswer(o *open, body []byte) {
	if e := &o.row; o.turn != nil && e.Status < 400 && len(body) > 0 && a.keeps(e) {
		e.Answer = a.content(o.place, ContentAnswer, a.capturedAnswer(o, body))
	}
}
