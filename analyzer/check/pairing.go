package check

import (
	"hash/maphash"
	"iter"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ReplyStatus is the result of matching a tool reply to the calls of its request.
type ReplyStatus uint8

// The statuses of a reply, in the order in which they are tested. The first that matches applies.
const (
	ReplyWithoutID  ReplyStatus = iota // the reply names no call
	ReplyMatched                       // the reply answers an open call of its own group
	ReplyDuplicate                     // the call is in the reply's own group, and every call with that id is already answered
	ReplyLate                          // the call is in an earlier, closed group
	ReplyBeforeCall                    // the call follows later
	ReplyUnknown                       // a group is open, but no call of the request has the reply's id
	ReplyOrphan                        // no group is open, and no call of the request has the reply's id
	replyStatuses
)

// A Group is an assistant message with calls, or several such messages of one turn, and the replies that directly
// follow. Looking only at the message before a reply is wrong, because with parallel calls that may be another reply.
type Group struct {
	Message  int // index of the assistant message, the first of its turn with calls
	End      int // index of the first message after the group; len(messages) if there is none
	Answered int // number of calls with a reply
	First    int // index of the first call in Pairing.Calls
	Last     int // index after the last call in Pairing.Calls
	Replies  int // number of replies
}

// A PairedCall is one call of an assistant message.
type PairedCall struct {
	*facts.Call
	ID      []byte // id of the call; in Gemini, the function's name if the call has none
	Message int
	Part    int // index of the call in its message
	Group   int // index in Pairing.Groups
	Reply   int // index in Pairing.Replies of the reply in the call's own group; -1 if none
	Again   int // index in Pairing.Calls of an earlier call with the same id; -1 if none

	key  []byte // what replies refer to: the call's id or, in Gemini, the function's name
	same int    // earlier call of the group with the same key, which represents this call; -1 if none
	next int    // next call of the group with the same key and no reply of its own; -1 if none
}

// A Reply is a tool message, or one of the replies in a message that contains several.
type Reply struct {
	*facts.Reply
	ID      []byte // see PairedCall.ID
	Message int
	Part    int // index of the reply in its message
	Status  ReplyStatus
	Call    int // index in Pairing.Calls of the call that the reply names; -1 if not in the request
	Group   int // index in Pairing.Groups of the group open at the reply; -1 if none
	After   int // index of the last message before this reply that contains no replies; -1 if none

	key []byte // see PairedCall.key
}

// Pairing matches the tool replies of a request to its calls. A reply is matched in its own group first, because a
// later turn may reuse an id: models and gateways restart their numbering each turn, and providers accept that.
//
// What forms a group depends on the dialect. In chat completions, it is one assistant message and the tool messages
// after it. If calls and replies are parts of messages (Anthropic, Gemini, Bedrock), adjacent messages of one role are
// one turn, whose calls and replies may be spread over several messages. In a Responses input, each call and each
// reply is an item; calls with only reasoning between them are one group, and a reply may be anywhere after its call.
type Pairing struct {
	Groups  []Group
	Calls   []PairedCall
	Replies []Reply
	// Unknown reports whether a part of the history was not read, because the provider stores it or because it exceeds
	// the limit of package facts. Calls and replies are then listed without statuses.
	Unknown bool
	// Chained contains the calls of the answer that previous_response_id names, except those that this request
	// answers.
	Chained []facts.ResponseCall

	scheme scheme
	counts [replyStatuses]int // replies by status
	table  []int32            // hash table (open addressing) by id: 1 + index of the newest call; 0 is a free slot
	ids    []int32            // the same by the ids that calls have although replies name functions; empty if no call has one
	seed   maphash.Seed
	id     []byte  // memory for the id of a chained call
	others []int32 // messages with unpaired items that have a call_id
	noID   int     // index at which to search for the next open call without an id
	since  int     // index of the first reply of the newest group
}

// scheme describes how a target pairs calls and replies.
type scheme struct {
	wire.Pairing
	anywhere bool // a reply may be outside its group
}

func schemeOf(t wire.Target) scheme {
	p := t.Dialect.Descriptor().Pairing
	return scheme{p, t.Dialect == wire.OpenAIResponses && t.Variant != wire.DeepSeekResponses}
}

// With yields the replies with status s in message order; none if the statuses are unknown.
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
