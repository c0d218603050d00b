package session

import (
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// message is what is kept of one message.
type message struct {
	hash    uint64 // of its bytes, without cache marks
	text    uint64 // of an assistant's text; 0 when it has none
	id      int32  // of its first call in skeleton.ids
	calls   int32
	answer  int32 // of its first reply in skeleton.answers
	replies int32
	bytes   int32 // of its content, also when only its shape was published
	role    facts.Role
	item    facts.Item
	noText  bool // of an assistant message: it says nothing
	reasons bool // it has reasoning, or a signature
}

// mark is what is kept of one call.
type mark struct {
	id   uint64 // 0 for one without
	name uint64
	bad  bool // without a name, or with arguments that are no object
}

// skeleton is what is kept of a request.
type skeleton struct {
	messages []message
	ids      []mark   // of the calls of all messages, in order
	answers  []uint64 // hashes of the call ids that all replies name, in order; 0 for a reply without one
	lead     int      // leading system and developer messages
}

// What one message, call and reply of a skeleton cost.
const (
	messageBytes = 48
	markBytes    = 24
)

func hashID(id []byte) uint64 { return max(xxh3.Hash(id), 1) }

func hashOrZero(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	return hashID(id)
}

func hashName(id string) uint64 { return max(xxh3.HashString(id), 1) }

// read makes s the skeleton of a request, reusing its memory.
func (s *skeleton) read(in *In) {
	r := in.Facts
	s.messages, s.ids, s.answers, s.lead = s.messages[:0], s.ids[:0], s.answers[:0], 0
	s.messages = slices.Grow(s.messages, len(r.Messages))
	for i := range r.Messages {
		m := &r.Messages[i]
		k := message{
			hash: m.Hash, text: m.ContentHash, id: int32(len(s.ids)), calls: int32(len(m.Calls)),
			answer: int32(len(s.answers)), replies: int32(len(m.Replies)), bytes: int32(min(m.ContentBytes, math.MaxInt32)), role: m.Role, item: m.Item,
		}
		if m.Fields&facts.FieldCacheControl != 0 && m.End <= len(in.Body) {
			k.hash = unmarked(in.Body[m.Start:m.End])
		}
		k.noText = m.ContentHash == 0 || m.Content == facts.String && m.ContentBytes == 0
		k.reasons = m.Reasoning > facts.Null || m.Signed != 0
		for j := range m.Replies {
			s.answers = append(s.answers, hashOrZero(m.Replies[j].ID))
		}
		for j := range m.Calls {
			c := &m.Calls[j]
			k.reasons = k.reasons || c.Signature > facts.Null
			s.ids = append(s.ids, mark{id: hashOrZero(c.ID), name: hashOrZero(c.Name), bad: len(c.Name) == 0 || c.Args > facts.ArgsEmpty})
		}
		s.messages = append(s.messages, k)
	}
	for s.lead < len(s.messages) && (s.messages[s.lead].role == facts.RoleSystem || s.messages[s.lead].role == facts.RoleDeveloper) {
		s.lead++
	}
	if in.Target.Dialect.Descriptor().Pairing.Names {
		s.byName(r, func(uint64) bool { return true })
	}
}

// byName makes s, the skeleton of r, know calls and replies whose ids are not known by the names of their functions. A
// model gives ids or none; where it gave none, an agent may have made its own, which no answer names.
func (s *skeleton) byName(r *facts.Request, known func(id uint64) bool) {
	for i := range s.messages {
		k, m := &s.messages[i], &r.Messages[i]
		ids, answers := s.calls(k), s.replyIDs(k)
		for j := range ids {
			if ids[j].id = hashOrZero(m.Calls[j].ID); ids[j].id == 0 || !known(ids[j].id) {
				ids[j].id = nth(ids[j].name, j, func(n int) uint64 { return ids[n].id })
			}
		}
		for j := range answers {
			if answers[j] = hashOrZero(m.Replies[j].ID); answers[j] == 0 || !known(answers[j]) {
				answers[j] = nth(hashOrZero(m.Replies[j].Name), j, func(n int) uint64 { return answers[n] })
			}
		}
	}
}

// fromOutside reports whether m is neither an answer nor a part of one, nor a reply.
func (m *message) fromOutside() bool {
	return (m.role == facts.RoleUser || m.role == facts.RoleSystem || m.role == facts.RoleDeveloper) && m.replies == 0
}

// body is the messages after the leading system messages.
func (s *skeleton) body() []message { return s.messages[s.lead:] }

func (s *skeleton) calls(m *message) []mark { return s.ids[m.id : m.id+m.calls] }

// calling reports whether m calls id.
func (s *skeleton) calling(m *message, id uint64) bool {
	return slices.ContainsFunc(s.calls(m), func(c mark) bool { return c.id == id })
}

func (s *skeleton) replyIDs(m *message) []uint64 { return s.answers[m.answer : m.answer+m.replies] }

// declares returns the index of the last message that calls id, or -1.
func (s *skeleton) declares(id uint64) int {
	for i := len(s.messages) - 1; i >= 0; i-- {
		if s.calling(&s.messages[i], id) {
			return i
		}
	}
	return -1
}

// called counts the calls with id.
func (s *skeleton) called(id uint64) int {
	n := 0
	for _, c := range s.ids {
		if c.id == id {
			n++
		}
	}
	return n
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

// nth is the id of a call, or of a reply, that has only a name: those of one name are told apart by their order. id gives
// the ids of the n before it in its message.
func nth(name uint64, n int, id func(int) uint64) uint64 {
	if name == 0 {
		return 0
	}
	same := uint64(0)
	for i := max(0, n-maxSameName); i < n; i++ {
		if id(i) == name+same {
			same++
		}
	}
	return name + same
}

// maxSameName bounds the calls of one message that are told apart by their order.
const maxSameName = 64

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
