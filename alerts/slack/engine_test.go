package slack

import (
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// From tallies to Slack, with a restart of engine and notifier in the middle: one message, red and then green.
func TestEngineToSlack(t *testing.T) {
	f, cfg := newSlack(t)
	store := &alertstest.Store{}
	start := (time.Now().Unix() - 1800) / 5 * 5
	tally := func(i int64) *analyzer.Tally {
		out := &analyzer.Tally{Second: start + i}
		kv := func(more ...string) map[string]string {
			m := map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "service_version": "2.4.0"}
			for i := 0; i < len(more); i += 2 {
				m[more[i]] = more[i+1]
			}
			return m
		}
		if i < 60 {
			failed := kv("status", "400", "cause", "orphan_tool_reply", "root_cause", "tool_calls_dropped_on_save")
			out.Counts = []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: kv(), N: 5}, {Metric: analyzer.MetricFailed, Labels: failed, N: 2}}
			out.Examples = []analyzer.Example{{Labels: failed, Conversation: "order-7781", Status: 400, PublishedAt: out.Second * 1e9, Fix: "Keep the tool_calls."}}
		}
		return out
	}
	run := func(from, to int64, done func() bool) {
		t.Helper()
		c := engine.Default()
		c.UpdateInterval, c.RuleFiles = 0, []string{"../rules/stage_failure_rate.yaml"}
		e := enginetest.New(t, c, engine.Options{Notifiers: []alerts.Notifier{newNotifier(t, cfg, store)}, Store: store})
		stop := must.Run(t, e.Run)
		for i := from; i < to; i++ {
			must.Do(t, e.Add(t.Context(), tally(i)))
		}
		must.Wait(t, "sent", done, func() any { return f.top() })
		stop()
	}
	shows := func(text string) func() bool {
		return func() bool { m := f.top(); return len(m) > 0 && strings.Contains(m[0].Text, text) }
	}
	run(0, 61, shows("CRITICAL checkout-agent/planner: 120 of 300 calls failed (40%)"))
	run(0, 1800, shows("RESOLVED checkout-agent/planner: 120 of 300 calls failed at the peak (40%)"))
	must.Equal(t, len(f.top()), 1, "messages")
	text := plainBlocks(t, []byte(f.top()[0].Blocks))
	if !strings.Contains(text, "Keep the tool_calls.") || !strings.Contains(text, "2.4.0: 120 of 300 calls failed") {
		t.Errorf("message:\n%s", text)
	}
}
