package rules_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestMain(m *testing.M) {
	slowtest.Computes()
	goleak.VerifyTestMain(m)
}

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
		cfg := engine.Default()
		cfg.RuleFiles = []string{"stage_failure_rate.yaml"}
		e := enginetest.New(t, cfg, engine.Options{})
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
			must.Do(t, e.Add(context.Background(), tally))
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
		must.Agree(t, cmp.Diff(want, alertsAt(t, minute, loads...)), name)
	}
	one := func(failed, calls uint64) []load { return []load{{0, "planner", failed, calls}} }
	f("19 calls are too few for a page", 1, one(19, 19), "warning planner 19/19")
	f("20 calls are enough", 1, one(20, 20), "critical planner 20/20")
	f("above 30 % of 20, but too few for a page", 1, one(9, 20), "warning planner 9/20")
	f("without the first 5, 10 % exactly", 1, one(15, 100))
	f("above 10 %", 1, one(16, 100), "warning planner 16/100")
	f("30 % exactly is not critical", 1, one(30, 100), "warning planner 30/100")
	f("above 30 %, and the warning is inhibited", 1, one(31, 100), "critical planner 31/100")
	f("half of a small service", 1, one(9, 18), "warning planner 9/18")
	f("temporary failures of a small service", 1, one(6, 18))
	f("one million calls", 1, one(300_001, 1_000_000), "critical planner 300001/1000000")

	// The table in the rule file.
	text := must.Get(rules.FS.ReadFile("stage_failure_rate.yaml"))(t)
	row := func(name string) []string {
		t.Helper()
		m := regexp.MustCompile(`#   ` + name + ` (.*)`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no row %s in the table", name)
		}
		return strings.Fields(string(m[1]))
	}
	columns := 0
	for i, n := range row("calls") {
		calls := must.Get(strconv.ParseUint(n, 10, 64))(t)
		for _, severity := range []string{"warning", "critical"} {
			failed, err := strconv.ParseUint(row(severity)[i], 10, 64)
			if err != nil {
				continue // none
			}
			columns++
			is := func(failed uint64) bool {
				return slices.ContainsFunc(alertsAt(t, 1, one(failed, calls)...), func(a string) bool { return strings.HasPrefix(a, severity) })
			}
			if !is(failed) || is(failed-1) {
				t.Errorf("%s: %d of %d is not the smallest number", severity, failed, calls)
			}
		}
	}
	if columns < 10 {
		t.Errorf("%d numbers in the table", columns)
	}

	// A share of exactly 30 % is exact for counters that are older or younger than the window, or both.
	var steady []load
	for m := range 25 {
		steady = append(steady, load{m, "planner", 3, 10})
	}
	f("30 % for a long time", 25, steady, "warning planner 30/100")
	f("30 %, the calls older than the failures", 12, []load{{0, "planner", 0, 17}, {9, "planner", 0, 28}, {11, "planner", 12, 12}}, "warning planner 12/40")
	f("10 calls a minute, one stopped", 20, []load{{0, "planner", 20, 20}, {12, "planner", 0, 19}})

	// Stages are separate.
	f("only the failing stage", 1, []load{{0, "planner", 40, 100}, {0, "executor", 0, 500}, {0, "总结", 11, 50}},
		"critical planner 40/100", "warning 总结 11/50")

	// An alert ends 5 minutes after the last failure if calls go on, and else when the window is empty.
	busy := []load{{0, "planner", 50, 100}}
	for m := 1; m < 30; m++ {
		busy = append(busy, load{m, "planner", 0, 5})
	}
	f("after 5 minutes with calls", 5, busy, "critical planner 50/100")
	f("after 6 minutes with calls", 6, busy)
	f("after 10 minutes without calls", 10, busy[:1], "critical planner 50/100")
	f("after 11 minutes without calls", 11, busy[:1])
}
