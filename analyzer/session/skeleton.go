package session

import (
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// message is the stored form of one message.
type message struct {
	hash       uint64 // hash of the message without cache marks
	text       uint64 // hash of the text; 0 if there is none
	firstCall  int32  // index in skeleton.calls
	calls      int32
	firstReply int32 // index in skeleton.replies
	replies    int32
	bytes      int32 // length of the content, also known from a shape
	role       facts.Role
	item       facts.Item
	noText     bool  // the message has no text
	reasons    bool  // the message has reasoning or a signature
	mixed      bool  // another part follows a call; known for dialect Anthropic
	serverUse  bool  // the message has a call of a tool that the provider ran
	size       int32 // of the whole message, see promptcache.Size
}

// callMark is the stored form of one call in a request.
type callMark struct {
	id        uint64 // 0 for a call without an id; see naming for dialects whose replies name functions
	name      uint64
	args      uint64 // hash of the arguments as sent, in a dialect whose calls may have no ids
	malformed bool   // the call has no name, or its arguments are not an object
}

// skeleton is the stored form of a request.
type skeleton struct {
	messages []message
	calls    []callMark // calls of all messages, in order
	replies  []uint64   // hashes of the call ids of all replies, in order; 0 for a reply without an id
	lead     int        // number of leading system and developer messages
	names    bool       // replies name functions, and calls may have no ids
}

// Sizes of message and callMark in bytes.
const (
	messageBytes  = 48
	callMarkBytes = 32
)

func hashID(id []byte) uint64 { return max(xxh3.Hash(id), 1) }

func hashOrZero(id []byte) uint64 {
	if len(id) == 0 {
		return 0
	}
	return hashID(id)
}

func hashName(id string) uint64 { return max(xxh3.HashString(id), 1) }

// read replaces s with the skeleton of a request, reusing its slices.
func (s *skeleton) read(in *Request) {
	r := in.Facts
	s.messages, s.calls, s.replies, s.lead = s.messages[:0], s.calls[:0], s.replies[:0], 0
	s.names = in.Target.Dialect.Descriptor().Pairing.Names
	s.messages = slices.Grow(s.messages, len(r.Messages))
	anthropic := in.Target.Dialect == wire.Anthropic
	marks := r.Cache().Marks
	for len(marks) > 0 && marks[0].Place != facts.InMessages {
		marks = marks[1:]
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		k := message{
			hash: m.Hash, text: m.ContentHash, firstCall: int32(len(s.calls)), calls: int32(len(m.Calls)),
			firstReply: int32(len(s.replies)), replies: int32(len(m.Replies)), bytes: int32(min(m.ContentBytes, math.MaxInt32)), role: m.Role, item: m.Item,
		}
		marked := m.Fields&facts.FieldCacheControl != 0
		for len(marks) > 0 && (marks[0].Index <= i || marks[0].Place != facts.InMessages) {
			marked = marked || marks[0].Index == i
			marks = marks[1:]
		}
		if marked && m.End <= len(in.Body) {
			k.hash = unmarkedHash(in.Body[m.Start:m.End])
		}
		k.noText = m.ContentHash == 0 || m.Content == facts.String && m.ContentBytes == 0
		k.reasons = m.Reasoning > facts.Null || m.Signed != 0
		k.mixed = anthropic && m.End <= len(in.Body) && mixed(m, in.Body)
		k.serverUse = m.Fields&facts.FieldServerUse != 0
		if k.size = int32(min(m.End-m.Start, math.MaxInt32)); in.Shaped || m.Parts&media != 0 {
			k.size = promptSize(m, in)
		}
		for j := range m.Replies {
			s.replies = append(s.replies, hashOrZero(m.Replies[j].ID))
		}
		for j := range m.Calls {
			c := &m.Calls[j]
			k.reasons = k.reasons || c.Signature > facts.Null
			s.calls = append(s.calls, callMark{id: hashOrZero(c.ID), name: hashOrZero(c.Name), malformed: len(c.Name) == 0 || c.Args > facts.ArgsEmpty})
		}
		s.messages = append(s.messages, k)
	}
	for s.lead < len(s.messages) && s.messages[s.lead].role.Instructs() {
		s.lead++
	}
	if s.names {
		s.byName(r, func(uint64) bool { return true })
	}
}

// byName identifies calls and replies of s, the skeleton of r, by function names unless their ids are known. If a model gave
// no ids, an agent may have invented ids, which no answer contains. These ids serve to find the conversation; naming then
// replaces them.
func (s *skeleton) byName(r *facts.Request, known func(id uint64) bool) {
	for i := range s.messages {
		k, m := &s.messages[i], &r.Messages[i]
		calls, replies := s.callsOf(k), s.repliesOf(k)
		for j := range calls {
			calls[j].args = m.Calls[j].ArgsHash
			if calls[j].id = hashOrZero(m.Calls[j].ID); calls[j].id == 0 || !known(calls[j].id) {
				calls[j].id = nthID(calls[j].name, j, func(n int) uint64 { return calls[n].id })
			}
		}
		for j := range replies {
			if replies[j] = hashOrZero(m.Replies[j].ID); replies[j] == 0 || !known(replies[j]) {
				replies[j] = nthID(hashOrZero(m.Replies[j].Name), j, func(n int) uint64 { return replies[n] })
			}
		}
	}
}

// maxSameName bounds the number of calls of one message that are distinguished by their order.
const maxSameName = 64

// nthID returns the id of a call or reply that has only a name. Equal names are distinguished by their order; id returns the
// ids of the n calls or replies that precede this one in its message.
func nthID(name uint64, n int, id func(int) uint64) uint64 {
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

// external reports whether m is neither a part of an answer nor a tool reply.
func (m *message) external() bool {
	return (m.role == facts.RoleUser || m.role.Instructs()) && m.replies == 0
}

// body returns the messages after the leading system messages.
func (s *skeleton) body() []message { return s.messages[s.lead:] }

func (s *skeleton) callsOf(m *message) []callMark { return s.calls[m.firstCall : m.firstCall+m.calls] }

func (s *skeleton) repliesOf(m *message) []uint64 {
	return s.replies[m.firstReply : m.firstReply+m.replies]
}

// makes reports whether message i contains a call with id.
func (s *skeleton) makes(i int, id uint64) bool {
	return slices.ContainsFunc(s.callsOf(&s.messages[i]), func(c callMark) bool { return c.id == id })
}

// makesIn reports whether one of the messages in [from, to) contains a call with id.
func (s *skeleton) makesIn(from, to int, id uint64) bool {
	for i := from; i < to; i++ {
		if s.makes(i, id) {
			return true
		}
	}
	return false
}

// lastCall returns the index of the last message with a call with id, or -1.
func (s *skeleton) lastCall(id uint64) int {
	for i := range slices.Backward(s.messages) {
		if s.makes(i, id) {
			return i
		}
	}
	return -1
}

// countCalls returns the number of calls with id.
func (s *skeleton) countCalls(id uint64) (n int) {
	for _, c := range s.calls {
		if c.id == id {
			n++
		}
	}
	return n
}

// countReplies returns the number of replies to id.
func (s *skeleton) countReplies(id uint64) (n int) {
	for _, r := range s.replies {
		if r == id {
			n++
		}
	}
	return n
}

// replyAfter returns the index of the first message after i that replies to id, or -1.
func (s *skeleton) replyAfter(id uint64, i int) int {
	for i++; i < len(s.messages); i++ {
		if slices.Contains(s.repliesOf(&s.messages[i]), id) {
			return i
		}
	}
	return -1
}

// groupEnd returns the index of the first message that no longer belongs to the group of calls and replies that starts with
// message i.
func (s *skeleton) groupEnd(i int) int {
	replied := false
	for i++; i < len(s.messages); i++ {
		m := &s.messages[i]
		switch {
		case m.replies > 0:
			replied = true
		case m.item == facts.ItemReasoning || m.item == facts.ItemOther || m.item == facts.ItemReference:
		case m.calls > 0 && m.item == facts.ItemCall && !replied:
		default:
			return i
		}
	}
	return i
}

// groupStart returns the index of the first message of the group of calls that contains the calls of message i. Only calls that
// are items of their own have several messages.
func (s *skeleton) groupStart(i int) int {
	for j := i; j >= 0; j-- {
		switch m := &s.messages[j]; {
		case m.item == facts.ItemCall:
			i = j
		case m.item != facts.ItemReasoning && m.item != facts.ItemOther && m.item != facts.ItemReference:
			return i
		}
	}
	return i
}

// callsIn returns the calls of the messages in [from, to).
func (s *skeleton) callsIn(from, to int) []callMark {
	if from >= to {
		return nil
	}
	last := &s.messages[to-1]
	return s.calls[s.messages[from].firstCall : last.firstCall+last.calls]
}

// owner returns the index of the last message before i without replies, skipping parallel replies; -1 if there is none.
func (s *skeleton) owner(i int) int {
	for i--; i >= 0 && s.messages[i].replies > 0; i-- {
	}
	return i
}

// caller returns the index of the message whose calls the reply in message i can answer, or -1.
func (s *skeleton) caller(i int) int {
	at := s.owner(i)
	for at >= 0 && (s.messages[at].item == facts.ItemReasoning || s.messages[at].item == facts.ItemOther || s.messages[at].item == facts.ItemReference) {
		at = s.owner(at)
	}
	if at < 0 || s.messages[at].calls == 0 {
		return -1
	}
	return at
}

// twin returns the index of another message with the same calls and text as message i, or -1.
func (s *skeleton) twin(i int) int {
	m := &s.messages[i]
	for j := range s.messages {
		o := &s.messages[j]
		if j != i && o.calls > 0 && sameText(o.text, o.noText, m.text, m.noText) && slices.Equal(s.callsOf(o), s.callsOf(m)) {
			return j
		}
	}
	return -1
}

// userAfter reports whether a user message without replies follows message i.
func (s *skeleton) userAfter(i int) bool {
	return slices.ContainsFunc(s.messages[i+1:], func(m message) bool { return m.role == facts.RoleUser && m.replies == 0 })
}

// copies reports whether m is a copy of a: it has the text of a or a call with an id of a.
func (s *skeleton) copies(m *message, a *answer) bool {
	return slices.ContainsFunc(s.callsOf(m), func(c callMark) bool { return a.has(c.id) }) || !a.noText && !m.noText && m.text == a.text
}

// copyOf returns the index of the newest assistant message that is a copy of a, or -1.
func (s *skeleton) copyOf(a *answer) int {
	for i := len(s.messages) - 1; i >= s.lead; i-- {
		if m := &s.messages[i]; m.role == facts.RoleAssistant && s.copies(m, a) {
			return i
		}
	}
	return -1
}

// contains reports whether s has a copy of a, or a reply to a call of a, at or after message n of its body.
func (s *skeleton) contains(a *answer, n int) bool {
	for i := len(s.messages) - 1; i >= s.lead+n; i-- {
		m := &s.messages[i]
		if slices.ContainsFunc(s.repliesOf(m), a.has) || s.copies(m, a) {
			return true
		}
	}
	return false
}

// renames reports whether calls are those that an answer made, all of them with other ids.
func renames(calls []callMark, made []*Call) bool {
	if len(calls) == 0 || len(calls) != len(made) {
		return false
	}
	for i, c := range calls {
		if c.id == 0 || made[i].answer.has(c.id) || c.name != hashOrZero([]byte(made[i].Name)) {
			return false
		}
	}
	return true
}

// spread returns the number of messages that contain calls of a.
func (s *skeleton) spread(a *answer) (n int) {
	for i := range s.messages {
		if slices.ContainsFunc(s.callsOf(&s.messages[i]), func(c callMark) bool { return a.has(c.id) }) {
			n++
		}
	}
	return n
}

// hashBefore returns the hash of the message before i; 0 if that message is not in the body.
func (s *skeleton) hashBefore(i int) uint64 {
	if i <= s.lead {
		return 0
	}
	return s.messages[i-1].hash
}

// sameLead reports whether both requests start with the same system messages.
func (s *skeleton) sameLead(o *skeleton) bool {
	return slices.EqualFunc(s.messages[:s.lead], o.messages[:o.lead], func(a, b message) bool { return a.hash == b.hash })
}

// chain returns a hash of the leading system messages and the first n messages of the body.
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
