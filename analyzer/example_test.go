package analyzer_test

import (
	"testing"
	"time"

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
	if len(got) != 2 {
		t.Fatalf("%d examples, want 2", len(got))
	}
	for _, x := range got {
		if x.FirstVersion != "1.4.0" || x.LastClean != "1.3.0" || x.FirstAt != got[0].PublishedAt {
			t.Errorf("%s: first in %q at %d, last clean %q", x.Conversation, x.FirstVersion, x.FirstAt, x.LastClean)
		}
	}
}
