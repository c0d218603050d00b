package session

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// maxNamed bounds the number of named answers of one conversation.
const maxNamed = 256

// A namedAnswer is an answer that a later request can name by its previous_response_id, if the provider stores the history.
type namedAnswer struct {
	conv   *conversation
	branch *branch
	seq    uint64               // sequence of the answer's request
	calls  []facts.ResponseCall // without arguments
	other  bool                 // the answer also has calls of other, unpaired kinds
}

func namedKey(service string, id []byte) uint64 { return xxh3.HashSeed(id, xxh3.HashString(service)) }

// namedBy returns the answer that a request names; nil if the request names no answer or an unknown one.
func (s *Store) namedBy(in *Request) *namedAnswer {
	if len(in.Facts.PreviousResponse) == 0 {
		return nil
	}
	return s.named[namedKey(in.Service, in.Facts.PreviousResponse)]
}

// name registers the answer r, to the request with sequence seq of branch b, under its id.
func (s *Store) name(c *conversation, b *branch, seq uint64, r *facts.Response) {
	if r.ID == "" || c.forgotten {
		return
	}
	n := &namedAnswer{conv: c, branch: b, seq: seq, other: r.OtherCalls}
	for i := range r.Calls {
		n.calls = append(n.calls, facts.ResponseCall{ID: r.Calls[i].ID, Name: r.Calls[i].Name})
	}
	k := namedKey(c.key.service, []byte(r.ID))
	if s.named[k] == nil {
		if len(c.named) == maxNamed {
			delete(s.named, c.named[0])
			c.named = append(c.named[:0], c.named[1:]...)
		}
		c.named = append(c.named, k)
	}
	s.named[k] = n
}

// Chained returns the calls of the answer that previous_response_id names. known is false if that answer was not seen or has
// calls of unpaired kinds.
func (t *Turn) Chained() (calls []facts.ResponseCall, known bool) {
	if t.named == nil || t.named.other {
		return nil, false
	}
	return t.named.calls, true
}

// Called reports whether an answer of the conversation has a call with this id.
func (t *Turn) Called(id []byte) bool { return len(id) > 0 && t.conv.calls[hashID(id)] != nil }

// continuesNamed reports whether the request names the newest answer of its branch, so that its messages are those after the
// answer, or a copy of it and of more of the history that the provider stores.
func (t *Turn) continuesNamed() bool {
	return t.named != nil && t.before != nil && t.named.seq == t.before.seq && t.named.branch == t.branch
}

// Signed returns the signatures of the previous answer and the index of the message that repeats this answer; -1 if there is
// none.
func (t *Turn) Signed() (signed []facts.Signed, message int) {
	if t.before == nil || len(t.before.signed) == 0 {
		return nil, -1
	}
	if signed = t.before.signed; loose(t.before.source, t.source) { // their hashes cannot be compared
		signed = slices.Clone(signed)
		for i := range signed {
			signed[i].Hash, signed[i].Thought = 0, 0
		}
	}
	message = t.q.copyOf(t.before)
	if t.p != nil && message-t.q.lead < min(t.before.after, t.aligned.prefix) && t.before.after <= len(t.p.body()) {
		return signed, -1 // an older message with the same text, which preceded the answer
	}
	return signed, message
}
