package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/usual"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// pastMinutes is the length of a Past.
	pastMinutes = 10
	// pastPart is the time of which History is asked at once. It bounds the memory: 2000 stages have 72,000 Pasts in it.
	pastPart = 6 * time.Hour
	// pastAge is the age from which the stored calls of a minute are complete.
	pastAge = 2 * time.Minute
	// historyRetry is the time until History is asked again after an error, or because of stages that have appeared since.
	historyRetry, historyAgain = time.Minute, 10 * time.Minute
)

// A History reads what stored calls say of the stages of these services, or of all if there are none, in [from, until), in any order.
type History func(ctx context.Context, services []string, from, until time.Time) ([]Past, error)

// A Past is what stored calls say of ten minutes of a stage. Only what is known is learned.
type Past struct {
	Service, Environment, Stage string
	At                          time.Time // a multiple of ten minutes
	Calls                       uint64
	Odd                         map[string]uint64 // answers by how they ended; also 0 if that is known
	Measured                    analyzer.Measured
	CacheKnown                  bool // some answer said what was read from the prompt cache
	CacheBroken                 uint64
}

// seed lets stages of which the Store knows nothing learn from the stored calls of the last weeks, until ctx ends. Evaluation does not wait
// for it. Each stage does so once: what it has learned is in the Store, for the next start and for the other processes.
func (e *Engine) seed(ctx context.Context) {
	u := e.state.usuals
	if e.history == nil || u == nil {
		return
	}
	for wait := time.Second; newSignal().wait(ctx, wait); {
		e.mu.Lock()
		open, services, needed := u.unread()
		e.mu.Unlock()
		// What was counted before an outage of this process is not learned twice: tallies are replayed first.
		if until := time.Unix(60*open, 0).UTC(); !needed || time.Since(until) > 2*time.Minute {
			wait = time.Second
			if !needed && open > 0 {
				wait = historyAgain
			}
			continue
		}
		wait = historyAgain
		if err := e.learnPast(ctx, services, time.Unix(60*open, 0)); err != nil && ctx.Err() == nil {
			e.log.Warn("what is usual is learned without the stored calls until they can be read; retrying", "err", err)
			wait = historyRetry
		}
	}
}

// FollowUsual lets a Standby engine that never runs know what the leader has learned from stored calls, until ctx ends. The error is that of
// ctx.
func (e *Engine) FollowUsual(ctx context.Context) error {
	for newSignal().wait(ctx, historyAgain) {
		if err := e.state.loadUsual(ctx); err != nil && ctx.Err() == nil {
			e.m.failed(e.log, "store", err)
		}
	}
	return ctx.Err()
}

// unread returns the services of the stages whose stored calls were not read; none if no stage is known. needed is false if there are none.
func (u *usuals) unread() (open int64, services []string, needed bool) {
	if !u.known {
		return u.open, nil, u.open > 0
	}
	all := map[string]bool{}
	for k, s := range u.stages {
		if !s.history {
			all[k.service] = true
		}
	}
	return u.open, slices.Sorted(maps.Keys(all)), len(all) > 0
}

// learnPast reads the stored calls until a time, and replaces what the stages have learned since the engine began.
func (e *Engine) learnPast(ctx context.Context, services []string, until time.Time) error {
	u := e.state.usuals
	until = until.Add(-pastAge).Truncate(pastMinutes * time.Minute)
	p := &past{cfg: u.cfg, stages: map[stageKey]*pastStage{}}
	for from := until.Add(-stageEnd * time.Minute); from.Before(until); from = from.Add(pastPart) {
		end := from.Add(pastPart)
		if end.After(until) {
			end = until
		}
		list, err := e.history(ctx, services, from, end)
		if err != nil {
			return err
		}
		if err := p.add(ctx, list); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, k := range slices.SortedFunc(maps.Keys(p.stages), compareStages) {
		live := u.stages[k] != nil
		s := u.of(k)
		if s == nil || s.history {
			continue
		}
		if s.adopt(p.stages[k]); !live {
			s.seen = p.stages[k].seen
		}
		n++
	}
	for k, s := range u.stages {
		if !s.history && (len(services) == 0 || slices.Contains(services, k.service)) {
			s.history = true
			u.storeSoon(k.shard())
		}
	}
	u.known = true
	e.state.changed.raise()
	if n > 0 {
		e.log.Info("what is usual was learned from the stored calls", "stages", n, "until", until)
	}
	return nil
}

// A past is what stages learn from stored calls.
type past struct {
	cfg    usual.Config
	stages map[stageKey]*pastStage
}

type pastStage struct {
	*stage
	known [measureCount]bool // something is stored of the measure
}

// add adds Pasts, which are newer than those before.
func (p *past) add(ctx context.Context, list []Past) error {
	times := map[int64]map[stageKey]*Past{}
	for i := range list {
		x := &list[i]
		at := x.At.Unix()
		if times[at] == nil {
			times[at] = map[stageKey]*Past{}
		}
		k := stageKey{x.Service, x.Environment, x.Stage}
		if times[at][k] = x; p.stages[k] == nil && len(p.stages) < maxStages {
			p.stages[k] = &pastStage{stage: newStage()}
		}
	}
	// Ten minutes in which no stage has a call were not recorded.
	for _, at := range slices.Sorted(maps.Keys(times)) {
		for k, s := range p.stages {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.learnPast(times[at][k], at, p.cfg)
		}
	}
	return nil
}

// learnPast adds ten minutes; x is nil if they had no calls.
func (s *pastStage) learnPast(x *Past, at int64, cfg usual.Config) {
	s.calls, s.odd, s.measured, s.cacheBroken = 0, nil, analyzer.Measured{}, 0
	if x != nil {
		s.calls, s.odd, s.measured, s.cacheBroken, s.seen = x.Calls, x.Odd, x.Measured, x.CacheBroken, at/60
	}
	if s.seen == 0 {
		return // before its first call
	}
	for i, m := range measures {
		in := usual.Sample{Minutes: pastMinutes}
		m.of(s.stage, &in)
		switch m.kind {
		case usual.Values:
			s.known[i] = s.known[i] || in.Values.N > 0
		case usual.Share:
			for ended := range s.odd {
				s.known[i] = s.known[i] || m.name == analyzer.OddID(ended)
			}
			s.known[i] = s.known[i] || m.name == "cache" && x != nil && x.CacheKnown
		default:
			s.known[i] = s.known[i] || in.Amount > 0
		}
		if s.known[i] {
			s.watches[i].Add(time.Unix(at, 0).UTC(), in, cfg) // no alarm: nobody is told what was unusual then
		}
	}
}

// adopt replaces what s has learned by what p has. An alarm continues, and a new normal is applied again.
func (s *stage) adopt(p *pastStage) {
	for i := range s.watches {
		if !p.known[i] {
			continue
		}
		test := s.watches[i].Test
		s.watches[i], s.accepted[i] = p.watches[i], 0
		if s.watches[i].Test.Rest(); slices.ContainsFunc(s.firing, func(g Gauge) bool { return g.Labels["measure"] == measures[i].name }) {
			s.watches[i].Test = test
		}
	}
}
