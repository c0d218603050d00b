package session

import (
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ending is how an answer ended.
type ending uint8

const (
	endedWhole ending = iota
	endedAtLimit
	endedCut
)

// answer is the stored form of one answer of the model.
type answer struct {
	exchange   string
	code       string
	seq, ended uint64 // sequences of its request and of its end
	after      int    // number of messages in the body of its request: the index of its copy
	text       uint64
	noText     bool
	end        ending
	streamed   bool
	joined     bool // fragments of several calls could not be distinguished
	blank      bool // the reasoning is an empty string
	several    bool // the response had more than one choice; this is the first
	bytes      int  // length of the text
	reasons    bool
	serverUse  bool // the answer calls a tool that the provider runs
	calls      []*Call
	signed     []facts.Signed
	source     *source
}

// An Answer is an answer to remember.
type Answer struct {
	Facts   *facts.Response
	Order   uint64 // number of the event that completed the answer, greater than that of any event before
	MinSeq  uint64 // oldest sequence of its events
	At      time.Time
	Cut     bool // the agent did not read the whole answer, so its calls expect no replies and are not returned
	Context any  // stored with the calls for the caller
}

// Answer adds the answer to t to the conversation and returns the calls in it.
func (s *Store) Answer(t *Turn, in Answer) []*Call {
	c, r := t.conv, in.Facts
	s.End(t)
	c.made.Lower(in.MinSeq)
	a := &answer{
		exchange: t.exchange, code: t.code, seq: t.seq, ended: in.Order, after: t.length, text: r.ContentHash, noText: r.ContentBytes == 0,
		end: endingOf(r, in.Cut), streamed: t.streamed, joined: r.BadIndex, blank: r.BlankReasoning, reasons: reasons(r), serverUse: r.ServerUse,
		signed: slices.Clone(r.Signed), source: t.source, several: r.Choices > 1, bytes: r.ContentBytes,
	}
	state := Open
	if in.Cut {
		state = notRead
	}
	calls := make([]*Call, 0, len(r.Calls))
	for i := range r.Calls {
		rc := &r.Calls[i]
		call := &Call{
			CallID: rc.ID, Name: rc.Name, Position: i, Exchange: t.exchange, Conversation: t.Conversation, AskedAt: in.At,
			State: state, Forced: t.forced != 0 && t.forced == hashName(rc.Name), Context: in.Context, conv: c, answer: a, kind: rc.ArgsKind, args: rc.Args, signed: rc.Signature,
		}
		key := hashOrZero([]byte(rc.ID))
		if call.id = key; t.names {
			call.id = t.nameCall(call, a.calls)
			if key == 0 {
				key = call.byName
			}
		}
		call.meaning, call.raw, call.sent = canonical([]byte(rc.Arguments)), hashName(rc.Arguments), s.hashSent(rc.Arguments)
		call.vague = t.source.shaped && HasNumber([]byte(rc.Arguments))
		calls = append(calls, call)
		if len(a.calls) < maxAnswer {
			a.calls = append(a.calls, call)
		}
		if call.id == 0 {
			continue
		}
		c.remember(call)
		s.index(c, callKey(c.key.service, key, unique(rc.ID), t.last))
		if t.names && call.CallID != "" { // the agent may drop the id
			s.index(c, callKey(c.key.service, call.byName, false, t.last))
		}
	}
	if r.ContentBytes > minText && r.ContentHash != 0 {
		s.index(c, pairKey(c.key.service, r.ContentHash, t.last))
	}
	if t.branch.answer == nil || t.branch.answer.seq <= a.seq {
		t.branch.answer = a
	}
	t.branch.active = in.At
	if len(a.calls) > 0 && !in.Cut && c.inferred && !c.forgotten && t.source.instance != "" {
		s.await(pendingAnswer{c, t.branch, a, in.At})
	}
	if t.items || t.threaded {
		s.name(c, t.branch, t.seq, r)
	}
	s.account(c)
	if in.Cut {
		return nil
	}
	return calls
}

// nameCall sets the name by which a reply without an id identifies a call, and returns the id of the call. before contains the
// earlier calls of the answer.
func (t *Turn) nameCall(call *Call, before []*Call) uint64 {
	if call.Name != "" {
		call.byName = nthID(hashName(call.Name), len(before), func(i int) uint64 { return before[i].byName })
	}
	switch {
	case call.CallID != "":
		return hashName(call.CallID)
	case call.Name == "":
		return 0
	}
	return max(mix(hashName(t.exchange), uint64(call.Position)), 1)
}

// has reports whether a has a call with id.
func (a *answer) has(id uint64) bool { return a.call(id) != nil }

// call returns the call of a with id, or nil. id may be made of the name of the function, if naming has not replaced it yet.
func (a *answer) call(id uint64) *Call {
	if id == 0 {
		return nil
	}
	for _, c := range a.calls {
		if c.id == id || c.byName == id {
			return c
		}
	}
	return nil
}

// repliedBy returns the number of calls of a to which the request with sequence seq is the first to reply.
func (a *answer) repliedBy(seq uint64) (n int) {
	if a == nil {
		return 0
	}
	for _, c := range a.calls {
		if c.replySeen == seq {
			n++
		}
	}
	return n
}

// count returns the number of calls of a with id.
func (a *answer) count(id uint64) (n int) {
	for _, c := range a.calls {
		if c.id == id {
			n++
		}
	}
	return n
}

// signedItem reports whether the answer has a reasoning item with this id.
func (a *answer) signedItem(id []byte) bool {
	return len(id) > 0 && slices.ContainsFunc(a.signed, func(s facts.Signed) bool { return s.ID == string(id) })
}

func endingOf(r *facts.Response, cut bool) ending {
	switch {
	case wire.AtTokenLimit(r.FinishReason):
		return endedAtLimit
	case cut || r.Cut:
		return endedCut
	}
	return endedWhole
}

// reasons reports whether an answer has reasoning or signatures of reasoning.
func reasons(r *facts.Response) bool {
	return r.Reasoning > facts.Null && !r.BlankReasoning || len(r.Signed) > 0 ||
		slices.ContainsFunc(r.Calls, func(c facts.ResponseCall) bool { return c.Signature })
}
