package session

import (
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// ends says how an answer ended.
type ends uint8

const (
	endedWhole ends = iota
	endedAtLimit
	endedCut
)

// answer is what is kept of one answer of the model.
type answer struct {
	exchange   string
	seq, ended uint64 // of its request; of its end
	after      int    // messages of its request's body: where its copy belongs
	text       uint64
	noText     bool
	end        ends
	streamed   bool
	joined     bool // fragments of several calls could not be told apart
	blank      bool // its reasoning is an empty string
	several    bool // it had more than one choice, of which this is the first
	bytes      int  // of its text
	reasons    bool
	calls      []*Call
	signed     []facts.Signed
	source     *source
}

// An Answer is an answer as the store wants it.
type Answer struct {
	Facts   *facts.Response
	Seq     uint64 // of the event that completed it
	MinSeq  uint64 // oldest sequence that it was made from
	At      time.Time
	Cut     bool // the agent did not read it to its end; then nobody waits for replies to its calls, and none are returned
	Context any  // kept with the calls, for the caller
}

// Answer remembers the answer to t and returns the calls in it.
func (s *Store) Answer(t *Turn, in Answer) []*Call {
	c, r := t.conv, in.Facts
	s.End(t)
	s.lower(c, in.MinSeq)
	a := &answer{
		exchange: t.exchange, seq: t.seq, ended: in.Seq, after: t.length, text: r.ContentHash, noText: r.ContentBytes == 0,
		end: endOf(r, in.Cut), streamed: t.streamed, joined: r.BadIndex, blank: r.BlankReasoning, reasons: reasons(r),
		signed: slices.Clone(r.Signed), source: t.source, several: r.Choices > 1, bytes: r.ContentBytes,
	}
	state := Open
	if in.Cut {
		state = unread
	}
	calls := make([]*Call, 0, len(r.Calls))
	for i := range r.Calls {
		rc := &r.Calls[i]
		call := &Call{
			CallID: rc.ID, Name: rc.Name, Position: i, Exchange: t.exchange, Conversation: t.Conversation, AskedAt: in.At,
			State: state, Forced: t.forced != 0 && t.forced == hashName(rc.Name), Context: in.Context, conv: c, answer: a, kind: rc.ArgsKind, args: rc.Args, signed: rc.Signature,
		}
		call.id = t.callID(call, a.calls)
		call.meaning, call.raw, call.sent = canonical([]byte(rc.Arguments)), hashName(rc.Arguments), s.hashSent(rc.Arguments)
		calls = append(calls, call)
		if len(a.calls) < maxAnswer {
			a.calls = append(a.calls, call)
		}
		if call.id == 0 {
			continue
		}
		c.remember(call)
		s.index(c, callKey(c.key.service, call.id, unique(rc.ID), t.last))
	}
	if r.ContentBytes > minText && r.ContentHash != 0 {
		s.index(c, pairKey(c.key.service, r.ContentHash, t.last))
	}
	if t.line.answer == nil || t.line.answer.seq <= a.seq {
		t.line.answer = a
	}
	if t.items {
		s.remember(c, t.line, r)
	}
	s.account(c)
	if in.Cut {
		return nil
	}
	return calls
}

// End says that t is over, answered or not.
func (s *Store) End(t *Turn) {
	if !t.ended {
		t.ended = true
		if t.line.flying--; t.line.newest == t {
			t.line.newest = nil
		}
	}
}

// callID is the hash by which a call of an answer is known: of its id, else, where replies name functions, of its name.
func (t *Turn) callID(call *Call, before []*Call) uint64 {
	if call.CallID != "" {
		return hashName(call.CallID)
	}
	if !t.names || call.Name == "" {
		return 0
	}
	return nth(hashName(call.Name), len(before), func(i int) uint64 { return before[i].id })
}

func endOf(r *facts.Response, cut bool) ends {
	if wire.AtTokenLimit(r.FinishReason) {
		return endedAtLimit
	}
	if cut || r.Cut {
		return endedCut
	}
	return endedWhole
}

// reasons reports whether an answer came with reasoning, or what is signed of it.
func reasons(r *facts.Response) bool {
	if r.Reasoning > facts.Null && !r.BlankReasoning || len(r.Signed) > 0 {
		return true
	}
	return slices.ContainsFunc(r.Calls, func(c facts.ResponseCall) bool { return c.Signature })
}
