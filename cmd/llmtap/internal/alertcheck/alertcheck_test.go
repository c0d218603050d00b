package alertcheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCheck(t *testing.T) {
	cfg := engine.Default()
	var b strings.Builder
	if err := Check(t.Context(), &b, cfg); err != nil || !regexp.MustCompile(`^\d+ alert rules, no errors\n$`).MatchString(b.String()) {
		t.Errorf("shipped rules: %v\n%s", err, b.String())
	}
	file := filepath.Join(t.TempDir(), "bad.yaml")
	must.Do(t, os.WriteFile(file, []byte("groups: [{name: g, rules: [{alert: A, expr: up}]}]\n"), 0o600))
	cfg.RuleFiles = []string{file}
	b.Reset()
	if err := Check(t.Context(), &b, cfg); err == nil || err.Error() != "1 error" || !strings.Contains(b.String(), `unknown metric "up"`) {
		t.Errorf("invalid rule: %v\n%s", err, b.String())
	}
}

func TestTest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("rules.yaml", "groups: [{name: g, rules: [{alert: A, expr: sum(llmtap_calls_total) > 1}]}]\n")
	unit := write("test.yaml", `rule_files: [rules.yaml]
tests:
  - interval: 5s
    input_series: [{series: llmtap_calls_total, values: '0 2x20'}]
    alert_rule_test: [{eval_time: 1m, alertname: A, exp_alerts: []}]
`)
	for format, want := range map[string]string{command.Text: "1 test of 1 file, 1 failed\n", command.JSON: `"failed": 1`} {
		var b strings.Builder
		if err := Test(t.Context(), &b, engine.Default(), []string{unit}, format); err == nil || err.Error() != "1 failed" || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v\n%s", format, err, b.String())
		}
	}
}
