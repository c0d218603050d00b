package engine

import (
	"fmt"
	"slices"
	"strings"
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

func TestExplained(t *testing.T) {
	f := func(name string, c common, was, ending, want bool) {
		t.Helper()
		must.Equal(t, c.explained(was, ending), want, "%s", name)
	}
	f("all failures are shared", common{failed: 50, calls: 100, shared: 50}, false, false, true)
	f("a few others", common{failed: 50, calls: 100, shared: 40}, false, false, true)
	f("more than a fifth others", common{failed: 50, calls: 100, shared: 39}, false, false, false)
	f("few others, but most calls that the source leaves", common{failed: 950, calls: 1000, shared: 900}, false, false, false)
	f("few others of many calls that the source leaves", common{failed: 950, calls: 2000, shared: 900}, false, false, true)
	f("none shared", common{failed: 5, calls: 100}, false, false, false)
	f("none", common{calls: 100}, false, false, false)
	f("hidden, and few others remain", common{failed: 4, calls: 100}, true, false, true)
	f("hidden, and half of its failures are shared", common{failed: 10, calls: 100, shared: 5}, true, false, true)
	f("hidden, and most others", common{failed: 9, calls: 100, shared: 4}, true, false, false)
	f("hidden, and others fire on their own", common{failed: 5, calls: 100}, true, false, false)
	f("hidden, and about to end", common{failed: 15, calls: 100}, true, true, true)
	f("hidden, about to end, and an alert of its own", common{failed: 16, calls: 100}, true, true, false)
	f("hidden, after its window", common{}, true, true, true)
}

// A fleet is ten services that call one provider once a second.
type fleet struct {
	*bench
	history []*analyzer.Tally
	earlier []alerts.Group // notifications before a restart
}

const services = 10

func newFleet(t *testing.T, store alerts.Store) *fleet {
	t.Helper()
	return &fleet{bench: newBench(t, fleetConfig(), store)}
}

func fleetConfig() Config {
	cfg := Default()
	for _, f := range []string{"bad_request_burst", "masked_failures", "new_cause", "provider_outage", "responses_missing", "retry_storm", "stage_failure_rate"} {
		cfg.RuleFiles = append(cfg.RuleFiles, "../rules/"+f+".yaml")
	}
	return cfg
}

// A mix is how many of ten calls fail: because of the provider in all services, because of it in service 0 alone, and
// because of service 0.
type mix struct{ down, first, own uint64 }

func (f *fleet) run(d time.Duration, m mix) {
	f.t.Helper()
	for range int(d.Seconds()) {
		t := &analyzer.Tally{Second: f.sec}
		for i := range services {
			kv := map[string]string{"service": fmt.Sprint("agent-", i), "environment": "prod", "stage": "planner", "service_version": "1", "provider": "openai"}
			t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 1})
			switch digit := uint64(f.sec+int64(i)) * 7 % 10; {
			case digit < m.down, i == 0 && digit < m.down+m.first:
				t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "503", "cause", "server_error"), N: 1})
			case i == 0 && digit < m.down+m.first+m.own:
				t.Counts = append(t.Counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "400", "cause", "orphan_tool_reply"), N: 1})
			}
		}
		f.history = append(f.history, t)
		f.second(t.Counts...)
	}
}

// restart replaces the engine by one that replays the tallies.
func (f *fleet) restart() {
	f.t.Helper()
	f.stop()
	f.earlier = append(f.earlier, f.sent.groups...)
	f.bench = newBench(f.t, fleetConfig(), f.store)
	for _, t := range f.history {
		f.add(t)
	}
}

// hidden returns the number of firing alerts that another one hides.
func (f *fleet) hidden() (n int) {
	for _, a := range f.Active() {
		if a.Inhibitor != nil {
			n++
		}
	}
	return n
}

// messages returns the groups of which people were notified, sorted.
func (f *fleet) messages() (keys []string) {
	f.sent.mu.Lock()
	defer f.sent.mu.Unlock()
	for _, g := range append(f.earlier, f.sent.groups...) {
		if !slices.Contains(keys, g.Key) {
			keys = append(keys, g.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

const outage = `ProviderOutage{environment="prod",provider="openai"}`

// Of an outage of a provider, ten services make one message, while it lasts and afterwards.
func TestOutageIsOneMessage(t *testing.T) {
	slowtest.Skip(t)
	for _, down := range []uint64{10, 5, 2} {
		t.Run(fmt.Sprint(10*down, " %"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, nil)
				f.run(6*time.Minute, mix{})
				f.run(8*time.Minute, mix{down: down})
				hides := 0
				for _, a := range f.Active() {
					switch {
					case a.Name == "ProviderOutage":
						hides = a.Hides.Alerts
						must.Equal(t, len(a.Hides.Worst), maxParts, "parts")
						if len(a.Evidence.Versions) > 0 {
							t.Errorf("versions of different services: %v", a.Evidence.Versions)
						}
					case a.Inhibitor == nil || a.Inhibitor.Name != "ProviderOutage" || a.Inhibitor.Group != outage || !strings.HasPrefix(a.Inhibitor.Summary, "Calls of 10 services to openai"):
						t.Errorf("%s of %s is hidden by %+v", a.Name, a.Labels["service"], a.Inhibitor)
					}
				}
				must.Equal(t, hides, services, "alerts that it hides")
				f.run(15*time.Minute, mix{})
				if n := len(f.Active()); n > 0 {
					t.Errorf("%d alerts still fire", n)
				}
				must.Agree(t, cmp.Diff([]string{outage}, f.messages()), "messages")
			})
		})
	}
}

// A service that also breaks by its own change is told, during the outage and if it still fails afterwards.
func TestOutageHidesNoOtherFailure(t *testing.T) {
	slowtest.Skip(t)
	f := func(name string, script func(f *fleet), want ...string) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, nil)
				f.run(6*time.Minute, mix{})
				script(f)
				must.Agree(t, cmp.Diff(want, f.messages()), "messages")
			})
		})
	}
	problem := func(cause string) string {
		return fmt.Sprintf("problem{service=%q,environment=%q,stage=%q,problem=%q}", "agent-0", "prod", "planner", cause)
	}
	own, down := problem("orphan_tool_reply"), problem("server_error") // the largest cause when the alert begins
	f("during the outage", func(f *fleet) { f.run(10*time.Minute, mix{down: 4, own: 4}) }, outage, own)
	f("most calls that the provider answers", func(f *fleet) { f.run(10*time.Minute, mix{down: 9, own: 1}) }, outage, down)
	f("after the outage", func(f *fleet) {
		f.run(6*time.Minute, mix{down: 10})
		f.run(3*time.Minute, mix{own: 4})
	}, outage, down)
	f("no outage", func(f *fleet) { f.run(10*time.Minute, mix{own: 4}) }, own)
}

// One service breaks before the others. A restart during the outage changes nothing.
func TestOutageHidesEarlierAlert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &alertstest.Store{}
		f := newFleet(t, store)
		f.run(6*time.Minute, mix{})
		f.run(150*time.Second, mix{first: 10})
		own := `problem{service="agent-0",environment="prod",stage="planner",problem="server_error"}`
		if got := f.messages(); !slices.Equal(got, []string{own}) {
			t.Fatalf("messages before the outage: %v", got)
		}
		f.run(2*time.Minute, mix{down: 10})
		must.Equal(t, f.hidden(), services, "alerts are hidden")
		f.restart()
		f.run(2*time.Minute, mix{down: 10})
		must.Equal(t, f.hidden(), services, "alerts are hidden after a restart")
		must.Agree(t, cmp.Diff([]string{outage, own}, f.messages()), "messages")
	})
}

// Inhibition by labels is that of Alertmanager.
func TestInhibitByLabels(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	alert := func(name string, kv ...string) *trackedAlert {
		a := &trackedAlert{Alert: alerts.Alert{Name: name, Labels: with(map[string]string{}, kv...), State: alerts.Firing, StartsAt: now}}
		a.key = name + fmt.Sprint(a.Labels)
		return a
	}
	f := func(name string, r InhibitRule, want string, list ...*trackedAlert) {
		t.Helper()
		rules := must.Get(Config{InhibitRules: []InhibitRule{r}}.inhibitRules())(t)
		g := &groups{cfg: Default(), inhibitRules: rules, open: map[string]*openGroup{}}
		for i, a := range list {
			a.Inhibitor = nil
			g.open[fmt.Sprint(i)] = &openGroup{key: fmt.Sprint(i), alerts: []*trackedAlert{a}}
		}
		for range 2 { // the second evaluation changes nothing
			g.inhibit(&evaluation{at: now})
		}
		var got []string
		for i, a := range list {
			if a.Inhibitor != nil {
				got = append(got, a.Name+" by "+a.Inhibitor.Name)
				must.Equal(t, g.open[fmt.Sprint(i)].decisions, 1, "%s: decisions", name)
			}
		}
		must.Equal(t, strings.Join(got, ", "), want, "%s", name)
	}
	r := InhibitRule{SourceMatch: []string{`alertname="Down"`}, TargetMatch: []string{`severity=~"warning|info"`}, Equal: []string{"environment"}}
	down := func(kv ...string) *trackedAlert { return alert("Down", append(kv, "severity", "critical")...) }
	f("hidden", r, "Slow by Down", down(), alert("Slow", "severity", "warning"))
	f("not a target", r, "", down(), alert("Slow", "severity", "critical"))
	f("another environment", r, "", down("environment", "prod"), alert("Slow", "severity", "warning"))
	f("the same environment", r, "Slow by Down", down("environment", "prod"), alert("Slow", "severity", "warning", "environment", "prod"))
	f("no source", r, "", alert("Slow", "severity", "warning"))
	ended := down()
	ended.State, ended.EndsAt = alerts.Resolved, now
	f("the source has ended", r, "", ended, alert("Slow", "severity", "warning"))
	r.TargetMatch = []string{`alertname=~".+"`}
	f("not itself", r, "", down())
	f("neither its other severity", r, "", down(), alert("Down", "severity", "warning"))
	f("not each other", InhibitRule{SourceMatch: []string{"severity=critical"}, TargetMatch: []string{"severity=~critical|warning"}}, "Slow by Down",
		down(), alert("Lost", "severity", "critical"), alert("Slow", "severity", "warning"))
	f("not a higher severity", r, "", alert("Down", "severity", "warning"), alert("Slow", "severity", "critical"))
}

func TestInhibitConfig(t *testing.T) {
	f := func(r InhibitRule, want string) {
		t.Helper()
		c := Default()
		c.InhibitRules = append(c.InhibitRules, r)
		must.Equal(t, fmt.Sprint(c.Validate()), want, "%+v", r)
	}
	f(InhibitRule{SameFailures: true}, `inhibit_rules[1].source_match: is empty; name the alerts that hide others, such as alertname="ProviderOutage"`)
	f(InhibitRule{SourceMatch: []string{"a=b"}}, "inhibit_rules[1].target_match: is empty; name the hidden alerts, or set same_failures: true")
	f(InhibitRule{SourceMatch: []string{"a=b", "c"}, TargetMatch: []string{"a=~("}, Equal: []string{"x-y"}},
		`inhibit_rules[1].source_match[1]: "c" is not a matcher, such as service=checkout-agent or severity=~"warn.*"`+"\n"+
			"inhibit_rules[1].target_match[0]: matcher \"a=~(\": the value of a is not a regular expression: error parsing regexp: missing closing ): `^(?:()$`\n"+
			`inhibit_rules[1].equal[0]: "x-y" is not a label name`)
}
