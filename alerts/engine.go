package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// partitionLag is how far behind the newest partition one may be before evaluation goes on without it.
	partitionLag = 60
	// maxPartitions is the number of shards of the wire contract.
	maxPartitions = 256
	// lateAfter is the age of a step when an engine that leads comes to it from which alerts are marked as found late.
	lateAfter = time.Minute
	// maxVersions bounds the service versions whose first call is remembered.
	maxVersions = 1000
	// loadTimeout bounds reading the stored state.
	loadTimeout = 10 * time.Second
)

// A Recorder keeps alerts for later questions. It is told when an alert fires, at every material change and when it
// is resolved; Alert.ID is the identity of the row. An error means "later".
type Recorder interface {
	RecordAlert(ctx context.Context, a Alert) error
}

// A Store keeps small values across restarts. Get returns nil, nil for an absent key. Keys match [a-z0-9.-]+.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// Options are what an Engine works with. All may be zero.
type Options struct {
	Notifiers []Notifier
	Recorder  Recorder
	Store     Store // nil: a restart tells firing alerts again
	// Standby engines, of several that share a Store, evaluate and tell nobody but during Run, which only one may be in.
	Standby bool
	// Health engines evaluate the rules of llmtap's own health, those that ask for no tally: fed by Observe, with a Store
	// and a Registerer of their own. All others evaluate the rest.
	Health bool
	// Missing is asked at each evaluation what cannot be had beside the tallies, see Alert.Missing. It must not block; nil
	// is nothing.
	Missing    func() string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// An Engine evaluates alert rules over tallies and tells notifiers about the alerts. Add feeds it, Run delivers.
type Engine struct {
	cfg       Config
	log       *slog.Logger
	m         *metrics
	store     Store
	receivers []receiver
	standby   bool // it leads only during Run
	missing   func() string
	health    bool
	expected  []Gauge       // applied at each step
	wakeKeep  chan struct{} // capacity 1; never closed

	written savedState // last one in the store; only Run uses it

	mu         sync.Mutex // guards everything below
	rules      []*rules.Rule
	samples    *samples
	partitions map[int]int64       // first second that is not closed yet
	pending    map[int64][]tally   // by the step that counts them
	next       int64               // step to evaluate next, Unix seconds; 0 before the first tally
	first      int64               // first step evaluated
	busy       int64               // last step that counted anything
	told       int64               // steps up to this one are in the notices already
	versions   map[[2]string]int64 // first second, by service and version
	notices    map[string]*notice  // by group key
	leads      bool                // it tells its notices
	closed     bool
}

// New loads the rules and, unless ctx ends before, the stored state. The caller calls Close.
func New(ctx context.Context, cfg Config, o Options) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	list, err := cfg.loadRules(o.Health)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Missing == nil {
		o.Missing = func() string { return "" }
	}
	e := &Engine{
		cfg: cfg, log: o.Logger, m: newMetrics(o.Registerer), store: o.Store, rules: list, health: o.Health, standby: o.Standby, leads: !o.Standby,
		wakeKeep: make(chan struct{}, 1), missing: o.Missing,
		partitions: map[int]int64{}, pending: map[int64][]tally{},
		versions: map[[2]string]int64{}, notices: map[string]*notice{},
	}
	if !o.Health {
		e.expected = expected(cfg)
	}
	for _, n := range o.Notifiers {
		e.receivers = append(e.receivers, newReceiver(n))
	}
	if o.Recorder != nil {
		e.receivers = append(e.receivers, receiver{Notifier: recorder{o.Recorder}, recorder: true, wake: make(chan struct{}, 1)})
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if e.leads {
		if err := e.load(ctx); err != nil {
			return nil, err
		}
	} else {
		e.told = e.toldBefore(ctx)
	}
	var window time.Duration
	for _, r := range list {
		window = max(window, r.Window)
	}
	if e.samples, err = openSamples(cfg, window, e.m); err != nil {
		return nil, err
	}
	return e, nil
}

// Close frees the samples. It is called after Run has returned.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return e.samples.Close()
}

// Add counts one bucket and evaluates every step that it completes. A bucket that is not newer than the partition's
// last is ignored. The engine keeps t; the caller must not change it. After an error of ctx the bucket is counted and
// the next Add goes on with the steps that were left.
func (e *Engine) Add(ctx context.Context, t *analyzer.Tally) error {
	return e.add(ctx, tally{Tally: t})
}

// A tally is an analyzer's, or one of gauges.
type tally struct {
	*analyzer.Tally
	gauges []Gauge
}

func (e *Engine) add(ctx context.Context, t tally) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("add tally: the engine is closed")
	}
	if t.Partition < 0 || t.Partition >= maxPartitions || t.Second <= 0 || t.Second > math.MaxInt32*int64(1000) {
		return fmt.Errorf("add tally: partition %d, second %d is out of range", t.Partition, t.Second)
	}
	e.m.talliesReceived.Inc()
	if t.Second < e.partitions[t.Partition] {
		e.m.talliesDropped.WithLabelValues("stale").Inc()
		return nil
	}
	e.partitions[t.Partition] = t.Second + 1
	step := e.stepOf(t.Second + 1)
	if e.next == 0 {
		e.next, e.first, e.busy = step, step, step
	}
	if len(t.Counts)+len(t.Examples)+len(t.gauges) > 0 {
		at := max(step, e.next)
		e.pending[at] = append(e.pending[at], t)
		if at > step {
			e.m.talliesLate.Inc()
		}
	}
	return e.catchUp(ctx)
}

// stepOf is the first step at or after second.
func (e *Engine) stepOf(second int64) int64 {
	i := int64(e.cfg.EvaluationInterval.Seconds())
	return (second + i - 1) / i * i
}

// complete is the first second that is not closed yet in every live partition.
func (e *Engine) complete() int64 {
	var newest int64
	for _, s := range e.partitions {
		newest = max(newest, s)
	}
	oldest := newest
	for _, s := range e.partitions {
		if s >= newest-partitionLag {
			oldest = min(oldest, s)
		}
	}
	return oldest
}

// catchUp evaluates all steps that are complete. Of a long silence only the first Retention is evaluated: after it
// every series has ended and nothing changes.
func (e *Engine) catchUp(ctx context.Context) error {
	interval := int64(e.cfg.EvaluationInterval.Seconds())
	until := e.complete() / interval * interval
	for ; e.next <= until; e.next += interval {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.next-e.busy > int64(e.cfg.Retention.Seconds())+interval {
			next := until
			for s := range e.pending {
				next = min(next, s)
			}
			e.next = max(e.next, next)
		}
		e.step(ctx, e.next)
	}
	return nil
}

// step counts and evaluates one step. Errors of single rules are counted and logged; the others are evaluated.
func (e *Engine) step(ctx context.Context, step int64) {
	began := time.Now()
	tallies := e.pending[step]
	delete(e.pending, step)
	if len(tallies) > 0 {
		e.busy = step
	}
	e.noteVersions(tallies)
	if len(e.expected) > 0 {
		tallies = append(tallies, tally{Tally: new(analyzer.Tally), gauges: e.expected})
	}
	if err := e.samples.apply(ctx, step, tallies); err != nil {
		e.failed("evaluate", err, "step", step)
	}
	ts := time.Unix(step, 0).UTC()
	for _, r := range e.rules {
		if step%int64(r.Every.Seconds()) != 0 {
			continue
		}
		if err := r.Eval(ctx, ts, e.samples.Query); err != nil {
			e.failed("evaluate", err, "step", step)
		}
	}
	e.m.evaluation.Observe(time.Since(began).Seconds())
	e.m.lastEvaluation.Set(float64(step))
	if step > e.told {
		e.publish(ts)
		e.told = step
		if e.leads {
			e.wakeAll()
		}
	}
}

func (e *Engine) failed(stage string, err error, args ...any) {
	e.m.errors.WithLabelValues(stage).Inc()
	e.log.Error("alert engine error", append([]any{"stage", stage, "error", err}, args...)...)
}

// noteVersions remembers when each version of a service was first counted.
func (e *Engine) noteVersions(tallies []tally) {
	for _, t := range tallies {
		for _, c := range t.Counts {
			k := [2]string{c.Labels["service"], c.Labels["service_version"]}
			if first, ok := e.versions[k]; ok && first <= t.Second || !ok && len(e.versions) >= maxVersions {
				continue
			}
			e.versions[k] = t.Second
		}
	}
}

func (e *Engine) firstSeen(service, version string) time.Time {
	s, ok := e.versions[[2]string{service, version}]
	if !ok {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

// Active returns the firing alerts of an engine that leads, those hidden by a higher severity left out.
func (e *Engine) Active() []Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []Alert
	if !e.leads {
		return nil
	}
	for _, n := range e.sortedNotices() {
		for _, a := range n.alerts {
			if a.State == Firing {
				out = append(out, a.Alert)
			}
		}
	}
	return out
}
