package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// Each configured service without calls fires: one that stopped, and one that never called. A service that is not configured
// may be silent.
func TestExpectedServiceWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{"../rules/collector_blind.yaml"}
		cfg.Services = []string{"shop", "desk", "mail"}
		b := newBench(t, cfg, &alertstest.Store{})
		of := func(service string) analyzer.Count {
			return analyzer.Count{Metric: analyzer.MetricCalls, N: 1, Labels: with(planner("1"), "service", service)}
		}
		// pass adds tallies for d, in which the services call once a minute.
		pass := func(d time.Duration, services ...string) {
			t.Helper()
			for i := range int(d / (5 * time.Second)) {
				b.sec += 4
				time.Sleep(4 * time.Second)
				var counts []analyzer.Count
				if i%12 == 0 {
					for _, s := range services {
						counts = append(counts, of(s))
					}
				}
				b.second(counts...)
			}
		}
		silent := func(want ...string) {
			t.Helper()
			got := []string{}
			for _, a := range b.Active() {
				got = append(got, a.Name+" "+a.Severity()+" "+a.Labels["service"])
			}
			slices.Sort(got)
			must.Agree(t, cmp.Diff(want, got, cmpopts.EquateEmpty()), "silent")
		}
		pass(25*time.Minute, "shop", "desk", "other")
		silent() // the half hour is not over yet
		pass(11*time.Minute, "shop", "desk")
		silent("CollectorBlind warning mail")
		pass(36*time.Minute, "shop")
		silent("CollectorBlind warning desk", "CollectorBlind warning mail")
		pass(2*time.Minute, "shop", "desk")
		silent("CollectorBlind warning mail")
		pass(36 * time.Minute) // empty seconds are tallies too
		silent("CollectorBlind warning desk", "CollectorBlind warning mail", "CollectorBlind warning shop")
	})
}

// A pending alert starts over after a gap, keep_firing_for bridges a gap, and templates have labels, the value and queries.
func TestForKeepFiringForAndTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{ruleFile(t, "",
			"Held|sum by (stage) (round(increase(llmtap_failed_calls_total[5s1ms]))) >= 3|for: 20s|keep_firing_for: 30s",
			"Texts|'sum by (stage) (round(increase(llmtap_failed_calls_total[5s1ms]))) >= 3'|labels: {severity: '{{ if gt $value 5.0 }}critical{{ else }}warning{{ end }}'}"+
				`|annotations: {summary: '{{ title $labels.stage }} {{ .Value }} of {{ value (first (query "sum(llmtap_calls_total)")) }}', broken: '{{ humanize $labels.stage }}'}`,
		)}
		b := newBench(t, cfg, &alertstest.Store{})
		b.sec = b.sec / 5 * 5
		// steps adds tallies of five seconds each, with these numbers of failures.
		steps := func(failed ...uint64) {
			t.Helper()
			for _, n := range failed {
				b.second(calls("1", 10), failures("1", "x", "", n))
				b.idle(4 * time.Second)
			}
		}
		states := func(want ...string) {
			t.Helper()
			must.Agree(t, cmp.Diff(want, slices.DeleteFunc(b.states(), func(s string) bool { return s[:4] != "Held" }), cmpopts.EquateEmpty()))
		}
		steps(3, 3, 3, 3)
		states("Held pending 15s")
		steps(0, 3)
		states("Held pending 0s")
		steps(3, 3, 3, 7)
		states("Held firing 20s")
		b.mu.Lock()
		for _, n := range b.groups.open {
			a := n.alerts[0]
			if a.Name != "Texts" {
				continue
			}
			if last := n.alerts[len(n.alerts)-1]; last.Severity() != "critical" || last.Annotations["summary"] != "Planner 7 of 100" {
				t.Errorf("%v: %v", last.Labels, last.Annotations)
			}
			must.Equal(t, a.Annotations["broken"][:25], "<error expanding template", "a failing template")
		}
		b.mu.Unlock()
		steps(0, 0, 0, 0)
		states("Held firing 40s")
		steps(3) // within the 30 s
		states("Held firing 45s")
		steps(0, 0, 0, 0, 0, 0)
		states("Held firing 1m15s")
		steps(0)
		states()
	})
}

// An outage of the collector, during which it sees no calls, does not count as silence of the services. A silence that it
// observed does.
func TestOutageIsNoSilence(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	f := func(name string, seen bool, silence time.Duration, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.RuleFiles = []string{"../rules/collector_blind.yaml"}
			cfg.Services = []string{"shop"}
			b := newBench(t, cfg, &alertstest.Store{})
			pass := func(d time.Duration) {
				t.Helper()
				for range d / (5 * time.Second) {
					b.sec += 4
					time.Sleep(4 * time.Second)
					var counts []analyzer.Count
					for _, s := range []string{"shop", "desk", "mail"} {
						counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, N: 1, Labels: with(planner("1"), "service", s)})
					}
					b.second(counts...)
				}
			}
			pass(35 * time.Minute)
			for range silence / (20 * time.Second) {
				b.sec += 20
				time.Sleep(20 * time.Second)
				if seen {
					b.add(&analyzer.Tally{Second: b.sec - 1})
				}
			}
			pass(40 * time.Minute)
			got := []string{}
			for _, g := range b.sent.groups {
				for _, a := range g.Alerts {
					if s := a.Severity() + " " + a.Labels["service"]; !slices.Contains(got, s) {
						got = append(got, s)
					}
				}
			}
			slices.Sort(got)
			must.Agree(t, cmp.Diff(want, got, cmpopts.EquateEmpty()), name, "of", silence)
		})
	}
	for _, d := range []time.Duration{5 * time.Minute, 15 * time.Minute, 27 * time.Minute, 40 * time.Minute, 3 * time.Hour} {
		f("outage", false, d)
	}
	f("silence", true, 5*time.Minute)
	f("silence", true, 15*time.Minute, "warning ")
	f("silence", true, 40*time.Minute, "warning ", "warning shop")
}
