package rules_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var (
	dayHours = flag.Int("day.hours", 2, "how much of the healthy day is simulated")
	daySeed  = flag.Uint64("day.seed", 1, "which healthy day is simulated")
)

// dayStep is the evaluation interval; shorter ones find the same alerts and take longer.
const dayStep = 30 * time.Second

// A day is 24 hours of a fleet, in tallies, generated from a seed.
type day struct {
	rnd      *rand.Rand
	services []*service
	hiccups  []hiccup
	start    int64
	incident func(d *day, minute int, s *service, stage string, calls uint64) []analyzer.Count // nil: none
}

type service struct {
	name    string
	stages  []string
	busy    float64 // calls per minute of each stage at noon
	deploys []int   // minutes
	night   float64 // relative to busy
	flaky   float64 // share of calls that fail for a temporary reason: rate limits, server errors, timeouts
}

// A hiccup is a period in which a provider answers some calls of some services with server errors.
type hiccup struct {
	from, to int // minutes
	cause    string
	status   string
	share    float64
	of       int // every n-th service
}

func newDay(seed uint64, start int64) *day {
	d := &day{rnd: rand.New(rand.NewPCG(seed, 1)), start: start}
	for i := range 50 {
		s := &service{name: fmt.Sprintf("svc-%02d", i), stages: []string{"planner"}, night: 0.02 + 0.3*d.rnd.Float64()}
		s.busy = math.Exp(d.rnd.Float64()*math.Log(400)) / 4 // 0.25 to 100 calls per minute, log-uniform
		if i%5 == 0 {
			s.stages = append(s.stages, "executor", "summary")
		}
		for range d.rnd.IntN(4) {
			s.deploys = append(s.deploys, d.rnd.IntN(1440))
		}
		slices.Sort(s.deploys)
		d.services = append(d.services, s)
	}
	for i := range 30 { // small services: 5 to 30 calls in 10 minutes, day and night
		d.services = append(d.services, &service{
			name: fmt.Sprintf("small-%02d", i), stages: []string{"planner"}, busy: 0.5 + 2.5*d.rnd.Float64(), night: 1, flaky: 0.02 + 0.03*d.rnd.Float64(),
		})
	}
	for range 12 {
		from := d.rnd.IntN(1440)
		h := hiccup{from: from, to: from + 1 + d.rnd.IntN(4), cause: "server_error", status: "503", share: 0.05 + 0.25*d.rnd.Float64(), of: 2 + d.rnd.IntN(6)}
		if d.rnd.IntN(2) == 0 {
			h.cause, h.status = "rate_limit", "429"
		}
		d.hiccups = append(d.hiccups, h)
	}
	return d
}

// poisson returns a Poisson-distributed number.
func (d *day) poisson(mean float64) uint64 {
	if mean > 50 {
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*d.rnd.NormFloat64())))
	}
	n, p := uint64(0), d.rnd.Float64()
	for l := math.Exp(-mean); p > l && mean > 0; n++ {
		p *= d.rnd.Float64()
	}
	return n
}

func (d *day) some(n uint64, share float64) uint64 { return min(n, d.poisson(float64(n)*share)) }

// labels returns the labels of a stage's series; more are pairs.
func (s *service) labels(stage string, minute int, more ...string) map[string]string {
	version := 1
	for _, at := range s.deploys {
		if at <= minute {
			version++
		}
	}
	kv := map[string]string{
		"service": s.name, "service_version": fmt.Sprintf("1.%d.0", version), "environment": "prod", "agent": "agent", "stage": stage,
		"provider": "deepseek", "model": "deepseek-chat",
	}
	for i := 0; i < len(more); i += 2 {
		kv[more[i]] = more[i+1]
	}
	return kv
}

func failed(kv map[string]string, n uint64) analyzer.Count {
	return analyzer.Count{Metric: analyzer.MetricFailed, Labels: kv, N: n}
}

// found returns findings of a rule.
func found(kv map[string]string, rule string, n uint64) analyzer.Count {
	kv["rule"], kv["severity"] = rule, string(check.Signal)
	return analyzer.Count{Metric: analyzer.MetricFindings, Labels: kv, N: n}
}

// usual are the signals in a healthy fleet, as a share of the calls.
var usual = []struct {
	rule  string
	share float64
}{{signals.HistoryShrunk, 0.02}, {signals.ReplyNeverArrived, 0.0005}, {signals.ConversationEndedOnError, 0.0005}, {signals.LatentViolation, 0.001}}

// counts returns the counts of one step in a minute.
func (d *day) counts(minute int, seconds float64) (out []analyzer.Count) {
	clock := 0.5 - 0.5*math.Cos(2*math.Pi*float64(minute-180)/1440) // 0 at 03:00, 1 at 15:00
	for i, s := range d.services {
		rate := s.busy * (s.night + (1-s.night)*clock) * seconds / 60
		for _, stage := range s.stages {
			calls := d.poisson(rate)
			if calls == 0 {
				continue
			}
			out = append(out, analyzer.Count{Metric: analyzer.MetricCalls, Labels: s.labels(stage, minute), N: calls})
			add := func(cause, status string, n uint64) {
				if n > 0 {
					out = append(out, failed(s.labels(stage, minute, "cause", cause, "status", status), n))
				}
			}
			// Every fleet has some rejected calls, rate limits and missing responses.
			add("context_length_exceeded", "400", d.some(calls, 0.003))
			add("content_policy", "400", d.some(calls, 0.002))
			add("rate_limit", "429", d.some(calls, 0.004+0.5*s.flaky))
			add("server_error", "502", d.some(calls, 0.002+0.3*s.flaky))
			add("no_response", "0", d.some(calls, 0.001+0.2*s.flaky))
			for _, h := range d.hiccups {
				if minute >= h.from && minute < h.to && i%h.of == 0 {
					add(h.cause, h.status, d.some(calls, h.share))
				}
			}
			for _, at := range s.deploys {
				if minute == at { // connections of the old processes are cut
					add("no_response", "0", d.some(calls, 0.05))
				}
			}
			for _, sig := range usual {
				if n := d.some(calls, sig.share); n > 0 {
					out = append(out, found(s.labels(stage, minute), sig.rule, n))
				}
			}
			if d.incident != nil {
				out = append(out, d.incident(d, minute, s, stage, calls)...)
			}
		}
	}
	return out
}

// play adds the minutes [from, to) of the day and returns the alerts that fired: "severity rule service/stage", in order of their
// start. An alert that fires twice is returned twice.
func (d *day) play(t *testing.T, from, to int) (fired []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := engine.Default()
		cfg.EvaluationInterval = dayStep
		e := enginetest.New(t, cfg, engine.Options{})
		step := int64(cfg.EvaluationInterval.Seconds())
		known := map[string]bool{}
		for s := d.start + int64(from)*60; s < d.start+int64(to)*60; s += step {
			tally := &analyzer.Tally{Second: s + step - 1, Counts: d.counts(int(s-d.start)/60, float64(step))}
			must.Do(t, e.Add(t.Context(), tally))
			for _, a := range e.Active() {
				line := a.Severity() + " " + a.Name + " " + strings.Trim(a.Labels["service"]+"/"+a.Labels["stage"], "/")
				if id := a.Severity() + a.ID(); !known[id] {
					known[id] = true
					fired = append(fired, line)
				}
			}
		}
	})
	return fired
}

// In a day of a healthy fleet no critical alert fires. A hiccup of a provider that affects more than 10 % of a stage's calls is a
// warning, and there are no others. Small services are quiet.
func TestDayIsQuiet(t *testing.T) {
	slowtest.Skip(t)
	d := newDay(*daySeed, midnight)
	fired := d.play(t, 12*60-30*(*dayHours), 12*60+30*(*dayHours))
	small, stages := 0, 0
	for _, s := range d.services {
		stages += len(s.stages)
	}
	for _, f := range fired {
		if !strings.HasPrefix(f, "warning StageFailureRate ") && !strings.HasPrefix(f, "warning ResponsesMissing ") {
			t.Errorf("%s in a healthy fleet", f)
		}
		if strings.Contains(f, " small-") {
			small++
		}
	}
	if most := 2 * *dayHours; len(fired) > most {
		t.Errorf("%d warnings in %d hours of %d stages, want at most %d", len(fired), *dayHours, stages, most)
	}
	if most := 1 + *dayHours/12; small > most {
		t.Errorf("%d warnings of small services in %d hours, want at most %d", small, *dayHours, most)
	}
	t.Logf("%d warnings in %d hours of %d stages, %d of them of the 30 small services: %v", len(fired), *dayHours, stages, small, fired)
}

const midnight = 1_795_219_200

// The incidents that llmtap exists for, a quarter of an hour apart in one fleet: each fires the rule written for it, and no other.
func TestDayOfIncidents(t *testing.T) {
	slowtest.Skip(t)
	rejected := func(cause string, share float64, isNew bool) func(*day, *service, int, uint64) []analyzer.Count {
		return func(d *day, s *service, minute int, calls uint64) (out []analyzer.Count) {
			n := d.some(calls, share)
			if n == 0 {
				return nil
			}
			kv := func() map[string]string { return s.labels("planner", minute, "cause", cause, "status", "400") }
			out = append(out, failed(kv(), n))
			if isNew {
				out = append(out, analyzer.Count{Metric: analyzer.MetricNew, Labels: kv(), N: 1})
			}
			return out
		}
	}
	signal := func(rule string, share float64) func(*day, *service, int, uint64) []analyzer.Count {
		return func(d *day, s *service, minute int, calls uint64) []analyzer.Count {
			if n := d.some(calls, share); n > 0 {
				return []analyzer.Count{found(s.labels("planner", minute), rule, n)}
			}
			return nil
		}
	}
	incidents := []struct {
		name string
		what []func(*day, *service, int, uint64) []analyzer.Count
		want []string
	}{
		{
			"tool_calls are not saved, and the agent reports success",
			[]func(*day, *service, int, uint64) []analyzer.Count{rejected("orphan_tool_reply", 0.4, true), signal(signals.MaskedFailure, 0.1)},
			[]string{"critical StageFailureRate", "warning MaskedFailures", "warning StageFailureRate"},
		},
		{
			"a field that must be sent back is not",
			[]func(*day, *service, int, uint64) []analyzer.Count{rejected("reasoning_content_missing", 0.05, true)},
			[]string{"warning NewCause", "warning BadRequestBurst"},
		},
		{
			"compaction cuts calls from their replies, as it did months ago",
			[]func(*day, *service, int, uint64) []analyzer.Count{rejected("orphan_tool_reply", 0.05, false)},
			[]string{"warning BadRequestBurst"},
		},
		{
			"reloaded histories are rejected and resent",
			[]func(*day, *service, int, uint64) []analyzer.Count{rejected("unexplained", 0.2, false), signal(signals.RetryStorm, 0.02)},
			[]string{"warning RetryStorm", "warning StageFailureRate"},
		},
		{
			"tool calls never get a reply",
			[]func(*day, *service, int, uint64) []analyzer.Count{signal(signals.ReplyNeverArrived, 0.05)},
			[]string{"warning MissingToolReplies"},
		},
		{
			"a provider rejects requests that it accepted",
			[]func(*day, *service, int, uint64) []analyzer.Count{rejected("role_order", 0.015, false), func(_ *day, s *service, minute int, _ uint64) []analyzer.Count {
				if (minute-9*60)%15 != 0 {
					return nil
				}
				return []analyzer.Count{found(s.labels("planner", minute), signals.ProviderTightened, 1)}
			}},
			[]string{"warning ProviderTightened"},
		},
	}
	d := newDay(3, midnight)
	d.hiccups = nil
	var struck []*service
	for i := range incidents {
		s := d.services[5*i+1] // with one stage
		s.busy, s.night, s.deploys = 60, 1, nil
		struck = append(struck, s)
	}
	d.incident = func(d *day, minute int, s *service, _ string, calls uint64) (out []analyzer.Count) {
		i := slices.Index(struck, s)
		if at := 9*60 + 15*i; i < 0 || minute < at || minute >= at+14 {
			return nil
		}
		for _, f := range incidents[i].what {
			out = append(out, f(d, s, minute, calls)...)
		}
		return out
	}
	got := map[string][]string{}
	for _, f := range d.play(t, 8*60, 10*60+45) {
		i := strings.LastIndexByte(f, ' ')
		got[f[i+1:]] = append(got[f[i+1:]], f[:i])
	}
	for i, in := range incidents {
		at := struck[i].name + "/planner"
		fired := got[at]
		delete(got, at)
		slices.Sort(fired)
		fired = slices.Compact(fired)
		slices.Sort(in.want)
		must.Agree(t, cmp.Diff(in.want, fired), in.name)
	}
	for at, fired := range got {
		for _, f := range fired {
			must.Equal(t, f, "warning StageFailureRate", "fires in %s, which had no incident", at)
		}
	}
}
