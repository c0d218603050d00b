package check

import (
	"bytes"
	"hash/maphash"
	"iter"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// ReplyStatus is the result of matching a tool reply to the calls of its request.
type ReplyStatus uint8

// The statuses of a reply. They are tried in this order, and the first that fits is taken.
const (
	ReplyWithoutID  ReplyStatus = iota // it names no call
	ReplyMatched                       // it answers an open call of its own group
	ReplyDuplicate                     // its call is in its own group, and every call with that id is answered already
	ReplyLate                          // its call is in an earlier, closed group
	ReplyUnknown                       // its group is open, but no earlier call has its id
	ReplyBeforeCall                    // no group is open, and its call comes later
	ReplyOrphan                        // no group is open, and no call of the request has its id
	replyStatuses
)

// A Group is an assistant message with calls, or several of one turn, and the replies that directly follow. A second
// reply to parallel calls follows another reply, so looking only at the message before a reply is wrong.
type Group struct {
	Message  int // the assistant message, the first of its turn with calls
	End      int // the first message after the group; len(messages) when the request ends with the group
	Answered int // calls with a reply in the group
	First    int // index of the first call in Pairing.Calls
	Last     int // one past the last call
}

// A PairedCall is one call of an assistant message.
type PairedCall struct {
	*facts.Call
	ID      []byte // by which replies name it: its id, or the function's name in Gemini
	Message int
	Group   int // in Pairing.Groups
	Reply   int // in Pairing.Replies: the reply in its own group; -1 when there is none
	Again   int // in Pairing.Calls: an earlier call with the same id; -1 when there is none, and where names pair

	same int // an earlier call of the group with the same id, which represents this one; -1 when there is none
	next int // the next call of the group with the same id and no reply of its own; -1 when there is none
}

// A Reply is one tool message, or one reply of a message that contains several.
type Reply struct {
	*facts.Reply
	ID      []byte // as PairedCall.ID
	Message int
	Status  ReplyStatus
	Call    int // in Pairing.Calls: the call it names; -1 when the request has none
	Group   int // in Pairing.Groups: the group that was open at the reply; -1 when none was
	After   int // the last message before it without replies; -1 when there is none
}

// Pairing matches the tool replies of a request to its calls. An id may be used again in a later turn: models and
// gateways restart their numbering each turn, and providers accept that, so a reply is matched in its own group first.
//
// A group depends on the dialect. In chat completions it is one assistant message and the tool messages after it. Where
// calls and replies are parts of messages (Anthropic, Gemini, Bedrock), neighbors of one role are one turn: its calls may
// be spread over several assistant messages, its replies over several user messages. In a Responses input each call and
// each reply is an item; calls with only reasoning between them are one group, and a reply may be anywhere after its
// call.
type Pairing struct {
	Groups  []Group
	Calls   []PairedCall
	Replies []Reply
	// Unknown reports that a part of the history was not read: the provider stores it, or it exceeds the bound of facts.
	// Then calls and replies are listed without statuses.
	Unknown bool
	// Chained are calls of the answer that previous_response_id names and that this request does not answer.
	Chained []facts.ResponseCall

	scheme scheme
	counts [replyStatuses]int // replies by status
	table  []int32            // open addressing: 1 + the newest call with an id; 0 is a free slot
	seed   maphash.Seed
	noID   int // where to look for the next open call without an id
	since  int // the first reply of the newest group
}

// scheme describes how a target pairs calls and replies.
type scheme struct {
	wire.Pairing
	anywhere bool // a reply may be outside its group
}

func schemeOf(t wire.Target) scheme {
	p := t.Dialect.Descriptor().Pairing
	return scheme{p, p.Items && t.Variant != wire.DeepSeekResponses}
}

// With yields the replies of one status in message order; none while statuses are unknown.
func (p *Pairing) With(s ReplyStatus) iter.Seq[*Reply] {
	return func(yield func(*Reply) bool) {
		for i, n := 0, p.counts[s]; n > 0; i++ {
			if p.Replies[i].Status != s {
				continue
			}
			n--
			if !yield(&p.Replies[i]) {
				return
			}
		}
	}
}

// Unanswered yields the calls without a reply in their group, in message order.
func (p *Pairing) Unanswered() iter.Seq[*PairedCall] {
	return func(yield func(*PairedCall) bool) {
		if p.Unknown {
			return
		}
		for i := range p.Groups {
			g := &p.Groups[i]
			if g.Answered == g.Last-g.First {
				continue
			}
			for j := g.First; j < g.Last; j++ {
				if p.Calls[j].Reply < 0 && !yield(&p.Calls[j]) {
					return
				}
			}
		}
	}
}

// Nth returns how many earlier calls of the same message have the name of call. It distinguishes calls without an id, and
// those of dialects that pair by name; for other calls it is 0.
func (p *Pairing) Nth(call int) (n int) {
	c := &p.Calls[call]
	if len(c.Call.ID) > 0 && !p.scheme.Names {
		return 0
	}
	for i := call - 1; i >= max(0, call-maxSameName) && p.Calls[i].Message == c.Message; i-- {
		if bytes.Equal(p.Calls[i].Name, c.Name) {
			n++
		}
	}
	return n
}
