package session

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// message is what is kept of one message.
type message struct {
	hash    uint64 // of its bytes
	text    uint64 // of an assistant's text; 0 when it has none
	id      int32  // of its first call in skeleton.ids
	calls   int32
	answer  int32 // of its first reply in skeleton.answers
	replies int32
	role    facts.Role
	noText  bool // of an assistant message: it says nothing
}

// skeleton is what is kept of a request.
type skeleton struct {
	messages []message
	ids      []uint64 // hashes of the call ids of all messages, in order; 0 for a call without one
	answers  []uint64 // hashes of the call ids that all replies name, in order; 0 for a reply without one
	lead     int      // leading system and developer messages
}

// skeletonBytes is about what one message of a skeleton costs, with its calls.
const skeletonBytes = 56

func hashID(id []byte) uint64 { return max(xxh3.Hash(id), 1) }

func hashOrZero(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	return hashID(id)
}

func hashName(id string) uint64 { return max(xxh3.HashString(id), 1) }

// read makes s the skeleton of r, reusing its memory.
func (s *skeleton) read(r *facts.Request) {
	s.messages, s.ids, s.answers, s.lead = s.messages[:0], s.ids[:0], s.answers[:0], 0
	s.messages = slices.Grow(s.messages, len(r.Messages))
	for i := range r.Messages {
		m := &r.Messages[i]
		k := message{
			hash: m.Hash, text: m.ContentHash, id: int32(len(s.ids)), calls: int32(len(m.Calls)),
			answer: int32(len(s.answers)), replies: int32(len(m.Replies)), role: m.Role,
		}
		k.noText = m.ContentHash == 0 || m.Content == facts.String && m.ContentBytes == 0
		for j := range m.Replies {
			s.answers = append(s.answers, hashOrZero(m.Replies[j].ID))
		}
		for j := range m.Calls {
			s.ids = append(s.ids, hashOrZero(m.Calls[j].ID))
		}
		s.messages = append(s.messages, k)
	}
	for s.lead < len(s.messages) && (s.messages[s.lead].role == facts.RoleSystem || s.messages[s.lead].role == facts.RoleDeveloper) {
		s.lead++
	}
}

// body is the messages after the leading system messages.
func (s *skeleton) body() []message { return s.messages[s.lead:] }

func (s *skeleton) callIDs(m *message) []uint64 { return s.ids[m.id : m.id+m.calls] }

func (s *skeleton) replyIDs(m *message) []uint64 { return s.answers[m.answer : m.answer+m.replies] }

// declares returns the index of the last message that calls id, or -1.
func (s *skeleton) declares(id uint64) int {
	for i := len(s.messages) - 1; i >= 0; i-- {
		if slices.Contains(s.callIDs(&s.messages[i]), id) {
			return i
		}
	}
	return -1
}

// replies counts the replies to id.
func (s *skeleton) replies(id uint64) int {
	n := 0
	for _, a := range s.answers {
		if a == id {
			n++
		}
	}
	return n
}

// owner is the last message before i that holds no replies: parallel replies follow one another.
func (s *skeleton) owner(i int) int {
	for i--; i >= 0 && s.messages[i].replies > 0; i-- {
	}
	return i
}

// before is the hash of the message before i; 0 when none is in the body.
func (s *skeleton) before(i int) uint64 {
	if i <= s.lead {
		return 0
	}
	return s.messages[i-1].hash
}

// sameLead reports whether both requests start with the same system messages.
func (s *skeleton) sameLead(o *skeleton) bool {
	if s.lead != o.lead {
		return false
	}
	for i := range s.lead {
		if s.messages[i].hash != o.messages[i].hash {
			return false
		}
	}
	return true
}

// chain hashes the first n messages of the body and the messages before it.
func (s *skeleton) chain(n int) uint64 {
	h := xxh3.New()
	var b [8]byte
	for _, m := range s.messages[:min(s.lead+n, len(s.messages))] {
		for i := range b {
			b[i] = byte(m.hash >> (8 * i))
		}
		_, _ = h.Write(b[:]) // never fails
	}
	return h.Sum64()
}

// A fit says how a request Q continues an earlier request P. All positions are in bodies.
type fit struct {
	prefix  int  // messages that both start with
	whole   bool // Q starts with all of P
	tail    int  // messages of P's end that Q holds further on
	tailEnd int  // the message of Q after them; -1 when P's last message is not in Q
	known   bool // there is a P
}

// align compares Q with P.
func align(p, q *skeleton) fit {
	pb, qb := p.body(), q.body()
	f := fit{tailEnd: -1, known: true}
	for f.prefix < len(pb) && f.prefix < len(qb) && p.same(&pb[f.prefix], q, &qb[f.prefix]) {
		f.prefix++
	}
	if f.prefix == len(pb) {
		f.whole, f.tailEnd = true, len(pb)
		return f
	}
	last := &pb[len(pb)-1]
	for i := len(qb) - 1; i >= f.prefix; i-- {
		if !p.same(last, q, &qb[i]) {
			continue
		}
		f.tailEnd = i + 1
		for f.tail < len(pb)-f.prefix && f.tail <= i-f.prefix && p.same(&pb[len(pb)-1-f.tail], q, &qb[i-f.tail]) {
			f.tail++
		}
		break
	}
	return f
}

// same reports whether a of s and b of o are one message. Bytes decide; an assistant message that was written anew
// (arguments in another spelling, null for "") is still the same if text and call ids are.
func (s *skeleton) same(a *message, o *skeleton, b *message) bool {
	if a.hash == b.hash {
		return true
	}
	if a.role != facts.RoleAssistant || b.role != facts.RoleAssistant || a.calls != b.calls || !sameText(a.text, a.noText, b.text, b.noText) {
		return false
	}
	for i, id := range s.callIDs(a) {
		if id != o.callIDs(b)[i] {
			return false
		}
	}
	return a.calls > 0 || !a.noText
}

// sameText compares two assistant texts; null, "" and absent are the same.
func sameText(a uint64, aEmpty bool, b uint64, bEmpty bool) bool {
	return aEmpty && bEmpty || a != 0 && a == b
}
