package session

import (
	"math"
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/promptcache"
)

// mediaSize bounds the size of a message with an image or a file, whose tokens do not depend on its bytes.
const mediaSize = 8 << 10

// media are the parts of which the tokens do not depend on the bytes.
const media = facts.PartImage | facts.PartAudio | facts.PartFile

// promptSize returns the size in a prompt of m, which is in a shape or has media.
func promptSize(m *facts.Message, in *Request) int32 {
	n := m.End - m.Start
	if in.Shaped && m.End <= len(in.Body) {
		n = promptcache.Size(in.Body[m.Start:m.End])
	}
	if m.Parts&media != 0 {
		n = min(n, mediaSize)
	}
	return int32(min(n, math.MaxInt32))
}

// prompt describes what the request q has in common with the newest answered request of b, whose history it continues or parts
// from. It must be called before q becomes the newest request of the branch.
func (b *branch) prompt(in *Request, q *skeleton, a alignment, continues, loose bool) (e promptcache.Earlier) {
	if !b.cache.Known() {
		return e
	}
	if in.Facts.Stored {
		if continues && b.answered() { // the provider adds all that was before
			e.Prompt, e.Loose, e.Shared, e.SharedBytes = b.cache, loose, int(b.cache.Messages), b.cache.BodySize()
		}
		return e
	}
	p := &b.tip
	pb, qb := p.body(), q.body()
	e.Prompt, e.Loose = b.cache, loose
	k, shared := 0, int(b.cache.Shared)
	for both := min(len(pb), len(qb)); k < both; k++ {
		y := &qb[k]
		if x := &pb[k]; x.hash != y.hash && (!loose || !p.same(x, q, y, true)) {
			break
		}
		if k < shared {
			e.SharedBytes += int(y.size)
		}
	}
	e.Shared = min(shared, k)
	e.Prompt.Shared = uint16(e.Shared)
	if continues {
		b.cache.Shared = e.Prompt.Shared
	}
	switch messages := int(e.Prompt.Messages); {
	case e.Shared >= messages:
		return e
	case !continues || messages != len(pb): // the history before is not known, or it is another one
		e.Change = promptcache.Parted
		return e
	}
	var pEnd, qEnd int // the end of what was replaced
	switch {
	case k < a.prefix: // an assistant message was written in another way, and what follows was not
		pEnd, qEnd = k+1, k+1
	case a.tail > 0:
		pEnd, qEnd = len(pb)-a.tail, a.tailEnd-a.tail
	default:
		e.Change = promptcache.Parted
		return e
	}
	replaced, by := size(pb[k:pEnd]), size(qb[k:qEnd])
	e.Change = promptcache.Edited
	if qEnd-k < pEnd-k || by < replaced/2 {
		e.Change = promptcache.Compacted
	}
	// What follows may have moved, and may have changed again.
	for i := range min(len(pb)-pEnd, len(qb)-qEnd) {
		if pb[pEnd+i].hash == qb[qEnd+i].hash {
			e.EqualBytes += int(qb[qEnd+i].size)
		}
	}
	if e.Change == promptcache.Edited {
		e.EqualBytes += min(replaced, by)
	}
	return e
}

// replaced returns what a request, which shares nothing with the histories of c, has in common with the newest of them, if it may be a
// summary of it: it has answers of the model that are not new, and it is shorter.
func (c *conversation) replaced(q *skeleton) (e promptcache.Earlier) {
	if len(c.branches) == 0 || !q.answered() {
		return e
	}
	if b := c.branches[len(c.branches)-1]; b.cache.Known() && b.inFlight == 0 && len(q.body()) < int(b.cache.Messages) {
		e.Prompt, e.Change = b.cache, promptcache.Replaced
	}
	return e
}

// answered reports whether the body has a message of the model.
func (s *skeleton) answered() bool {
	return slices.ContainsFunc(s.body(), func(m message) bool { return m.role == facts.RoleAssistant })
}

// Answered reports whether the request has an answer of the model in its history, and the size of the messages up to the last one.
func (t *Turn) Answered() (bytes int, ok bool) {
	body := t.q.body()
	for i := range slices.Backward(body) {
		if body[i].role == facts.RoleAssistant {
			return size(body[:i]), true
		}
	}
	return 0, false
}

// Whole returns a hash of all messages after the leading system messages.
func (t *Turn) Whole() uint64 { return t.q.history() }

// size returns the size of messages.
func size(messages []message) (n int) {
	for i := range messages {
		n += int(messages[i].size)
	}
	return n
}

// Earlier returns what the request has in common with the newest answered request of its history, or of the one that it parts from.
// It is valid until the next call of Store.Request.
func (t *Turn) Earlier() *promptcache.Earlier { return &t.store.earlier }

// First reports whether the request is the first of its conversation.
func (t *Turn) First() bool { return t.previous == "" && t.Branch == "" }

// BodySize returns the size of the messages after the leading system messages, with those that the provider has stored, and the number of
// those in the request. It is valid as long as Earlier.
func (t *Turn) BodySize(stored bool) (bytes, messages int) {
	e, body := &t.store.earlier, t.q.body()
	if !stored {
		body = body[e.Shared:]
	}
	return e.SharedBytes + size(body), t.length
}

// Prompt returns what the history of the request remembers of its prompts.
func (t *Turn) Prompt() *promptcache.Prompt { return &t.branch.cache }

// Newest reports whether the request is still the newest of its history.
func (t *Turn) Newest() bool { return t.branch.exchange == t.exchange }
