package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// ruleFile writes rules, each "name|expr|more lines", and returns the path.
func ruleFile(t *testing.T, path string, rules ...string) string {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "r.yaml")
	}
	var b strings.Builder
	b.WriteString("groups:\n- name: g\n  rules:\n")
	for _, r := range rules {
		f := strings.Split(r, "|")
		fmt.Fprintf(&b, "  - alert: %s\n    expr: %s\n", f[0], f[1])
		for _, line := range f[2:] {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	must.Do(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// states returns the alerts of the rules: "name pending|firing duration".
func (b *bench) states() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, r := range b.rules {
		for _, inst := range r.Active {
			state := "pending"
			if inst.Firing {
				state = "firing"
			}
			out = append(out, fmt.Sprintf("%s %s %v", r.Name, state, time.Unix(b.steps.next-5, 0).UTC().Sub(inst.ActiveAt)))
		}
	}
	slices.Sort(out)
	return out
}

// statesSent returns the states that the notifier was sent, by alert.
func (b *bench) statesSent() map[string]string {
	b.sent.mu.Lock()
	defer b.sent.mu.Unlock()
	out := map[string]string{}
	for _, g := range b.sent.groups {
		for _, a := range g.Alerts {
			if s := string(a.State); !strings.HasSuffix(" "+out[a.Name], " "+s) {
				out[a.Name] = strings.TrimSpace(out[a.Name] + " " + s)
			}
		}
	}
	return out
}

const failedOver = "sum by (service) (increase(llmtap_failed_calls_total[10m]))"

func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		path := ruleFile(t, "",
			"Same|"+failedOver+" > 5",
			"SamePending|"+failedOver+" > 5|for: 5m",
			"Reworded|"+failedOver+" > 5|annotations: {summary: before}",
			"Changed|"+failedOver+" > 5",
			"ChangedPending|"+failedOver+" > 5|for: 5m",
			"ChangedAway|"+failedOver+" > 5",
			"Removed|"+failedOver+" > 5",
		)
		cfg.RuleFiles = []string{path}
		b := newBench(t, cfg, &alertstest.Store{})
		b.second(calls("1", 10), failures("1", "x", "", 10))
		b.idle(2 * time.Minute)
		ruleFile(t, path,
			"Added|"+failedOver+" > 5|for: 1m",
			"Same|"+strings.ReplaceAll(failedOver, " (", "   (")+" > 5", // other white space
			"SamePending|"+failedOver+" > 5|for: 5m",
			"Reworded|"+failedOver+" > 5|annotations: {summary: after}",
			"Changed|"+failedOver+" > 6",
			"ChangedPending|"+failedOver+" > 6|for: 5m",
			"ChangedAway|"+failedOver+" > 60",
		)
		must.Do(t, b.Reload(t.Context()))
		const held = "1m55s"
		want := []string{
			"Added pending 0s", "Changed firing 0s", "ChangedPending pending 0s",
			"Reworded firing " + held, "Same firing " + held, "SamePending pending " + held,
		}
		must.Agree(t, cmp.Diff(want, b.states()), "after the reload")
		b.idle(30 * time.Second)
		// Continuing alerts are not sent again; alerts without a rule are resolved.
		sent := map[string]string{
			"Same": "firing", "Reworded": "firing", "Changed": "firing", "ChangedAway": "firing resolved", "Removed": "firing resolved",
		}
		must.Agree(t, cmp.Diff(sent, b.statesSent()), "sent")
		b.mu.Lock()
		for _, n := range b.groups.open {
			if a := n.alerts[0]; a.Name == "Reworded" && a.Annotations["summary"] != "after" || a.StartsAt.Sub(time.Unix(b.steps.next, 0)).Abs() < 2*time.Minute {
				t.Errorf("%s since %v: %v", a.Name, a.StartsAt, a.Annotations)
			}
		}
		b.mu.Unlock()
		b.idle(time.Minute)
		sent["Added"] = "firing"
		must.Agree(t, cmp.Diff(sent, b.statesSent()), "a minute later: sent")
		b.idle(2 * time.Minute) // 5m30s after the failures, 3m30s after the reload
		sent["SamePending"] = "firing"
		must.Agree(t, cmp.Diff(sent, b.statesSent()), "then: sent")
		b.idle(2 * time.Minute)
		sent["ChangedPending"] = "firing"
		must.Agree(t, cmp.Diff(sent, b.statesSent()), "finally: sent")
	})
}

// Counts from before a reload remain a baseline.
func TestReloadKeepsBaselines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		path := ruleFile(t, "", "A|"+failedOver+" > 1000")
		cfg.RuleFiles = []string{path}
		b := newBench(t, cfg, &alertstest.Store{})
		for range 12 * 60 { // 12 minutes of 3 failures each
			if b.sec%60 == 30 {
				b.second(calls("1", 10), failures("1", "x", "", 3))
			} else {
				b.second()
			}
		}
		ruleFile(t, path,
			"Twice|"+failedOver+" > 2 * sum by (service) (increase(llmtap_failed_calls_total[10m] offset 2m))",
			"Window|sum by (service) (round(increase(llmtap_failed_calls_total[10m1ms]))) == 30|annotations: {llmtap_window: 10m}",
		)
		must.Do(t, b.Reload(t.Context()))
		must.Agree(t, cmp.Diff([]string{"Window firing 0s"}, b.states()), "after the reload: the window is full and no more than twice the baseline")
		b.idle(5 * time.Second)
		if a := b.Active(); len(a) != 1 || a[0].Evidence.Failed != 30 || a[0].Evidence.Calls != 100 {
			t.Errorf("active %+v, want 30 of 100", a)
		}
	})
}

// An invalid file changes only the metric.
func TestReloadRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		path := ruleFile(t, "", "A|"+failedOver+" > 5", "B|"+failedOver+" > 5|for: 5m")
		cfg.RuleFiles = []string{path}
		b := newBench(t, cfg, &alertstest.Store{})
		b.second(calls("1", 10), failures("1", "x", "", 10))
		b.idle(30 * time.Second)
		current := func(want float64) {
			t.Helper()
			must.Equal(t, testutil.ToFloat64(b.m.reloaded), want, "the metric")
		}
		current(1)
		before := b.states()
		for _, text := range []string{"groups: [", "groups:\n- name: g\n  rules:\n  - {alert: A, expr: up}\n", "groups:\n- name: g\n  rulez: []\n"} {
			must.Do(t, os.WriteFile(path, []byte(text), 0o600))
			must.Fail(t, b.Reload(t.Context()), path, text)
			current(0)
		}
		must.Do(t, os.Remove(path))
		must.Fail(t, b.Reload(t.Context()), "", "a missing file was accepted")
		if after := b.states(); !slices.Equal(before, after) || len(after) != 2 {
			t.Errorf("before %v, after %v", before, after)
		}
		b.idle(5 * time.Minute)
		if got := b.statesSent(); got["A"] != "firing" || got["B"] != "firing" {
			t.Errorf("sent %v by the previous rules", got)
		}
		ruleFile(t, path, "A|"+failedOver+" > 5")
		must.Do(t, b.Reload(t.Context()))
		current(1)
		b.idle(20 * time.Second)
		if got := b.statesSent(); got["A"] != "firing" || got["B"] != "firing resolved" {
			t.Errorf("sent %v, want the end of the alert of the removed rule", got)
		}
	})
}

// For receivers, a restart with other rules is like a reload.
func TestReloadByRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		path := ruleFile(t, "", "A|"+failedOver+" > 1", "B|"+failedOver+" > 1")
		cfg.RuleFiles = []string{path}
		store := &alertstest.Store{}
		a := newBench(t, cfg, store)
		start := a.sec
		breach(a, 60)
		a.stop()
		ruleFile(t, path, "A|"+failedOver+" > 1", "C|"+failedOver+" > 1")
		b := newBench(t, cfg, store)
		replay(b, start, b.sec)
		breach(b, 11*60)
		// A continues, B is resolved, C is new. They are one problem, whose message C changes before B ends.
		want := map[string]string{"A": "firing", "B": "firing resolved", "C": "firing"}
		must.Agree(t, cmp.Diff(want, b.statesSent()), "sent")
		for _, x := range b.Active() {
			if x.Name == "A" && !x.StartsAt.Equal(a.Active()[0].StartsAt) {
				t.Errorf("A since %v, before the restart since %v", x.StartsAt, a.Active()[0].StartsAt)
			}
		}
	})
}
