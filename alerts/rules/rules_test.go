package rules_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load is the calls of one stage in a minute of stream time.
type load struct {
	minute        int
	stage         string
	failed, calls uint64
}

// alertsAt adds loads and returns the active alerts at the end of minute: "severity stage failed/calls".
func alertsAt(t *testing.T, minute int, loads ...load) []string {
	t.Helper()
	var out []string
	synctest.Test(t, func(t *testing.T) {
		cfg := alerts.Default()
		cfg.RuleFiles = []string{"stage_failure_rate.yaml"}
		cfg.TSDBDir = t.TempDir()
		e, err := alerts.New(t.Context(), cfg, alerts.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		start := time.Now().Unix() / 60 * 60
		for s := start; s < start+int64(minute)*60; s++ {
			tally := &analyzer.Tally{Second: s}
			for _, l := range loads {
				// The calls of a minute are in its 31st second, so a window contains all of them or none.
				if start+int64(l.minute)*60+30 != s {
					continue
				}
				kv := map[string]string{"service": "shop", "environment": "prod", "stage": l.stage, "service_version": "1"}
				tally.Counts = append(tally.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: l.calls})
				if l.failed > 0 {
					kv := map[string]string{"service": "shop", "environment": "prod", "stage": l.stage, "service_version": "1", "status": "400", "cause": "orphan_tool_reply"}
					tally.Counts = append(tally.Counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: kv, N: l.failed})
				}
			}
			if err := e.Add(context.Background(), tally); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range e.Active() {
			out = append(out, fmt.Sprintf("%s %s %d/%d", a.Severity(), a.Labels["stage"], a.Evidence.Failed, a.Evidence.Calls))
		}
	})
	return out
}

func TestStageFailureRate(t *testing.T) {
	f := func(name string, minute int, loads []load, want ...string) {
		t.Helper()
		if got := alertsAt(t, minute, loads...); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	one := func(failed, calls uint64) []load { return []load{{0, "planner", failed, calls}} }
	f("19 calls are too few", 1, one(19, 19))
	f("20 calls are enough", 1, one(20, 20), "critical planner 20/20")
	f("10 % exactly", 1, one(10, 100))
	f("above 10 %", 1, one(11, 100), "warning planner 11/100")
	f("30 % exactly is not critical", 1, one(30, 100), "warning planner 30/100")
	f("30 % of 20 exactly", 1, one(6, 20), "warning planner 6/20")
	f("above 30 %, and the warning is inhibited", 1, one(31, 100), "critical planner 31/100")
	f("one million calls", 1, one(300_001, 1_000_000), "critical planner 300001/1000000")

	// A share of exactly 30 % is exact for counters that are older or younger than the window, or both.
	var steady []load
	for m := range 25 {
		steady = append(steady, load{m, "planner", 3, 10})
	}
	f("30 % for a long time", 25, steady, "warning planner 30/100")
	f("30 %, the calls older than the failures", 12, []load{{0, "planner", 0, 7}, {9, "planner", 0, 14}, {11, "planner", 6, 6}}, "warning planner 6/20")
	f("10 calls a minute, one stopped", 20, []load{{0, "planner", 20, 20}, {12, "planner", 0, 19}})

	// Stages are separate.
	f("only the failing stage", 1, []load{{0, "planner", 40, 100}, {0, "executor", 0, 500}, {0, "总结", 9, 50}},
		"critical planner 40/100", "warning 总结 9/50")

	// Failures leave the window after 10 minutes; keep_firing_for adds 5.
	busy := []load{{0, "planner", 50, 100}}
	for m := 1; m < 30; m++ {
		busy = append(busy, load{m, "planner", 0, 5})
	}
	f("before the failures leave", 10, busy, "critical planner 50/145")
	f("kept firing", 15, busy, "critical planner 50/145")
	f("resolved", 16, busy)
}
