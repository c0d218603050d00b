package engine

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// Of 100 stages, 12 have a defect each, which overlap and which several rules find. Each is one message, from its first
// notification to its end.
func TestOneMessagePerProblem(t *testing.T) {
	slowtest.Skip(t)
	const stages, defects, minutes = 100, 12, 40
	cfg := Default()
	cfg.EvaluationInterval = 2 * benchInterval
	cfg.RuleFiles = must.Get(filepath.Glob("../rules/*.yaml"))(t)
	roots := []string{"tool_calls_dropped_on_save", "tool_skipped", ""}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, cfg, nil)
		var want []string
		rules := map[string]map[string]bool{}
		for minute := range minutes {
			for range 60 {
				var counts []analyzer.Count
				for i := range stages {
					kv := map[string]string{"service": fmt.Sprint("agent-", i%25), "environment": "prod", "stage": fmt.Sprint("stage-", i), "service_version": "1.0.0", "provider": "openai"}
					counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 1})
					if i >= defects || minute < 5+i || minute >= 20+i || b.sec%2 == 0 {
						continue
					}
					root := roots[i%len(roots)]
					kv = with(kv, "cause", "missing_tool_reply", "root_cause", root)
					counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "400"), N: 1})
					for _, rule := range []string{"missing_tool_reply", "masked_failure", "retry_storm"} {
						counts = append(counts, analyzer.Count{Metric: analyzer.MetricFindings, Labels: with(kv, "rule", rule, "severity", "reject"), N: 1})
					}
				}
				b.second(counts...)
			}
		}
		for i := range defects {
			problem := roots[i%len(roots)]
			if problem == "" {
				problem = "missing_tool_reply"
			}
			want = append(want, fmt.Sprintf(`problem{service=%q,environment="prod",stage=%q,problem=%q}`, fmt.Sprint("agent-", i), fmt.Sprint("stage-", i), problem))
		}
		for _, g := range b.sent.groups {
			if rules[g.Key] == nil {
				rules[g.Key] = map[string]bool{}
			}
			for _, a := range g.Alerts {
				rules[g.Key][a.Name] = true
			}
		}
		delete(rules, "Watchdog{}")
		slices.Sort(want)
		must.Agree(t, cmp.Diff(want, slices.Sorted(maps.Keys(rules))))
		for key, names := range rules {
			if len(names) < 4 {
				t.Errorf("%s is found by %v only", key, names)
			}
		}
		if n := len(b.Active()); n > 1 { // the watchdog
			t.Errorf("%d alerts still fire", n)
		}
	})
}
