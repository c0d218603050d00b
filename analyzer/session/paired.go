package session

import (
	"bytes"
	"slices"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Pair is a tool call of a request that has its reply there.
type Pair struct {
	ID          []byte
	Call, Reply int  // indices of their messages
	Mixed       bool // the calls of the message are not together at its end
	Split       bool // the replies to the calls of the message are in several messages
}

// minIDBytes is the length from which a word of an error text may be the id of a call.
const minIDBytes = 4

// Paired returns the first call that text names, if each call that it names has its reply in the request of t. Then a text that
// misses a call or its reply cannot mean what it says. ok is false if text names no call, or the request is no longer known.
func (t *Turn) Paired(text []byte) (p Pair, ok bool) {
	if t.branch.newest != t || t.names {
		return p, false
	}
	return t.q.paired(text)
}

// PairedIn returns a function like Turn.Paired for a request of no conversation.
func PairedIn(r *facts.Request, body []byte, t wire.Target) func(text []byte) (p Pair, ok bool) {
	return func(text []byte) (p Pair, ok bool) {
		if t.Dialect.Descriptor().Pairing.Names {
			return p, false
		}
		var q skeleton
		q.read(&Request{Target: t, Facts: r, Body: body})
		return q.paired(text)
	}
}

func (s *skeleton) paired(text []byte) (p Pair, ok bool) {
	named := map[uint64][]byte{}
	for _, word := range bytes.FieldsFunc(text, func(r rune) bool { return !isIDRune(r) }) {
		if word = bytes.TrimRight(word, ".:"); len(word) >= minIDBytes {
			named[hashID(word)] = word
		}
	}
	for i := range s.messages {
		m := &s.messages[i]
		for _, c := range s.callsOf(m) {
			id := named[c.id]
			if id == nil {
				continue
			}
			reply := s.repliedAfter(i, c.id)
			if reply < 0 {
				return Pair{}, false
			}
			if !ok {
				p, ok = Pair{ID: id, Call: i, Reply: reply, Mixed: m.mixed}, true
				for _, other := range s.callsOf(m) {
					at := s.repliedAfter(i, other.id)
					p.Split = p.Split || at >= 0 && at != reply && s.messages[at].role != facts.RoleTool
				}
			}
		}
	}
	return p, ok
}

// repliedAfter returns the index of the first message after message i with a reply to id, or -1.
func (s *skeleton) repliedAfter(i int, id uint64) int {
	for j := i + 1; j < len(s.messages); j++ {
		if slices.Contains(s.repliesOf(&s.messages[j]), id) {
			return j
		}
	}
	return -1
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' || r == ':'
}

// mixed reports whether another part follows a call of m, whose calls are parts of it.
func mixed(m *facts.Message, body []byte) bool {
	for i := range m.Calls {
		if i+1 < len(m.Calls) {
			if string(bytes.TrimSpace(body[m.Calls[i].End:m.Calls[i+1].Start])) != "," {
				return true
			}
		} else if !bytes.HasPrefix(bytes.TrimSpace(body[m.Calls[i].End:m.End]), []byte("]")) {
			return true
		}
	}
	return false
}
