package analyzer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/judge"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// clockMargin is how far stream time lags behind the time passed to Advance.
const clockMargin = 2 * time.Second

// An Analyzer turns the events of a partition into exchanges, findings, tool calls and tallies. It is a pure function
// of the events and their positions: it has no clock and does no I/O. It is not safe for concurrent use.
type Analyzer struct {
	step  step // the event or timeout being processed
	state      // what waits for a later event

	bodies    bodies
	contents  *contents
	strings   interner
	endpoints endpoints
	setups    *setups
}

// New returns an Analyzer that applies rules to requests in the given order and registers its metrics with reg. cfg
// must be valid.
func New(cfg Config, rules []*check.Rule, reg prometheus.Registerer) *Analyzer {
	strings := make(interner)
	j := judge.New(rules, session.Config{Lookback: cfg.SessionLookback, Bytes: cfg.MaxStateBytes})
	return &Analyzer{
		step:      step{metrics: newMetrics(reg), tallies: newCounter(&cfg)},
		state:     newState(&cfg, j, strings),
		bodies:    bodies{memos: newMemos(int(cfg.MaxStateBytes/4), cfg.SessionLookback)},
		contents:  &contents{store: content.New(j.Sessions), strings: strings, maxHeld: int(cfg.MaxStateBytes / 4)},
		strings:   strings,
		endpoints: make(endpoints),
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
	if s.seq != at.Seq { // else they are in one frame
		s.seq, s.completed = at.Seq, 0
	}
	a.read(s, ev, at)
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
	return a.replayFrom(a.step.now, a.step.tallies.minSeq, a.contents.sampler)
}

// Observe records the time that the caller spent on a batch of events, because the analyzer has no clock.
func (a *Analyzer) Observe(d time.Duration) { a.step.metrics.seconds.Observe(d.Seconds()) }

// end updates the gauges and releases the output.
func (a *Analyzer) end() {
	a.measure(&a.step)
	a.step.out = nil
}

// advance moves stream time to now. Everything due by now happens first, in the order of the deadlines.
func (a *Analyzer) advance(now time.Time) {
	if now.Before(a.step.now) {
		now = a.step.now
	}
	for {
		t, ok := a.next(now)
		if !ok {
			break
		}
		if !t.silent {
			a.tick(t.at)
		}
		t.expire(a)
	}
	a.tick(now)
}

// tick sets stream time and drops expired state.
func (a *Analyzer) tick(now time.Time) {
	s := &a.step
	if now.Before(s.now) {
		return
	}
	s.now = now
	s.tallies.moveTo(now, s.emitTally)
	a.forget(now)
}

// expireParts refuses the oldest incomplete body, and processes its half without the body.
func (a *Analyzer) expireParts() {
	if h, ok := a.exchanges.expireParts(&a.step); ok {
		a.half(h)
	}
}

// bound drops the oldest state that exceeds the limits.
func (a *Analyzer) bound() {
	s, x := &a.step, a.exchanges
	for x.waitingBytes > x.maxWaiting {
		s.drop(dropOverflow)
		if x.partsFirst() {
			a.expireParts()
		} else {
			a.expireEarly()
		}
	}
	x.bound(s)
	a.runs.bound(s)
	a.processes.bound(s)
}
