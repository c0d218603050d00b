package analyzer_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// recording returns the events of an import whose rows depend on the memory: the second turn of a conversation precedes its
// first, and two conversations have the same short call id.
func recording(conversation string) *stream {
	s := newStream(conversation)
	s.labels.Agent = ""
	call := assistant("", "call_0123456789abcdef read_file")
	s.ok(assistant("The port is eighty, says the file config.py."), user("read config.py"), call, tool("call_0123456789abcdef", "PORT=80"))
	s.ok(call, user("read config.py"))
	s.fail(400, orphanText, user("read config.py"), assistant(""), tool("call_0123456789abcdef", "PORT=80"))
	for _, path := range []string{"a.py", "b.py"} {
		first := []msg{system(path), user("read it")}
		s.ok(assistant("", "call_1 read_file"), first...)
		s.fail(400, missingText, append(first, assistant("", "call_1 read_file"), user("well?"))...)
		s.fail(400, orphanText, append(first, assistant(""), tool("call_1", "x"))...)
	}
	return s
}

// imported appends s to the steps of a stream as import instance, at stream time at.
func imported(steps []step, s *stream, instance string, at time.Time) []step {
	var seq uint64
	if n := len(steps); n > 0 {
		seq = steps[n-1].at.Seq
	}
	for i := range s.steps {
		ev := *s.steps[i].ev
		ev.Origin, ev.Instance = event.OriginImport, instance
		seq++
		steps = append(steps, step{&ev, analyzer.Position{Seq: seq, Time: at.Add(time.Duration(i) * time.Millisecond)}})
	}
	return steps
}

// versions ignores what differs between two imports of one file.
var versions = cmp.Options{
	cmpopts.IgnoreFields(analyzer.Exchange{}, "Seq", "StoredAt", "Instance"),
	cmpopts.IgnoreFields(analyzer.Finding{}, "Seq", "StoredAt"),
	cmpopts.IgnoreFields(analyzer.ToolCall{}, "Seq", "StoredAt"),
}

func TestImportedTwice(t *testing.T) {
	f := func(conversation string, pause time.Duration) {
		t.Helper()
		s := recording(conversation)
		first := imported(nil, s, "one", epoch)
		once := run(t, analyzer.Default(), first)
		twice := run(t, analyzer.Default(), imported(first, s, "two", epoch.Add(pause)))
		e1, f1, c1 := latest(once)
		e2, f2, c2 := latest(twice)
		if len(e1) != 9 || len(f1) < 4 || len(c1) != 3 {
			t.Fatalf("%d exchanges, %d findings, %d calls: the recording shows too little", len(e1), len(f1), len(c1))
		}
		must.Agree(t, cmp.Diff([]any{e1, f1, c1}, []any{e2, f2, c2}, versions), "conversation", conversation, "imported again after", pause)
		for _, tally := range twice.Tallies {
			if len(tally.Counts) > 0 || len(tally.Examples) > 0 {
				t.Errorf("counted: %+v", tally)
			}
		}
		for _, c := range c2 {
			if c.AskedAt.After(s.now) || c.AnsweredAt.After(s.now) {
				t.Errorf("%s: the time is not that of the recording: %v, %v", c.CallID, c.AskedAt, c.AnsweredAt)
			}
		}
	}
	f("", time.Second)
	f("c1", time.Second)
	f("", 3*time.Minute)
	f("", 29*time.Minute)
	f("", 24*time.Hour) // another day: the sort keys of the rows must not move
	f("c1", 24*time.Hour)
}

// An import that was interrupted anywhere is completed by the next one.
func TestImportedAgainAfterBreak(t *testing.T) {
	s := recording("")
	whole := imported(nil, s, "one", epoch)
	e1, f1, c1 := latest(run(t, analyzer.Default(), whole))
	for n := range whole {
		e2, f2, c2 := latest(run(t, analyzer.Default(), imported(slices.Clone(whole[:n]), s, "two", epoch.Add(time.Minute))))
		must.Agree(t, cmp.Diff([]any{e1, f1, c1}, []any{e2, f2, c2}, versions), "broken off after", n, "events")
	}
}

// Two concurrent imports, message by message, do not affect each other.
func TestImportsInterleaved(t *testing.T) {
	s := recording("")
	one, two := imported(nil, s, "one", epoch), imported(nil, s, "two", epoch)
	var both []step
	for i := range one {
		both = append(both, one[i], two[i])
	}
	for i := range both {
		both[i].at.Seq = uint64(i + 1)
	}
	e1, f1, c1 := latest(run(t, analyzer.Default(), one))
	e2, f2, c2 := latest(run(t, analyzer.Default(), both))
	must.Agree(t, cmp.Diff([]any{e1, f1, c1}, []any{e2, f2, c2}, versions))
}

// Importing a recording of a live conversation does not change the findings of the live one.
func TestImportLeavesLiveTrafficAlone(t *testing.T) {
	live := recording("c1")
	want := run(t, analyzer.Default(), live.steps)
	record := recording("c1")
	for i := range record.steps {
		record.steps[i].ev.Exchange = "imported-" + record.steps[i].ev.Exchange
	}
	half := len(live.steps) / 2
	steps := imported(slices.Clone(live.steps[:half]), record, "one", live.steps[half-1].at.Time)
	for _, s := range live.steps[half:] {
		s.at.Seq += uint64(len(record.steps))
		steps = append(steps, s)
	}
	got := run(t, analyzer.Default(), steps)
	e1, _, c1 := latest(want)
	e2, _, c2 := latest(got)
	maps.DeleteFunc(e2, func(_ string, e analyzer.Exchange) bool { return e.Origin == event.OriginImport })
	maps.DeleteFunc(c2, func(_ string, c analyzer.ToolCall) bool { return e1[c.Exchange].ID == "" })
	must.Agree(t, cmp.Diff([]any{e1, c1}, []any{e2, c2}, versions))
	must.Agree(t, cmp.Diff(counts(want), counts(got)), "tallies")
}

// An import that is interrupted inside an exchange adds nothing about it: neither a missing answer, nor less than the import
// before.
func TestInterruptedImport(t *testing.T) {
	s := recording("")
	first := imported(nil, s, "one", epoch)
	want, _, _ := latest(run(t, analyzer.Default(), first))
	part := *first[0].ev
	part.Instance, part.Exchange, part.Part, part.Parts = "two", "x-parts", 1, 2
	for _, cut := range [][]step{
		imported(nil, &stream{steps: s.steps[:1]}, "two", epoch.Add(time.Minute)),  // no response
		imported(nil, &stream{steps: s.steps[1:2]}, "two", epoch.Add(time.Minute)), // no request
		{{ev: &part}}, // half a request
	} {
		steps := slices.Clone(first)
		for _, c := range cut {
			c.at = analyzer.Position{Seq: uint64(len(steps) + 1), Time: epoch.Add(time.Minute)}
			steps = append(steps, c)
		}
		steps = append(steps, step{at: analyzer.Position{Time: epoch.Add(20 * time.Minute)}})
		got, _, _ := latest(run(t, analyzer.Default(), steps))
		must.Agree(t, cmp.Diff(want, got, versions))
	}
}
