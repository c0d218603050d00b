package analyzer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/expiry"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/ledger"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// clockMargin is how far stream time lags behind the time passed to Advance.
const clockMargin = 2 * time.Second

// An Analyzer turns the events of a partition into exchanges, findings, tool calls and tallies. It is a pure function
// of the events and their positions: it has no clock and does no I/O. It is not safe for concurrent use.
type Analyzer struct {
	step step // the event or timeout being processed

	exchanges *exchanges // requests and responses waiting for their other half
	bodies    bodies
	judge     *judge.Judge
	detector  *signals.Detector
	calls     *toolCalls
	runs      *runs
	endings   *endings
	processes *processes
	contents  *contents
	memory    memory
	replay    *replayWindow
	strings   interner
	setups    *setups

	// oldest is the oldest sequence that the state depended on at stream time oldestAt, or 0.
	oldest   uint64
	oldestAt time.Time
}

// New returns an Analyzer that applies rules to requests in the given order and registers its metrics with reg. cfg
// must be valid.
func New(cfg Config, rules []*check.Rule, reg prometheus.Registerer) *Analyzer {
	strings, replay := make(interner), newReplayWindow(cfg.SessionLookbackBytes)
	j := judge.New(rules, session.Config{Lookback: cfg.SessionLookback, Bytes: cfg.MaxStateBytes})
	processes := newProcesses(&cfg, replay, strings)
	calls := newToolCalls(&cfg, j.Sessions, processes, strings)
	return &Analyzer{
		step:      step{metrics: newMetrics(reg), tallies: newCounter(&cfg)},
		exchanges: newExchanges(&cfg, replay),
		bodies:    bodies{memos: newMemos(int(cfg.MaxStateBytes/4), cfg.SessionLookback)},
		judge:     j,
		detector:  signals.NewDetector(j.Sessions, cfg.ExchangeTimeout),
		calls:     calls,
		runs:      newRuns(&cfg, calls, processes, strings),
		endings:   newEndings(&cfg, processes),
		processes: processes,
		contents:  &contents{store: content.New(j.Sessions), strings: strings},
		memory:    memory{Ledger: ledger.New(cfg.Partitions)},
		replay:    replay,
		strings:   strings,
		setups:    newSetups(strings),
	}
}

// Process processes the next event of the stream and appends the resulting rows to out. During the silent replay after
// a start, emit is false: Process only builds state, and out may be nil. It does not retain ev's body.
func (a *Analyzer) Process(ev *event.Event, at Position, emit bool, out *Output) {
	s := &a.step
	s.emit, s.out = emit, out
	s.metrics.received(ev.Kind, emit)
	a.advance(at.Time)
	s.seq, s.completed = at.Seq, 0
	a.replay.read(at.Seq, len(ev.Body)+payload.EventBytes, s.now)
	a.processes.track(s, ev, at)
	switch ev.Kind {
	case event.Request, event.Response:
		if h, ok := a.exchanges.assemble(s, ev, at); ok {
			a.half(h)
		}
	case event.Tool:
		a.calls.ran(s, ev, at)
	case event.Run:
		a.runs.event(s, ev, at)
	case event.Hook: // counted by track
	default:
		s.drop(dropKind)
	}
	a.bound()
	a.end()
}

// Advance advances stream time while no event is pending, so that exchanges time out and tally seconds close. Stream
// time stays two seconds behind now, because the clocks of the stream and the caller may differ.
func (a *Analyzer) Advance(now time.Time, emit bool, out *Output) {
	a.AdvanceTo(now.Add(-clockMargin), emit, out)
}

// AdvanceTo is like Advance, but without the two-second delay, for callers that know that no event from before now
// will follow.
func (a *Analyzer) AdvanceTo(now time.Time, emit bool, out *Output) {
	a.step.emit, a.step.out = emit, out
	a.advance(now)
	a.end()
}

// ReplayFrom returns the oldest sequence that live state depends on, or 0; it may be that of a second before. A new
// Analyzer that silently replays the stream from there continues as if it had never stopped. For conversations and
// pending requests, the replay is limited to Config.SessionLookbackBytes of the stream. Beyond that, root causes are
// lost, and only the response of a pending request is recorded.
func (a *Analyzer) ReplayFrom() uint64 {
	// Looking through all processes and runs takes milliseconds if there are many. What is read later depends on nothing older.
	if now := a.step.now; a.oldest == 0 || now.Sub(a.oldestAt) >= time.Second {
		a.oldest = expiry.Oldest(a.judge.Sessions.MinSeq(), a.exchanges.minSeq(), a.detector.MinSeq(), a.processes.minSeq(), a.calls.stats.MinSeq(),
			a.runs.minSeq(), a.endings.minSeq())
		a.oldestAt = now
	}
	return a.replay.from(a.oldest, a.step.tallies.minSeq)
}

// Observe records the time that the caller spent on a batch of events, because the analyzer has no clock.
func (a *Analyzer) Observe(d time.Duration) { a.step.metrics.seconds.Observe(d.Seconds()) }

// end updates the gauges and releases the output.
func (a *Analyzer) end() {
	s, sessions := &a.step, a.judge.Sessions
	s.metrics.sessions.Set(float64(sessions.Len()))
	s.metrics.state.Set(float64(sessions.Bytes()))
	s.metrics.pending.Set(float64(a.exchanges.pending.Len()))
	s.metrics.processes.Set(float64(a.processes.queue.Len()))
	s.dropN(dropSession, sessions.TakeEvicted())
	s.out = nil
}

// advance moves stream time to now. Everything due by now happens first, in the order of the deadlines.
func (a *Analyzer) advance(now time.Time) {
	if now.Before(a.step.now) {
		now = a.step.now
	}
	for a.expireNext(now) {
	}
	a.tick(now)
}

// expireNext handles the first timeout due by now and reports whether there was one. Among equal deadlines, the one
// checked last is handled first.
func (a *Analyzer) expireNext(now time.Time) bool {
	at, silent, expire := now, false, (func(*Analyzer))(nil) // silent: no row is emitted, so no tally second must close
	due := func(t time.Time, ok bool) bool {
		if ok {
			at, silent = t, false
		}
		return ok
	}
	if due(a.calls.due(at)) {
		expire = func(a *Analyzer) { a.calls.expire(&a.step) }
	}
	if due(a.endings.queue.Due(at)) {
		expire = func(a *Analyzer) { a.endings.expire(&a.step) }
	}
	if due(a.runs.queue.Due(at)) {
		silent, expire = true, func(a *Analyzer) { a.runs.queue.TakeFirst() }
	}
	if due(a.processes.queue.Due(at)) {
		silent, expire = len(a.processes.queue.First().Value.gaps) == 0, func(a *Analyzer) { a.processes.expire(&a.step) }
	}
	if due(a.exchanges.parts.Due(at)) {
		expire = func(a *Analyzer) {
			if h, ok := a.exchanges.expireParts(&a.step); ok {
				a.half(h)
			}
		}
	}
	if due(a.exchanges.early.Due(at)) {
		expire = (*Analyzer).expireEarly
	}
	if due(a.exchanges.pending.Due(at)) {
		expire = (*Analyzer).expirePending
	}
	if expire == nil {
		return false
	}
	if !silent {
		a.tick(at)
	}
	expire(a)
	return true
}

// tick sets stream time and drops expired state.
func (a *Analyzer) tick(now time.Time) {
	s := &a.step
	if now.Before(s.now) {
		return
	}
	s.now = now
	s.tallies.moveTo(now, s.emitTally)
	a.judge.Sessions.Expire(now)
	a.exchanges.completed.exchanges.Expire(now)
	a.detector.Expire(now)
	a.calls.stats.Expire(now)
}

// bound drops the oldest state that exceeds the limits.
func (a *Analyzer) bound() {
	s, x := &a.step, a.exchanges
	for x.waitingBytes > x.maxWaiting {
		s.drop(dropOverflow)
		if !x.partsFirst() {
			a.expireEarly()
		} else if h, ok := x.expireParts(s); ok {
			a.half(h)
		}
	}
	x.bound(s)
	a.runs.bound(s)
	a.processes.bound(s)
}
