package ruletest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs test files and returns the failures as a user sees them.
func run(t *testing.T, files ...string) (*Report, string) {
	t.Helper()
	r := must.Get(Run(t.Context(), engine.Default().Rules(), files))(t)
	var lines []string
	for _, f := range r.Failures {
		lines = append(lines, f.String())
	}
	return r, strings.Join(lines, "\n")
}

func TestFormat(t *testing.T) {
	r, text := run(t, "testdata/features_test.yaml", "testdata/start_test.yaml")
	if r.Failed != 0 || r.Tests != 5 || r.Files != 2 {
		t.Errorf("%d of %d tests of %d files failed\n%s", r.Failed, r.Tests, r.Files, text)
	}
}

const failing = `testdata/failing_test.yaml:10: wrong labels and annotations: Held at 3m
    {service="shop", severity="warning"}
  -   summary: "many calls of shop failed in "
  +   summary: "20 calls of shop failed in "
  - {service="auth", severity="warning"} has been pending for 30s
testdata/failing_test.yaml:16: wrong labels and annotations: StoreAway at 3m
  - {severity="critical", team="agents"}
  + {severity="warning", team="agents"}
  +   since: "0"
testdata/failing_test.yaml:27: wrong samples: vector(1) at 1m
  - {} 2
  + {} 1
testdata/failing_test.yaml:28: wrong samples: vector( at 1m
  prepare query: 1:8: parse error: unclosed left parenthesis
testdata/failing_test.yaml:29: wrong samples: 0.1 + 0.2 at 1m
  - {} 0.3
  + {} 0.30000000000000004`

func TestFailures(t *testing.T) {
	r, text := run(t, "testdata/failing_test.yaml")
	must.Agree(t, cmp.Diff(failing, text), "failures")
	if r.Failed != 2 || r.Tests != 3 {
		t.Errorf("%d of %d tests failed, want 2 of 3", r.Failed, r.Tests)
	}
}

func TestInvalidFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("a.yaml", "groups:\n- name: g\n  rules:\n  - {alert: A, expr: llmtap_store_up == 0}\n")
	write("twice.yaml", "groups:\n- name: g\n  rules:\n  - {alert: A, expr: 'llmtap_store_up == 0', labels: {partition: ''}}\n")
	write("record.yaml", "groups:\n- name: g\n  rules:\n  - {record: a:b, expr: llmtap_store_up}\n")
	write("foreign.yaml", "groups:\n- name: g\n  rules:\n  - {alert: A, expr: up == 0}\n")
	// f expects one failure.
	f := func(text, want string) {
		t.Helper()
		r, got := run(t, write("test.yaml", text))
		got = strings.ReplaceAll(got, dir+string(filepath.Separator), "")
		if r.Failed != 1 || got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
	const a = "rule_files: [a.yaml]\n"
	f("", "test.yaml: the file has no tests")
	f(a+"tests: []\n", "test.yaml:1: the file has no tests")
	f(a+"test:\n- {}\n", `test.yaml:2: unknown field "test"`)
	f(a+"tests:\n- name: x\n  alert_rule_tests: []\n", `test.yaml:4: unknown field "alert_rule_tests"`)
	f(a+"tests:\n- name: x\n  name: y\n", `test.yaml:4: mapping key "name" already defined at [3:3]`)
	f(a+"tests: {\n", `test.yaml:2: could not find flow mapping end token '}'`)
	f(a+"evaluation_interval: 5x\ntests: [{}]\n", `test.yaml: unknown unit "x" in duration "5x"`)
	f("rule_files: [a.yaml, b*.yaml]\ntests: [{}]\n", "test.yaml:1: no rule file matches b*.yaml")
	f("group_eval_order: [g, h, g]\ntests: [{}]\n", "test.yaml:1: duplicate group g in group_eval_order")
	f(a+"tests:\n- name: x\n  alert_rule_test:\n  - {eval_time: 1m}\n", "test.yaml:5: alertname is missing")
	f(a+"tests:\n- name: x\n  alert_rule_test:\n  - {eval_time: 1m, alertname: B}\n", "test.yaml:5: x: no rule in rule_files has the alert name B")
	f(a+"tests:\n- start_timestamp: noon\n", `test.yaml:3: start_timestamp: "noon" is neither RFC 3339 nor Unix seconds`)
	f(a+"tests:\n- input_series:\n  - {series: x, values: '1x9 2+1x99999999'}\n", "test.yaml:4: a series has at most 1000000 values")
	f(a+"tests:\n- input_series:\n  - {series: x, values: 1 b}\n", "test.yaml:3: unnamed#0: parse series x: 1:5: parse error: unexpected identifier \"b\" in series values, expected number or \"stale\"")
	f(a+"tests:\n- input_series:\n  - {series: x, values: 1}\n  - {series: 'x{}', values: 2}\n", "test.yaml:3: unnamed#0: duplicate series x{}")
	f(a+"tests:\n- input_series:\n  - {series: x, values: '{{schema:1 sum:3 count:1}}'}\n", "test.yaml:3: unnamed#0: series x has histograms, which llmtap does not support")
	f("rule_files: [record.yaml]\ntests: [{}]\n", "record.yaml:4: a:b: recording rules are not supported; write the expression into the alert rule")
	_, got := run(t, write("test.yaml", "rule_files: [foreign.yaml]\ntests: [{}]\n"))
	must.Contain(t, got, `foreign.yaml:4: A: unknown metric "up"`)
	f("rule_files: [twice.yaml]\ntests:\n- input_series:\n  - {series: 'llmtap_store_up{partition=\"1\"}', values: 0}\n  - {series: llmtap_store_up, values: 0}\n  alert_rule_test:\n  - {eval_time: 1m, alertname: A}\n",
		"test.yaml:3: unnamed#0: at 0s: rule A: two series of the result have the labels of the same alert: A")
	f("tests:\n- promql_expr_test:\n  - {expr: '\"text\"', eval_time: 1m}\n", "test.yaml:3: unnamed#0: \"text\" at 1m\n  evaluate query: result is a string, not a vector")
	f("tests:\n- promql_expr_test:\n  - {expr: '1', eval_time: 1m, exp_samples: [{labels: '{a', value: 1}]}\n",
		"test.yaml:3: unnamed#0: 1 at 1m\n  labels \"{a\": 1:3: parse error: unexpected end of input inside braces")
	f("tests:\n- promql_expr_test:\n  - {expr: '1', eval_time: 1m, exp_samples: [{histogram: '{{}}'}]}\n", "test.yaml:3: unnamed#0: 1 at 1m\n  histogram: not supported")
	_, got = run(t, filepath.Join(dir, "absent.yaml"))
	must.Equal(t, got, filepath.Join(dir, "absent.yaml")+": no such file or directory", "an absent file")
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, must.Err(Run(ctx, engine.Default().Rules(), []string{"testdata/features_test.yaml"})), context.Canceled)
}
