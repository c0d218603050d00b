package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/analyzer"
)

// An example names the first version with the failure and the newest one before it, even if every window contains only calls
// of later versions.
func TestExampleVersions(t *testing.T) {
	s := newStream("")
	fail := func(version, conversation, call string) {
		s.labels.ServiceVersion, s.labels.Conversation = version, conversation
		h := []msg{system("You are a planner."), user("read " + call)}
		s.ok(assistant("", call+" read_file"), h...)
		s.fail(400, orphanText, append(h, assistant(""), tool(call, "PORT=80"))...)
		s.advance(time.Minute)
	}
	s.labels.Stage = "Planner"
	s.labels.ServiceVersion, s.labels.Conversation = "1.3.0", "clean"
	s.ok(assistant("hello"), system("You are a planner."), user("hi"))
	fail("1.4.0", "c1", "call_1")
	fail("1.5.0", "c2", "call_2")
	out := run(t, analyzer.Default(), s.steps)
	var got []analyzer.Example
	for _, y := range out.Tallies {
		got = append(got, y.Examples...)
	}
	if len(got) != 4 || got[0].Finding || !got[1].Finding {
		t.Fatalf("%d examples, want a failed call and a finding, twice: %+v", len(got), got)
	}
	for _, x := range got {
		if x.FirstVersion != "1.4.0" || x.LastClean != "1.3.0" || x.FirstAt != got[0].PublishedAt {
			t.Errorf("%s: first in %q at %d, last clean %q", x.Conversation, x.FirstVersion, x.FirstAt, x.LastClean)
		}
	}
}

// Every finding that is counted has an example. A signal about a failed call has the cause of the call, its error text and the
// ledger's entry of the failure. All this is the same after a restart at any event.
func TestFindingExamples(t *testing.T) {
	s := newStream("c0")
	s.labels.ServiceVersion = "1.3.0"
	s.ok(assistant("hello"), hello...)
	s.labels.ServiceVersion = "1.4.0"
	h := []msg{user("read call_1")}
	s.labels.Conversation, s.labels.Run = "c1", "r1"
	s.run("started")
	s.ok(assistant("", "call_1 read_file"), h...)
	s.fail(400, orphanText, append(h, assistant(""), tool("call_1", "PORT=80"))...)
	s.run("ok") // masked_failure
	s.labels.Conversation, s.labels.Run = "c2", ""
	for range 3 { // retry_storm, and conversation_ended_on_error
		s.fail(400, orphanText, user("where is order 7"), tool("call_7", "on its way"))
	}
	s.advance(time.Hour)
	want := []string{
		"orphan_tool_reply  tool_calls_dropped_on_save c1 1.4.0 1.3.0 Save the whol",
		"masked_failure orphan_tool_reply tool_calls_dropped_on_save c1 1.4.0 1.3.0 Let an error ",
		"orphan_tool_reply  unknown_no_history c2 1.4.0 1.3.0 Store and res",
		"retry_storm orphan_tool_reply unknown_no_history c2 1.4.0 1.3.0 Do not retry ",
		"conversation_ended_on_error orphan_tool_reply unknown_no_history c2 1.4.0 1.3.0 Check what th",
	}
	for k := range s.steps {
		var got []string
		for _, y := range counted(restarted(t, s.steps, k)) {
			findings := uint64(0)
			for _, c := range y.Counts {
				if c.Metric == analyzer.MetricFindings {
					findings += c.N
				}
			}
			for _, x := range y.Examples {
				if !x.Finding {
					continue
				}
				findings--
				got = append(got, fmt.Sprintf("%s %s %s %s %s %s %.13s", x.Rule, x.Labels["cause"], x.Labels["root_cause"], x.Conversation, x.FirstVersion, x.LastClean, x.Fix))
				if x.Exchange == "" || x.Summary == "" || x.Evidence == "" || x.FirstAt == 0 || x.PublishedAt == 0 || x.Status != 400 || x.ErrorText == "" || x.Labels["rule"] != x.Rule {
					t.Errorf("example %+v", x)
				}
			}
			must.Equal(t, findings, 0, "second %d: findings have no example", y.Second)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("stopped after %d events (-want +got):\n%s", k, diff)
		}
	}
}
