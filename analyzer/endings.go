package analyzer

import (
	"fmt"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// endings tracks the conversations whose newest call was refused, until they continue or have ended on that error.
type endings struct {
	queue     *expiry.Queue[conversationKey, *ending]
	processes *processes
}

type conversationKey struct{ scope, id string }

// ending is a conversation whose newest call was refused.
type ending struct {
	last         signals.Subject
	cause        string
	seq, dropped uint64 // event number of the request in its process; exchanges that the process had dropped by then
	version      uint64 // version of the exchange's row
	run          *run
}

func newEndings(cfg *Config, processes *processes) *endings {
	return &endings{expiry.NewQueue[conversationKey, *ending](cfg.ConversationIdleTimeout), processes}
}

// continues removes the conversation of p, because it has a new request.
func (es *endings) continues(p *pending) {
	k := conversationKey{p.scope(), p.row.Labels.Conversation}
	if k.id == "" {
		return
	}
	es.queue.Take(k)
	if p.turn != nil && p.turn.Root != k.id {
		es.queue.Take(conversationKey{k.scope, p.turn.Root})
	}
}

// wait adds the conversation of p to the queue if the call was refused. It skips conversations without an explicit id,
// because later requests cannot be assigned to them with certainty. It also skips requests that share nothing with their
// conversation: these are side calls, whose failure may not matter.
func (es *endings) wait(s *step, p *pending, minSeq uint64) {
	e := &p.row
	if !refused(e) || p.turn == nil || p.turn.Inferred || p.turn.Apart() || e.Degraded || e.Origin == event.OriginImport {
		return
	}
	k := conversationKey{p.scope(), p.turn.Root}
	es.queue.Take(k)
	es.queue.Add(k, &ending{
		last: p.subject(), cause: e.Cause, seq: e.InstanceSeq, dropped: p.dropped, version: e.Seq, run: p.run,
	}, min(minSeq, p.turn.MinSeq()), s.now)
	for es.queue.Len() > maxPending {
		es.queue.TakeFirst()
		s.drop(dropOverflow)
	}
}

func (es *endings) minSeq() uint64 { return es.queue.MinSeq() }

// expire emits the signal that the first conversation in the queue ended on its error, unless run events report how
// its run ends or events of its process may be lost.
func (es *endings) expire(s *step) {
	it := es.queue.TakeFirst()
	e := it.Value
	if e.run != nil && e.run.reported || es.processes.lostAfter(e.last.Instance, e.seq, e.dropped) {
		return
	}
	x := e.last
	x.SeenAt = it.Deadline
	s.emitSignal(&x, &signals.Signal{
		ID: signals.ConversationEndedOnError, Detail: e.cause, Message: -1, Key: x.Exchange,
		Summary: fmt.Sprintf("the last call of conversation %s failed with %s, and nothing followed for %v",
			limit.Text(x.Conversation, limit.NameBytes), failure(x.Status, e.cause), shortDuration(es.queue.Timeout())),
		Evidence: fmt.Sprintf("LLM call %s is the last of its conversation", x.Exchange),
		Fix:      "Check what the agent told its user: many agent loops take an error for an answer without tool calls and end as if the task were done.",
	}, e.version, it.MinSeq)
}

// shortDuration formats d without zero units.
func shortDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
