package engine

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An alert has three examples: of the largest share, of another material share, and one more of the largest. The first version
// of each share comes from the ledger, even without a clean version in the window. ClickHouse is not required.
func TestExamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		b.rec.err = errors.New("ClickHouse is down")
		first := time.Unix(b.sec, 0).UTC().Add(-time.Hour)
		example := func(version, root, conversation string) analyzer.Example {
			return analyzer.Example{
				Labels: failures(version, "orphan_tool_reply", root, 1).Labels, Exchange: "x-" + conversation, Conversation: conversation,
				PublishedAt: b.sec * 1e9, Fix: "fix " + root, FirstVersion: "2.4.0", FirstAt: first.UnixNano(), LastClean: "2.3.9", CleanCalls: 400,
			}
		}
		for i := range 20 {
			x := example("2.4.0", "tool_calls_dropped_on_save", fmt.Sprint("saved-", i/5))
			y := example("2.4.1", "tool_skipped", fmt.Sprint("skipped-", i))
			y.FirstAt, y.FirstVersion, y.LastClean = first.Add(time.Minute).UnixNano(), "2.4.1", "2.4.0"
			b.add(&analyzer.Tally{
				Second: b.sec, Examples: []analyzer.Example{x, y, example("2.4.0", "", "rare")}, Counts: []analyzer.Count{
					calls("2.4.0", 4), failures("2.4.0", "orphan_tool_reply", "tool_calls_dropped_on_save", 3),
					calls("2.4.1", 2), failures("2.4.1", "orphan_tool_reply", "tool_skipped", 2),
				},
			})
			b.sec++
		}
		b.add(&analyzer.Tally{Second: b.sec, Counts: []analyzer.Count{failures("2.4.0", "orphan_tool_reply", "", 1)}, Examples: []analyzer.Example{example("2.4.0", "", "rare")}})
		b.sec++
		b.idle(30 * time.Second)

		active := b.Active()
		if len(active) != 1 {
			t.Fatalf("%d alerts, want 1", len(active))
		}
		ev := active[0].Evidence
		must.Agree(t, cmp.Diff(active[0].Evidence, b.sent.last().Alerts[0].Evidence), "sent evidence (-active +sent)")
		got := []string{ev.Example.Conversation}
		for _, x := range ev.More {
			got = append(got, x.Conversation)
		}
		must.Agree(t, cmp.Diff([]string{"saved-3", "skipped-19", "saved-2"}, got), "examples")
		want := []alerts.Share{
			{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 60, Fix: "fix tool_calls_dropped_on_save", FirstVersion: "2.4.0", FirstAt: first, LastClean: "2.3.9"},
			{Cause: "orphan_tool_reply", RootCause: "tool_skipped", Failed: 40, Fix: "fix tool_skipped", FirstVersion: "2.4.1", FirstAt: first.Add(time.Minute), LastClean: "2.4.0"},
			{Cause: "orphan_tool_reply", Failed: 1, Fix: "fix ", FirstVersion: "2.4.0", FirstAt: first, LastClean: "2.3.9"},
		}
		must.Agree(t, cmp.Diff(want, ev.Shares), "shares")
		if version, clean := ev.Regression(); version != "2.4.0" || clean != "2.3.9" {
			t.Errorf("first in %q, last clean %q", version, clean)
		}
	})
}

// Without a ledger entry the versions of the window count.
func TestRegression(t *testing.T) {
	f := func(first, clean string, ev alerts.Evidence) {
		t.Helper()
		if gotFirst, gotClean := ev.Regression(); gotFirst != first || gotClean != clean {
			t.Errorf("first in %q, last clean %q; want %q, %q", gotFirst, gotClean, first, clean)
		}
	}
	good, bad := alerts.VersionCount{Version: "1", Calls: 9}, alerts.VersionCount{Version: "2", Calls: 9, Failed: 9}
	f("", "", alerts.Evidence{})
	f("", "", alerts.Evidence{Versions: []alerts.VersionCount{good}})
	f("2", "1", alerts.Evidence{Versions: []alerts.VersionCount{good, bad}})
	f("2", "", alerts.Evidence{Versions: []alerts.VersionCount{bad, good}})
	f("3", "", alerts.Evidence{Versions: []alerts.VersionCount{good, bad}, Shares: []alerts.Share{{FirstVersion: "3"}}})
}

func TestInsertExample(t *testing.T) {
	var list []*analyzer.Example
	for _, x := range []analyzer.Example{
		{Exchange: "1", Conversation: "a", PublishedAt: 5},
		{Exchange: "2", Conversation: "b", PublishedAt: 7},
		{Exchange: "3", Conversation: "a", PublishedAt: 6}, // newer of a
		{Exchange: "4", Conversation: "b", PublishedAt: 1}, // older of b
		{Exchange: "5", PublishedAt: 2},
		{Exchange: "5", PublishedAt: 2}, // duplicate
		{Exchange: "6", PublishedAt: 3},
	} {
		list = insertExample(list, &x)
	}
	got := ""
	for _, x := range list {
		got += x.Exchange
	}
	must.Equal(t, got, "236", "exchanges")
}
