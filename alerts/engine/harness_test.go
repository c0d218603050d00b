package engine

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestMain(m *testing.M) {
	slowtest.Computes()
	goleak.VerifyTestMain(m)
}

// planner returns the labels of the stage in most tests.
func planner(version string) map[string]string {
	return map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "service_version": version}
}

func with(kv map[string]string, more ...string) map[string]string {
	kv = maps.Clone(kv)
	for i := 0; i < len(more); i += 2 {
		kv[more[i]] = more[i+1]
	}
	return kv
}

func calls(version string, n uint64) analyzer.Count {
	return analyzer.Count{Metric: analyzer.MetricCalls, Labels: planner(version), N: n}
}

func failures(version, cause, root string, n uint64) analyzer.Count {
	return analyzer.Count{
		Metric: analyzer.MetricFailed, N: n,
		Labels: with(planner(version), "status", "400", "cause", cause, "root_cause", root),
	}
}

// A bench is an engine, its clock, and its notifications.
type bench struct {
	t *testing.T
	*Engine
	reg   *prometheus.Registry
	sec   int64 // next second to add
	sent  *notifier
	rec   *recorded
	store alerts.Store
	stop  func()
}

type notifier struct {
	mu     sync.Mutex
	groups []alerts.Group
	at     []time.Time
	err    func(n int) error // of call n
}

func (n *notifier) Notify(_ context.Context, g alerts.Group) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.groups, n.at = append(n.groups, g), append(n.at, time.Now())
	if n.err != nil {
		return n.err(len(n.groups) - 1)
	}
	return nil
}

func (n *notifier) last() alerts.Group { return n.groups[len(n.groups)-1] }

type recorded struct {
	mu   sync.Mutex
	rows []alerts.Alert
	err  error
}

func (r *recorded) RecordAlert(_ context.Context, a alerts.Alert) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.rows = append(r.rows, a)
	return nil
}

// benchInterval is the evaluation interval of a bench: some seconds, so that steps differ from seconds.
const benchInterval = 5 * time.Second

// newEngine returns an engine, which the end of the test closes.
func newEngine(t *testing.T, cfg Config, o Options) *Engine {
	t.Helper()
	e := must.Get(New(t.Context(), cfg, o))(t)
	t.Cleanup(func() {
		must.Do(t, e.Close())
	})
	return e
}

// pass passes seconds with these counts.
func pass(t *testing.T, seconds int, counts []analyzer.Count, engines ...*Engine) {
	t.Helper()
	for range seconds {
		for _, e := range engines {
			must.Do(t, e.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix(), Counts: counts}))
		}
		time.Sleep(time.Second)
		synctest.Wait()
	}
}

// newBench starts an engine at the current synctest time.
func newBench(t *testing.T, cfg Config, store alerts.Store) *bench {
	t.Helper()
	return newBenchOf(t, cfg, Options{Store: store})
}

// newBenchOf is newBench with other options, besides the notifiers, the recorder and the metrics.
func newBenchOf(t *testing.T, cfg Config, o Options) *bench {
	t.Helper()
	if cfg.EvaluationInterval == Default().EvaluationInterval {
		cfg.EvaluationInterval = benchInterval
	}
	if cfg.RuleFiles == nil { // the others fire for the same failures
		cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
	}
	b := &bench{t: t, reg: prometheus.NewRegistry(), sec: time.Now().Unix(), sent: &notifier{}, rec: &recorded{}, store: o.Store}
	o.Notifiers, o.Recorder, o.Registerer = append([]alerts.Notifier{b.sent}, o.Notifiers...), b.rec, b.reg
	b.Engine = newEngine(t, cfg, o)
	b.stop = must.Run(t, b.Run)
	return b
}

// second adds the tally of the next second and waits a second.
func (b *bench) second(counts ...analyzer.Count) {
	b.t.Helper()
	b.add(&analyzer.Tally{Second: b.sec, Counts: counts})
	b.sec++
	time.Sleep(time.Second)
	synctest.Wait()
}

func (b *bench) add(t *analyzer.Tally) {
	b.t.Helper()
	must.Do(b.t, b.Add(b.t.Context(), t))
}

// seconds adds the same tally for n seconds.
func (b *bench) seconds(n int, counts ...analyzer.Count) {
	b.t.Helper()
	for range n {
		b.second(counts...)
	}
}

// idle adds empty tallies for d.
func (b *bench) idle(d time.Duration) {
	b.t.Helper()
	b.seconds(int(d.Seconds()))
}
