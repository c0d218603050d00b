package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Evidence counts the calls of the expression: by its groups, its selector, and the absence of a label in its groups.
func TestEvidenceMatches(t *testing.T) {
	f := func(expr string, want ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "rules.yaml")
		must.Do(t, os.WriteFile(file, fmt.Appendf(nil, "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: %s\n", expr), 0o644))
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.RuleFiles = []string{file}
			b := newBench(t, cfg, nil)
			for _, env := range []string{"", "prod"} {
				kv := map[string]string{"service": "s", "environment": env}
				failed := func(status, cause string, n uint64) analyzer.Count {
					return analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", status, "cause", cause), N: n}
				}
				b.second(analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 50},
					failed("400", "orphan_tool_reply", 3), failed("400", "role_order", 2), failed("503", "server_error", 7))
			}
			b.idle(5e9)
			var got []string
			for _, a := range b.Active() {
				got = append(got, fmt.Sprintf("%s/%s %d/%d", a.Labels["environment"], a.Labels["cause"], a.Evidence.Failed, a.Evidence.Calls))
			}
			slices.Sort(got)
			must.Agree(t, cmp.Diff(want, got), expr)
		})
	}
	f(`sum by (service, environment) (llmtap_failed_calls_total) > 1`, "/ 12/50", "prod/ 12/50")
	f(`sum by (service) (llmtap_failed_calls_total) > 1`, "/ 24/100")
	f(`sum by (service, cause) (llmtap_failed_calls_total{status="400",environment="prod"}) > 2`, "/orphan_tool_reply 3/100")
	f(`sum by (service, environment) (llmtap_failed_calls_total{status=~"5.."}) / sum by (service, environment) (llmtap_calls_total) > 0.1`,
		"/ 7/50", "prod/ 7/50")
	f(`sum(llmtap_calls_total) > 1`, "/ 0/0")
}

// The evidence says which calls failed, unless a version alone explains it, which the versions of the evidence say.
func TestEvidenceDiffers(t *testing.T) {
	f := func(want string, fails func(kv map[string]string) bool) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "rules.yaml")
		must.Do(t, os.WriteFile(file, []byte("groups:\n- name: g\n  rules:\n  - alert: A\n    expr: sum by (service) (llmtap_failed_calls_total) > 1\n"), 0o644))
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.RuleFiles = []string{file}
			b := newBench(t, cfg, nil)
			var counts []analyzer.Count
			for i := range 8 {
				kv := map[string]string{
					"service": "s", "model": []string{"mini", "large"}[i&1], "environment": []string{"eu", "us"}[i>>1&1], "service_version": []string{"1.0", "1.1"}[i>>2],
				}
				counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 49})
				if fails(kv) {
					counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "cause", "rate_limit"), N: 48})
				}
			}
			b.second(counts...)
			b.idle(5e9)
			must.Equal(t, b.Active()[0].Evidence.Differs, want, "differs")
		})
	}
	f("only environment eu and model mini: 96 of 98 calls; 0 of 294 others", func(kv map[string]string) bool { return kv["model"] == "mini" && kv["environment"] == "eu" })
	f("", func(kv map[string]string) bool { return kv["service_version"] == "1.1" })
	f("", func(map[string]string) bool { return true })
}

// All values that the numbers are of are named, also those with a NUL, which a request may contain.
func TestDiffersOfAnyModel(t *testing.T) {
	var list []*series
	for model, failed := range map[string]uint64{"large": 1, "mini\x00x": 90, "nano\x00x": 90} {
		for metric, n := range map[string]uint64{analyzer.MetricCalls: 100, analyzer.MetricFailed: failed} {
			c := &series{metric: metric, labels: map[string]string{"service": "s", "model": model}}
			c.add(5, n)
			list = append(list, c)
		}
	}
	must.Equal(t, differs(list, 0, 10), "only model mini\x00x, or model nano\x00x: 180 of 200 calls; 1 of 100 others", "differs")
}
