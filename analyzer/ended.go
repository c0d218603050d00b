package analyzer

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
)

// failing is a conversation whose newest call failed.
type failing struct {
	last         *subject
	cause        string
	seq, dropped uint64 // of the process, of the request
	version      uint64 // of the exchange's row
	run          *run
}

type conversationKey struct{ service, id string }

// goesOn takes over that a request of a conversation was sent.
func (a *Analyzer) goesOn(o *open) {
	k := conversationKey{memoryOf(o.row.Labels.Service, o.row.Origin, o.row.Instance), o.row.Labels.Conversation}
	if k.id == "" {
		return
	}
	a.failing.Take(k)
	if o.turn != nil && o.turn.Root != k.id {
		a.failing.Take(conversationKey{k.service, o.turn.Root})
	}
}

// endsOnError lets a conversation wait for what follows a call that the provider refused. Without a given id nobody knows
// that nothing follows, and what shares nothing with the conversation is a side call, whose failure may not matter.
func (a *Analyzer) endsOnError(o *open, need uint64) {
	e := &o.row
	if !refused(e) || o.turn == nil || o.turn.Inferred || o.turn.Apart() || e.Degraded || e.Origin == event.OriginImport {
		return
	}
	k := conversationKey{memoryOf(e.Labels.Service, e.Origin, e.Instance), o.turn.Root}
	a.failing.Take(k)
	f := &failing{last: about(o), cause: e.Cause, seq: e.InstanceSeq, dropped: o.dropped, version: e.Seq, run: o.run}
	a.failing.Add(k, f, min(need, o.turn.Need()), a.now)
	for a.failing.Len() > maxOpen {
		a.failing.TakeFirst()
		a.drop(dropOverflow)
	}
}

// giveUpFailing says of the conversation that waits longest that it ended on its error, unless its run has said, or will
// say, how it ended.
func (a *Analyzer) giveUpFailing() {
	it := a.failing.TakeFirst()
	f := it.Value
	if f.run != nil && f.run.told || a.lostAfter(f.last.instance, f.seq, f.dropped) {
		return
	}
	s := *f.last
	s.seenAt = it.Deadline
	a.put(&s, &signal{
		id: ConversationEndedOnError, detail: f.cause, message: -1, key: s.exchange,
		summary:  fmt.Sprintf("the last call of conversation %s failed with %s, and nothing followed for %v", limit.Text(s.conversation, limit.NameBytes), failure(s.status, f.cause), short(a.cfg.ConversationEnd)),
		evidence: fmt.Sprintf("exchange %s is the last of its conversation", s.exchange),
		fix:      "Find out what the agent told its user: an error that looks like an answer without tool calls ends many agent loops as if all were done.",
	}, f.version, it.MinSeq)
}

// short is d without its zero units.
func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
