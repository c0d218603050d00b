package analyzer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/identity"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Limits of runs. Beyond them, the least recently active run and the oldest call of a run are dropped.
const (
	maxRuns     = 100_000
	maxRunCalls = 256 // tool calls of one run that wait for replies
)

type runKey struct{ service, run string }

// runs tracks the runs of agents.
type runs struct {
	queue     *expiry.Queue[runKey, *run] // least recently active first
	calls     *toolCalls
	processes *processes
	strings   interner
}

// run is a run of an agent.
type run struct {
	row      Run
	reported bool // run events arrived
	partial  bool // some of the run may be unseen, because an event is degraded
	open     int  // exchanges in flight
	begun    uint32
	waiting  []*session.Call
	masked   bool // signals.MaskedFailure was emitted

	// The newest call, if it failed while no other call was in flight.
	failed  *signals.Subject // nil if there is no such call
	seq     uint64           // event number of the request in its process
	dropped uint64           // exchanges that the process had dropped before the request
	minSeq  uint64
}

func newRuns(cfg *Config, calls *toolCalls, processes *processes, strings interner) *runs {
	return &runs{expiry.NewQueue[runKey, *run](cfg.SessionLookback), calls, processes, strings}
}

// of returns the run of ev, adding it if necessary; nil if ev names no run. Imports have no runs.
func (rs *runs) of(s *step, ev *event.Event, minSeq uint64) *run {
	if ev.Labels.Run == "" || ev.Origin == event.OriginImport {
		return nil
	}
	e := rs.queue.Get(runKey{cmp.Or(ev.Labels.Service, event.UnknownService), ev.Labels.Run})
	if e == nil {
		r := &run{}
		r.row.Labels = rs.strings.labels(ev)
		id := identity.Of(r.row.Labels.Service, r.row.Labels.Run)
		r.row.ID = id.ID()
		rs.queue.Add(runKey{r.row.Labels.Service, r.row.Labels.Run}, r, minSeq, s.now)
		return r
	}
	e.MinSeq = min(e.MinSeq, minSeq)
	rs.queue.Renew(e, s.now)
	return e.Value
}

// minSeq returns the oldest sequence that a restart must read to restore the runs, or 0.
func (rs *runs) minSeq() uint64 {
	var seq uint64
	for e := range rs.queue.All() {
		seq = expiry.Oldest(seq, e.MinSeq)
	}
	return seq
}

// bound drops the least recently active runs beyond the limit.
func (rs *runs) bound(s *step) {
	for rs.queue.Len() > maxRuns {
		s.drop(dropOverflow)
		rs.queue.TakeFirst()
	}
}

// event processes a run event: the run started or ended.
func (rs *runs) event(s *step, ev *event.Event, at Position) {
	r := rs.of(s, ev, at.Seq)
	if r == nil {
		return
	}
	if ev.RunStatus == event.StatusStarted && ev.Time.Equal(r.row.StartedAt) {
		return // it arrived twice, and the run may have ended since
	}
	r.reported = true
	r.partial = r.partial || ev.Degraded
	// The first and the last event may have more labels than the events between them.
	l := rs.strings.labels(ev)
	if l.Conversation == "" {
		l.Conversation = r.row.Labels.Conversation
	}
	r.row.Labels, r.row.Status = l, rs.strings.string(limit.Name(ev.RunStatus))
	if ev.RunStatus == event.StatusStarted {
		r.row.StartedAt, r.row.EndedAt = ev.Time, time.Time{}
	} else {
		r.row.EndedAt = ev.Time
	}
	if ev.RunStatus == event.StatusError && !r.partial {
		for _, c := range r.waiting {
			rs.calls.miss(s, c, replyEnded, fmt.Sprintf("its run %s ended in error", limit.Text(l.Run, limit.NameBytes)), at)
		}
		r.waiting = nil
	}
	rs.emit(s, r, at)
}

// begin adds the request of p to its run.
func (rs *runs) begin(s *step, p *pending, h half) {
	r := rs.of(s, h.ev, h.minSeq)
	if r == nil {
		return
	}
	p.run, p.alone = r, r.open == 0
	r.open++
	r.begun++
	p.runIndex = r.begun
	r.failed = nil
}

// wait records that the run is expected to reply to c. It does nothing if r is nil.
func (r *run) wait(c *session.Call) {
	if r == nil || !r.row.EndedAt.IsZero() {
		return
	}
	if len(r.waiting) == maxRunCalls {
		r.waiting = slices.DeleteFunc(r.waiting, func(c *session.Call) bool { return !c.Undecided() || c.Forgotten() })
		if len(r.waiting) == maxRunCalls {
			r.waiting = slices.Delete(r.waiting, 0, 1)
		}
	}
	r.waiting = append(r.waiting, c)
}

// complete adds the completed exchange p to its run.
func (rs *runs) complete(s *step, p *pending, minSeq uint64) {
	r, e := p.run, &p.row
	if r == nil {
		return
	}
	r.open--
	r.partial = r.partial || e.Degraded
	if e.Retry == 0 {
		r.row.Calls++
		if e.Failed {
			r.row.Failed++
		}
	}
	r.row.LastExchange, r.row.LastStatus, r.row.LastCause = e.ID, e.Status, e.Cause
	// None of several concurrent calls is the last one, and a call that may have had an answer proves nothing.
	if e.Failed && p.alone && r.open == 0 && p.runIndex == r.begun {
		x := p.subject()
		r.failed, r.seq, r.dropped, r.minSeq = &x, e.InstanceSeq, p.dropped, minSeq
	} else if r.open == 0 {
		r.failed = nil
	}
	if !r.row.EndedAt.IsZero() { // a stream may end after its run
		rs.emit(s, r, Position{Seq: e.Seq, Time: s.now})
	}
}

// emit emits the current version of the row of r, and a signal if the run reported ok although its last call failed.
func (rs *runs) emit(s *step, r *run, at Position) {
	r.row.Seq, r.row.SeenAt = at.Seq, at.Time
	s.emitRun(&r.row)
	if r.row.Status != event.StatusOK || r.open > 0 || r.failed == nil || r.partial || r.masked || rs.processes.lostAfter(r.failed.Instance, r.seq, r.dropped) {
		return
	}
	r.masked = true
	x := *r.failed
	x.SeenAt = at.Time
	s.emitSignal(&x, &signals.Signal{
		ID: signals.MaskedFailure, Detail: r.row.LastCause, Message: -1, Key: r.row.ID,
		Summary:  fmt.Sprintf("run %s reported ok, but its last call failed with %s", limit.Text(x.Labels.Run, limit.NameBytes), failure(x.Status, r.row.LastCause)),
		Evidence: fmt.Sprintf("LLM call %s was the last of %d calls of the run, and %d of them failed", x.Exchange, r.row.Calls, r.row.Failed),
		Fix:      "Let an error of the last call end the run in error: an answer without tool calls ends the run only if there is an answer.",
	}, at.Seq, r.minSeq)
}
