package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An alert on findings has the same evidence as one on failed calls: counts by rule or root cause and by version, the calls of
// the stage, the last finding and examples. It is the same after a restart and in a standby.
func TestEvidenceOfFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, store := Default(), &alertstest.Store{}
		cfg.RuleFiles = []string{"../rules/missing_tool_replies.yaml"}
		a := newBench(t, cfg, store)
		a.sec = a.sec/1000*1000 + 1000
		start := time.Unix(a.sec, 0).UTC()
		time.Sleep(time.Until(start.Add(2 * time.Minute))) // a stored step in the future is ignored
		finding := func(version, rule, severity, root string, n uint64) analyzer.Count {
			return analyzer.Count{Metric: analyzer.MetricFindings, Labels: with(planner(version), "rule", rule, "severity", severity, "root_cause", root), N: n}
		}
		skipped, never := finding("1.1", "missing_tool_reply", "reject", "tool_skipped", 4), finding("1.1", "reply_never_arrived", "signal", "", 2)
		var tallies []*analyzer.Tally
		for i := range int64(120) {
			tally := &analyzer.Tally{Second: a.sec + i, Counts: []analyzer.Count{calls("1.0", 1)}}
			switch i {
			case 3:
				tally.Counts = append(tally.Counts, calls("1.1", 20), skipped, finding("1.1", "missing_tool_reply", "style", "", 9))
				tally.Examples = []analyzer.Example{{
					Labels: skipped.Labels, Finding: true, Exchange: "x1", Conversation: "c1", Rule: "missing_tool_reply", Fix: "Reply to every call.",
					PublishedAt: tally.Second * 1e9, FirstVersion: "1.1", FirstAt: start.UnixNano(), LastClean: "1.0", CleanCalls: 120,
				}}
			case 7:
				tally.Counts = append(tally.Counts, calls("1.1", 20), never)
				tally.Examples = []analyzer.Example{{Labels: never.Labels, Finding: true, Exchange: "x2", Conversation: "c2", Rule: "reply_never_arrived", PublishedAt: tally.Second * 1e9}}
			}
			tallies = append(tallies, tally)
		}
		play := func(e *Engine) alerts.Evidence {
			for _, tally := range tallies {
				must.Do(t, e.Add(t.Context(), tally))
			}
			list := e.Active()
			if len(list) != 1 {
				t.Fatalf("%d alerts, want 1", len(list))
			}
			return list[0].Evidence
		}
		got := play(a.Engine)
		want := alerts.Evidence{
			Window: 30 * time.Minute, Failed: 6, Calls: 50, LastFailed: start.Add(7 * time.Second), CallsSince: 112,
			Rules: []string{"missing_tool_reply", "reply_never_arrived"},
			Shares: []alerts.Share{
				{Cause: "missing_tool_reply", RootCause: "tool_skipped", Failed: 4, Fix: "Reply to every call.", FirstVersion: "1.1", FirstAt: start, LastClean: "1.0"},
				{Cause: "reply_never_arrived", Failed: 2},
			},
			Versions: []alerts.VersionCount{
				{Version: "1.0", Calls: 120, FirstSeen: start, CallsSince: 120},
				{Version: "1.1", Failed: 6, Calls: 40, FirstSeen: start.Add(3 * time.Second), LastFailed: start.Add(7 * time.Second)},
			},
			Example: &tallies[3].Examples[0], More: []*analyzer.Example{&tallies[7].Examples[0]},
		}
		must.Agree(t, cmp.Diff(want, got))
		a.stop()
		restarted := newBench(t, cfg, store)
		must.Agree(t, cmp.Diff(got, play(restarted.Engine)), "after a restart (-before +after)")
		standby := newEngine(t, cfg, Options{Store: store, Standby: true})
		for _, tally := range tallies {
			must.Do(t, standby.Add(t.Context(), tally))
		}
		if !standby.lead(t.Context()) {
			t.Fatal("the standby does not lead")
		}
		if list := standby.Active(); len(list) != 1 || !cmp.Equal(got, list[0].Evidence) {
			t.Errorf("the standby has %+v", list)
		}
	})
}
