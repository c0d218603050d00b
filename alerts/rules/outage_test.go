package rules_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// An outage of the provider, for 10 minutes of a day of the fleet, is one notification: while it lasts, and after it, when the
// alerts of some 70 stages end one after another.
func TestDayOfOutage(t *testing.T) {
	slowtest.Skip(t)
	const noon = 12 * 60
	d := newDay(3, midnight)
	d.hiccups = nil
	d.incident = func(d *day, minute int, s *service, stage string, calls uint64) []analyzer.Count {
		if n := d.some(calls, 0.5); n > 0 && minute >= noon && minute < noon+10 {
			return []analyzer.Count{failed(s.labels(stage, minute, "cause", "server_error", "status", "503"), n)}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := engine.Default()
		cfg.EvaluationInterval = dayStep
		e := enginetest.New(t, cfg, engine.Options{})
		var told []string
		hidden := map[string]bool{}
		step := int64(dayStep.Seconds())
		for s := d.start + (noon-20)*60; s < d.start+(noon+30)*60; s += step {
			must.Do(t, e.Add(t.Context(), &analyzer.Tally{Second: s + step - 1, Counts: d.counts(int(s-d.start)/60, float64(step))}))
			for _, a := range e.Active() {
				series := a.Name + " " + a.Labels["service"] + "/" + a.Labels["stage"]
				if a.Muted() {
					hidden[series] = true
				} else if !slices.Contains(told, series) {
					told = append(told, series)
				}
			}
		}
		must.Agree(t, cmp.Diff([]string{"ProviderOutage /"}, told), "notified of")
		if len(hidden) < 50 {
			t.Errorf("%d alerts are hidden, want at least 50", len(hidden))
		}
	})
}
