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
	"github.com/llmtap/llmtap/ingest/event"
)

// Bounds of what is remembered of runs. What goes beyond is forgotten, the longest silent run and its oldest calls first.
const (
	maxRuns     = 100_000
	maxRunCalls = 256 // tool calls of one run that wait for a reply
)

type runKey struct{ service, run string }

// run is one run of an agent.
type run struct {
	row     Run
	told    bool     // it sent run events
	blind   bool     // what it shows is not whole: degraded, or not through a hook
	open    int      // exchanges under way
	newest  uint64   // how many exchanges began
	last    *subject // of the newest call, if it failed and was alone; else nil
	lastSeq uint64   // of the instance, of the request of last
	dropped uint64   // as its process said then
	need    uint64   // of last
	masked  bool     // put out
	waiting []*session.Call
}

// runOf is the run that ev belongs to, remembered from now on; nil when it names none. Nobody runs an imported run.
func (a *Analyzer) runOf(ev *event.Event, need uint64) *run {
	if ev.Labels.Run == "" || ev.Origin == event.OriginImport {
		return nil
	}
	it := a.runs.Get(runKey{cmp.Or(ev.Labels.Service, event.UnknownService), ev.Labels.Run})
	if it == nil {
		r := &run{}
		r.row.Labels = a.strings.labels(ev)
		id := identity.Of(r.row.Labels.Service, r.row.Labels.Run)
		r.row.ID = id.ID()
		a.runs.Add(runKey{r.row.Labels.Service, r.row.Labels.Run}, r, need, a.now)
		return r
	}
	it.MinSeq = min(it.MinSeq, need)
	a.runs.Renew(it, a.now)
	return it.Value
}

// runsNeed is the oldest sequence that a start must read to know the runs; 0 when there are none.
func (a *Analyzer) runsNeed() uint64 {
	var n uint64
	for it := range a.runs.All() {
		n = expiry.Oldest(n, it.MinSeq)
	}
	return n
}

// runEvent takes over that a run started or ended.
func (a *Analyzer) runEvent(ev *event.Event, at Position) {
	r := a.runOf(ev, at.Seq)
	if r == nil {
		return
	}
	r.told = true
	r.blind = r.blind || ev.Degraded
	// The first and the last event may know more labels than those between.
	l := a.strings.labels(ev)
	if l.Conversation == "" {
		l.Conversation = r.row.Labels.Conversation
	}
	r.row.Labels, r.row.Status = l, a.strings.string(limit.Name(ev.RunStatus))
	if ev.RunStatus == event.StatusStarted {
		r.row.StartedAt, r.row.EndedAt = ev.Time, time.Time{}
	} else {
		r.row.EndedAt = ev.Time
	}
	if ev.RunStatus == event.StatusError && !r.blind {
		for _, c := range r.waiting {
			a.miss(c, replyEnded, fmt.Sprintf("its run %s ended in error", limit.Text(l.Run, limit.NameBytes)), at)
		}
		r.waiting = nil
	}
	a.putRun(r, at)
	a.mask(r, at)
}

// runAsked takes over that a request of a run was sent.
func (a *Analyzer) runAsked(o *open, ev *event.Event, need uint64) {
	r := a.runOf(ev, need)
	if r == nil {
		return
	}
	o.run, o.alone = r, r.open == 0
	r.open++
	r.newest++
	o.nth = r.newest
	r.last = nil
}

// runWaits notes that c waits for a reply that the run of o is to give.
func (a *Analyzer) runWaits(o *open, c *session.Call) {
	r := o.run
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

// runReported takes over that an exchange of a run is over.
func (a *Analyzer) runReported(o *open, need uint64) {
	r, e := o.run, &o.row
	if r == nil {
		return
	}
	r.open--
	r.blind = r.blind || e.Degraded
	if e.Retry == 0 {
		r.row.Calls++
		if e.Failed {
			r.row.Failed++
		}
	}
	r.row.LastExchange, r.row.LastStatus, r.row.LastCause = e.ID, e.Status, e.Cause
	// Of calls that were under way at once none is the last, and one that may have had an answer says nothing.
	if e.Failed && o.alone && r.open == 0 && o.nth == r.newest {
		r.last, r.lastSeq, r.dropped, r.need = about(o), e.InstanceSeq, o.dropped, need
	} else if r.open == 0 {
		r.last = nil
	}
	if !r.row.EndedAt.IsZero() { // the end of a stream may come after that of its run
		at := Position{Seq: e.Seq, Time: a.now}
		a.putRun(r, at)
		a.mask(r, at)
	}
}

// mask puts out that a run was reported ok though its last call failed.
func (a *Analyzer) mask(r *run, at Position) {
	if r.row.Status != event.StatusOK || r.open > 0 || r.last == nil || r.blind || r.masked || a.lostAfter(r.last.instance, r.lastSeq, r.dropped) {
		return
	}
	r.masked = true
	s := *r.last
	s.seenAt = at.Time
	a.put(&s, &signal{
		id: MaskedFailure, detail: r.row.LastCause, message: -1, key: r.row.ID,
		summary:  fmt.Sprintf("run %s reported ok, but its last call failed with %s", limit.Text(s.labels.Run, limit.NameBytes), failure(s.status, r.row.LastCause)),
		evidence: fmt.Sprintf("exchange %s was the last of %d calls of the run, and %d of them failed", s.exchange, r.row.Calls, r.row.Failed),
		fix:      "Let an error of the last call end the run in error; an answer without tool calls is only the end when there is an answer.",
	}, at.Seq, r.need)
}

// failure is how a call failed, for humans.
func failure(status int, cause string) string {
	if status == 0 {
		return cause
	}
	return fmt.Sprintf("%d (%s)", status, cause)
}

// putRun puts out a version of a run's row.
func (a *Analyzer) putRun(r *run, at Position) {
	r.row.Seq, r.row.SeenAt = at.Seq, at.Time
	if !a.emit {
		return
	}
	a.metrics.runs.Inc()
	a.out.Runs = append(a.out.Runs, r.row)
}

// giveUpRun forgets the run that was silent longest.
func (a *Analyzer) giveUpRun() { a.runs.TakeFirst() }
