package engine

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// usualConfig has few steps, so that days take seconds.
func usualConfig() Config {
	cfg := Default()
	cfg.EvaluationInterval = 30 * time.Second
	cfg.RuleFiles = []string{
		"../rules/latency_unusual.yaml", "../rules/tokens_unusual.yaml", "../rules/traffic_unusual.yaml",
		"../rules/answers_truncated.yaml", "../rules/answers_empty.yaml", "../rules/refusals.yaml", "../rules/cost_unusual.yaml",
		"../rules/tool_errors.yaml",
	}
	return cfg
}

// A traffic is the calls of a stage in simulated minutes.
type traffic struct {
	calls                float64 // a minute
	ms, ttft, in, out    float64 // medians
	limit, empty, others float64 // shares
	price                float64 // microdollars of an input token; 0: unknown
	toolErrors           float64 // share of the replies of tools; each second call has one
}

var healthy = traffic{calls: 20, ms: 2000, ttft: 400, in: 3000, out: 200, limit: 0.02, price: 2, toolErrors: 0.01}

// minute returns the tally of the minute that ends at second.
func (x traffic) minute(rnd *rand.Rand, second int64) *analyzer.Tally {
	kv := planner("1")
	n := uint64(max(0, math.Round(x.calls+math.Sqrt(x.calls)*rnd.NormFloat64())))
	y := &analyzer.Tally{Second: second}
	m := new(analyzer.Measured)
	value := func(median float64) uint64 { return uint64(median * math.Exp(0.5*rnd.NormFloat64())) }
	odd := map[string]uint64{}
	for range n {
		m.Duration.Add(value(x.ms))
		m.FirstToken.Add(value(x.ttft))
		in := value(x.in)
		m.InputTokens.Add(in)
		m.OutputTokens.Add(value(x.out))
		if x.price > 0 {
			m.Cost.Add(uint64(x.price * float64(in)))
		}
		switch r := rnd.Float64(); {
		case r < x.limit:
			odd[analyzer.EndedLimit]++
		case r < x.limit+x.empty:
			odd[analyzer.EndedEmpty]++
		case r < x.limit+x.empty+x.others:
			odd[analyzer.EndedRefused]++
		}
	}
	if n > 0 {
		y.Counts = append(y.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: n, Measured: m})
	}
	failed := uint64(0)
	for range n / 2 {
		if rnd.Float64() < x.toolErrors {
			failed++
		}
	}
	if n > 1 {
		y.Counts = append(y.Counts, analyzer.Count{Metric: analyzer.MetricToolReplies, Labels: with(kv, "tool", "lookup"), N: n / 2})
	}
	if failed > 0 {
		labels := with(kv, "tool", "lookup", "confidence", "likely")
		y.Counts = append(y.Counts, analyzer.Count{Metric: analyzer.MetricToolErrors, Labels: labels, N: failed})
		y.Examples = append(y.Examples, analyzer.Example{Labels: labels, Finding: true, Exchange: "y", Message: 3, ToolName: "lookup", Fix: "repair it", PublishedAt: second * 1e9})
	}
	for _, ended := range slices.Sorted(maps.Keys(odd)) {
		labels := with(kv, "ended", ended)
		y.Counts = append(y.Counts, analyzer.Count{Metric: analyzer.MetricOdd, Labels: labels, N: odd[ended]})
		y.Examples = append(y.Examples, analyzer.Example{Labels: labels, Finding: true, Exchange: "x", Message: -1, Fix: "fix it", PublishedAt: second * 1e9})
	}
	return y
}

// play adds minutes of x to the engines and returns the alerts that fire at the end.
func (x traffic) play(t *testing.T, rnd *rand.Rand, minutes int, engines ...*Engine) []alerts.Alert {
	t.Helper()
	for range minutes {
		time.Sleep(time.Minute)
		y := x.minute(rnd, time.Now().Unix()-1)
		for _, e := range engines {
			must.Do(t, e.Add(t.Context(), y))
		}
	}
	synctest.Wait()
	return engines[0].Active()
}

const learn = 2 * 24 * 60 // minutes

// Each rule about what is unusual fires on a change of what it is about, says what is usual, and is a problem of its own. TrafficUnusual,
// which needs a week, is tested in package rules.
func TestUnusual(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	store := learned(t)
	f := func(name string, change func(*traffic), want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			rnd, own := rand.New(rand.NewPCG(1, 2)), &alertstest.Store{}
			store.CopyTo(own)
			time.Sleep(learn * time.Minute)
			e := newEngine(t, usualConfig(), Options{Store: own})
			if fired := healthy.play(t, rnd, 10, e); len(fired) > 0 {
				t.Fatalf("%s: %s fires on healthy traffic", name, fired[0].Annotations["summary"])
			}
			x := healthy
			change(&x)
			var got []string
			for _, a := range x.play(t, rnd, 60, e) {
				got = append(got, a.Problem+": "+a.Annotations["summary"]+" "+a.Annotations["description"])
				if running := a.Evidence.Running; a.Evidence.Failed == 0 && (len(running) != 1 || running[0].Version != "1" || running[0].FirstSeen.IsZero()) {
					t.Errorf("%s: versions that run: %v", name, running)
				}
			}
			must.Equal(t, len(got), len(want), "%s fired: %q", name, got)
			for i := range got {
				if !regexp.MustCompile(want[i]).MatchString(got[i]) {
					t.Errorf("%s: %s, want %s", name, got[i], want[i])
				}
			}
		})
	}
	f("a slower first token", func(x *traffic) { x.ttft, x.ms = 4*x.ttft, 3*x.ms },
		`^duration_high: checkout-agent/planner: \d\d% of calls take more than .*s; usually about 5% do .* since about \d\d:\d\d UTC, compared with this hour of the days before. The first token is late: the`)
	f("longer answers", func(x *traffic) { x.out, x.ms = 4*x.out, 3*x.ms },
		`^duration_high: .* Answers are longer.$`, `^output_tokens_high: checkout-agent/planner: \d\d% of calls write more than \d+ tokens; usually about 5% do `)
	f("longer histories", func(x *traffic) { x.in *= 5 },
		`^cost_high: .*: \d\d% of calls cost more than \$0\.0\d+; usually about 5% do .* since about \d\d:\d\d UTC, compared with this hour of the days before. Calls read more tokens.$`,
		`^input_tokens_high: .* of calls read more than \d+ tokens; `)
	f("another model", func(x *traffic) { x.price *= 5 }, `^cost_high: .* Their tokens are not known to be unusual: another model may answer, or less is read from the provider's cache.$`)
	f("cut off", func(x *traffic) { x.limit = 0.4 }, `^answer_limit: checkout-agent/planner: (3|4)\d% of answers are cut off at the token limit; usually [\d.]+% `)
	f("empty", func(x *traffic) { x.empty = 0.2 }, `^answer_empty: .*% of answers are empty; usually [\d.]+% `)
	f("refused", func(x *traffic) { x.others = 0.2 }, `^answer_refused: .*% of answers are refusals of the model; usually [\d.]+% `)
	f("tool errors", func(x *traffic) { x.toolErrors = 0.3 },
		`^tool_errors: checkout-agent/planner: [\d.]+% of tool replies report an error; usually [\d.]+% .* Most errors are of lookup: \d+ in 30 minutes.$`)
	f("nothing", func(*traffic) {})

	// What a person says is the new normal is usual from then on, also after a restart, and for a standby that takes over.
	synctest.Test(t, func(t *testing.T) {
		rnd, own := rand.New(rand.NewPCG(1, 3)), &alertstest.Store{}
		store.CopyTo(own)
		time.Sleep(learn * time.Minute)
		options := func(standby bool) Options {
			d := NewDecisions()
			must.Do(t, d.Replace(nil))
			return Options{Store: own, Decisions: d, Standby: standby, Notifiers: []alerts.Notifier{&notifier{}}}
		}
		o, o2 := options(false), options(true)
		e, standby := newEngine(t, usualConfig(), o), newEngine(t, usualConfig(), o2)
		stop := must.Run(t, e.Run)
		slow := healthy
		slow.ms *= 4
		healthy.play(t, rnd, 10, e, standby)
		fired := slow.play(t, rnd, 60, e, standby)
		must.Equal(t, len(fired), 1, "alerts")
		g := e.Groups()[0]
		said := must.Get(json.Marshal(Accept{Service: "checkout-agent", Environment: "prod", Stage: "planner", Measure: fired[0].Unusual(), Since: g.Since(), At: time.Now()}))(t)
		for _, d := range []*Decisions{o.Decisions, o2.Decisions} {
			must.Do(t, d.Put(AcceptStoreKey(g.Key), said))
		}
		must.Equal(t, len(slow.play(t, rnd, 2, e, standby)), 0, "alerts after two minutes")
		must.Equal(t, len(slow.play(t, rnd, 180, e, standby)), 0, "alerts after three hours")
		stop()
		o = options(false)
		must.Do(t, o.Decisions.Put(AcceptStoreKey(g.Key), said)) // it was applied already
		restarted := newEngine(t, usualConfig(), o)
		must.Run(t, restarted.Run)
		must.Run(t, standby.Run)
		must.Equal(t, len(slow.play(t, rnd, 60, restarted, standby))+len(standby.Active()), 0, "alerts after a restart")
		k := stageKey{"checkout-agent", "prod", "planner"}
		must.Equal(t, restarted.samples.usuals.stages[k].accepted, e.samples.usuals.stages[k].accepted, "what was accepted")
		slow.ms *= 4
		must.Equal(t, len(slow.play(t, rnd, 60, restarted)), 1, "alerts of what is unusual again")
	})
}

// learnedStore is what learned stored, or nil before.
var learnedStore *alertstest.Store

// learned returns the store of an engine that has seen healthy traffic for two days, until its stop. The engine knows what is usual, and
// one that reads the store knows the same. The first test that calls it waits.
func learned(t *testing.T) *alertstest.Store {
	t.Helper()
	if learnedStore != nil {
		return learnedStore
	}
	store := &alertstest.Store{}
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, usualConfig(), Options{Store: store})
		stop := must.Run(t, e.Run)
		healthy.play(t, rand.New(rand.NewPCG(1, 1)), learn, e)
		known(t, e)
		stop()
		restarted := newEngine(t, usualConfig(), Options{Store: store})
		must.Equal(t, learnedState(t, restarted) == learnedState(t, e), true, "knows the same after a restart")
		must.Agree(t, cmp.Diff(e.samples.usuals.gauges, restarted.samples.usuals.gauges))
	})
	if !t.Failed() {
		learnedStore = store
	}
	return store
}

// learnedState returns all baselines and tests of the engine as bytes.
func learnedState(t *testing.T, e *Engine) string {
	t.Helper()
	all := ""
	for i := range usualShards {
		for k, s := range e.samples.usuals.stages {
			if k.shard() == i {
				for j := range s.watches {
					all += string(must.Get(s.watches[j].Baseline.MarshalBinary())(t)) + string(must.Get(s.watches[j].Test.MarshalBinary())(t))
				}
			}
		}
	}
	return all
}

// known checks that pages know what is usual, and PromQL what is measured.
func known(t *testing.T, e *Engine) {
	t.Helper()
	now := time.Now()
	bands := e.Usual("checkout-agent", "", "planner", []time.Time{now, now.Add(-24 * time.Hour), now.Add(-90 * 24 * time.Hour)}, "duration", "input_tokens", "calls", "answer_limit", "history")
	for name, in := range map[string][2]float64{"duration": {2, 7}, "input_tokens": {3000, 10000}, "calls": {10, 40}, "answer_limit": {0.005, 0.05}} {
		if b := bands[name]; len(b) != 3 || b[0].Low <= 0 || b[0].Low > in[1] || b[0].High < in[0] || b[0].High > 6*in[1] || b[2] != (Band{}) {
			t.Errorf("usual %s: %v", name, b)
		}
	}
	must.Equal(t, len(bands["history"]), 0, "bands of histories, which are not known")
	must.Equal(t, len(e.Usual("another", "", "", []time.Time{now}, "duration")), 0, "bands of an unknown stage")
	at := now.Truncate(time.Minute)
	for expr, in := range map[string][2]float64{
		"histogram_quantile(0.95, rate(llmtap_call_duration_seconds[20m]))":   {3.8, 5.6},   // 2 exp(0.5*1.645)
		"histogram_quantile(0.5, rate(llmtap_call_first_token_seconds[20m]))": {0.34, 0.48}, // 0.4
		"histogram_quantile(0.5, rate(llmtap_call_input_tokens[20m]))":        {2500, 3600},
		"histogram_quantile(0.5, rate(llmtap_call_output_tokens[20m]))":       {168, 240},
		"60 * histogram_count(rate(llmtap_call_duration_seconds[20m]))":       {17, 23},
	} {
		got := must.Get(e.Query(t.Context(), expr, at))(t)
		if len(got) != 1 || got[0].Value < in[0] || got[0].Value > in[1] || got[0].Labels["stage"] != "planner" {
			t.Errorf("%s is %v, want %v", expr, got, in)
		}
	}
}

// An engine that starts again, and a standby that takes over, know what is usual and what is unusual as if nothing had happened.
func TestUsualSurvives(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	before := learned(t)
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 4))
		store := &alertstest.Store{}
		before.CopyTo(store)
		time.Sleep(learn * time.Minute)
		e := newEngine(t, usualConfig(), Options{Store: store, Notifiers: []alerts.Notifier{&notifier{}}})
		stop := must.Run(t, e.Run)
		slow := healthy
		slow.ms *= 4
		var since []*analyzer.Tally // as in the stream
		both := func(e *Engine, x traffic, minutes int) {
			for range minutes {
				time.Sleep(time.Minute)
				y := x.minute(rnd, time.Now().Unix()-1)
				since = append(since, y)
				must.Do(t, e.Add(t.Context(), y))
			}
			synctest.Wait()
		}
		both(e, healthy, 60)
		standby := newEngine(t, usualConfig(), Options{Store: store, Standby: true, Notifiers: []alerts.Notifier{&notifier{}}})
		for _, y := range since {
			must.Do(t, standby.Add(t.Context(), y))
		}
		both(e, slow, 45)
		for _, y := range since[60:] {
			must.Do(t, standby.Add(t.Context(), y))
		}
		fired := e.Active()
		must.Equal(t, len(fired), 1, "alerts before the restart")
		stop()

		sent := &notifier{}
		restarted := newEngine(t, usualConfig(), Options{Store: store, Notifiers: []alerts.Notifier{sent}})
		for _, y := range since {
			must.Do(t, restarted.Add(t.Context(), y))
		}
		must.Run(t, standby.Run)
		must.Run(t, restarted.Run)
		time.Sleep(time.Minute)
		synctest.Wait()
		for name, other := range map[string]*Engine{"restarted": restarted, "standby": standby} {
			must.Equal(t, learnedState(t, other) == learnedState(t, e), true, "%s knows the same", name)
			must.Agree(t, cmp.Diff(e.samples.usuals.gauges, other.samples.usuals.gauges), name)
			if got := other.Active(); len(got) != 1 || got[0].ID() != fired[0].ID() || got[0].State != alerts.Firing {
				t.Errorf("%s: %d alerts, want the one before the restart", name, len(got))
			}
		}
		must.Equal(t, len(sent.groups), 0, "notifications after the restart")
	})
}
