package rules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// source returns the limits of the default configuration for files.
func source(files ...string) rules.Source {
	s := engine.Default().Rules()
	s.Files, s.Interval = files, 5*time.Second
	return s
}

func TestLoad(t *testing.T) {
	must.Do(t, must.Err(source().Load()), "shipped rules")
	f := func(rule, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "r.yaml")
		must.Do(t, os.WriteFile(file, []byte("groups:\n- name: g\n"+rule), 0o644))
		_, err := source(file).Load()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", rule, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s:\ngot  %v\nwant %s", rule, err, want)
		}
	}
	rule := func(s string) string { return "  rules:\n  - " + strings.ReplaceAll(s, "\n", "\n    ") }
	f(rule("alert: A\nexpr: sum(llmtap_calls_total) > 1"), "")
	f(rule("alert: Watchdog\nexpr: vector(1)"), "")
	f(rule("alert: A\nexpr: llmtap_retries_total offset 1h > 3\nannotations: {llmtap_window: 1h}"), "")
	// rejected by Prometheus
	f(rule("alert: A\nexpr: sum(llmtap_calls_total"), "unclosed left parenthesis")
	f(rule("alert: A\nexpr: llmtap_calls_total\nfro: 1m"), "field fro not found")
	f(rule("alert: A\nexpr: llmtap_calls_total\nannotations: {summary: '{{ $labels.'}"), "summary")
	// unknown metrics
	f(rule("alert: A\nexpr: up == 0"), `unknown metric "up"; known metrics: llmtap_calls_total`)
	f(rule(`alert: A
expr: '{__name__=~"llmtap_.+"} > 1'`), "cannot be a pattern")
	// features that llmtap does not support
	f(rule("record: a\nexpr: llmtap_calls_total"), "recording rules are not supported")
	f(rule("alert: A\nexpr: llmtap_calls_total[5m]"), "an alert requires a vector")
	f(rule("alert: A\nexpr: llmtap_store_up == 0 and on () sum(llmtap_calls_total) > 1"), "mixes llmtap's current health")
	f("  interval: 7s\n"+rule("alert: A\nexpr: llmtap_calls_total"), "not a multiple of 5s")
	f("  query_offset: 1m\n"+rule("alert: A\nexpr: llmtap_calls_total"), "query_offset is not supported")
	f(rule("alert: A\nexpr: llmtap_calls_total\nannotations: {llmtap_window: 2h}"), "up to 1h0m0s")
	f(rule("alert: A\nexpr: llmtap_calls_total\nannotations: {llmtap_window: soon}"), "annotation llmtap_window")
	must.Fail(t, must.Err(source("absent.yaml").Load()), "absent.yaml", "absent file")
}
