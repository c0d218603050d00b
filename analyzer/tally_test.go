package analyzer_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestTally(t *testing.T) {
	s := newStream("c1")
	s.labels.Stage = "Planner"
	h := []msg{system("You are a planner."), user("read config.py")}
	s.ok(assistant("", "call_1 read_file"), h...) // completed at second 2
	id := s.fail(400, orphanText, append(h, assistant(""), tool("call_1", "PORT=80"))...)
	s.advance(1500 * time.Millisecond) // 2 s behind: nothing closes
	s.advance(1500 * time.Millisecond)
	cfg := analyzer.Default()
	cfg.Partition, cfg.Epoch = 3, 9
	out := run(t, cfg, s.steps)

	base := func(more ...string) map[string]string {
		m := map[string]string{
			"service": "builder", "service_version": "1.4.0", "environment": "prod", "agent": "planner", "stage": "Planner",
			"provider": "deepseek", "model": "deepseek-chat",
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	failed := base("status", "400", "cause", "orphan_tool_reply", "root_cause", "tool_calls_dropped_on_save")
	second := epoch.Unix()
	f := out.Findings[0]
	measured := &analyzer.Measured{Duration: distOf(1000), InputTokens: distOf(100), OutputTokens: distOf(7), History: distOf(2), Cost: distOf(31)}
	want := []analyzer.Tally{
		{Partition: 3, Epoch: 9, Second: second + 1}, // the request; the start of the stream is not waited for
		{Partition: 3, Epoch: 9, Second: second + 2, Counts: []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: base(), N: 1, Measured: measured}}},
		{Partition: 3, Epoch: 9, Second: second + 3},
		{
			Partition: 3, Epoch: 9, Second: second + 4, Counts: []analyzer.Count{
				{Metric: analyzer.MetricCalls, Labels: base(), N: 1},
				{Metric: analyzer.MetricFailed, Labels: failed, N: 1},
				{Metric: analyzer.MetricFindings, Labels: base("rule", "orphan_tool_reply", "severity", "reject", "root_cause", "tool_calls_dropped_on_save"), N: 1},
				{Metric: analyzer.MetricNew, Labels: failed, N: 1},
			},
			Examples: []analyzer.Example{{
				Labels: failed, Exchange: id, Conversation: "c1", Full: true, Status: 400, ErrorText: out.Exchanges[1].ErrorText,
				Rule: "orphan_tool_reply", Message: 3, ToolCallID: "call_1", Summary: f.Summary, Evidence: f.Evidence, Fix: f.Fix,
				PublishedAt: s.steps[3].at.Time.UnixNano(), FirstVersion: "1.4.0", FirstAt: s.steps[3].at.Time.UnixNano(),
				ToolName: "read_file",
			}},
		},
	}
	example := want[3].Examples[0] // the finding has the same evidence
	example.Labels, example.Finding = want[3].Counts[2].Labels, true
	want[3].Examples = append(want[3].Examples, example)
	must.Agree(t, cmp.Diff(want, out.Tallies, cmpopts.EquateEmpty()))

	for _, y := range out.Tallies {
		b := must.Get(json.Marshal(y))(t)
		var back analyzer.Tally
		if err := json.Unmarshal(b, &back); err != nil || !cmp.Equal(back, y, cmpopts.EquateEmpty()) {
			t.Errorf("JSON does not round-trip: %v %s", err, b)
		}
	}
}

// counts sums N over all tallies by metric.
func counts(out *analyzer.Output) map[string]uint64 {
	return countsBy(out, func(c *analyzer.Count) string { return c.Metric })
}

// countsBy sums N over all tallies by what key returns, unless it is empty.
func countsBy(out *analyzer.Output, key func(*analyzer.Count) string) map[string]uint64 {
	m := map[string]uint64{}
	for _, t := range out.Tallies {
		for _, c := range t.Counts {
			if k := key(&c); k != "" {
				m[k] += c.N
			}
		}
	}
	return m
}

// signalCount returns how often the tallies count the findings of a rule.
func signalCount(out *analyzer.Output, rule string) uint64 {
	return countsBy(out, func(c *analyzer.Count) string { return c.Metric + " " + c.Labels["rule"] })[analyzer.MetricFindings+" "+rule]
}

func TestTallyCountsApart(t *testing.T) {
	f := func(name string, change func(q *event.Event), want map[string]uint64) {
		t.Helper()
		s := newStream("c1")
		id := s.exchange()
		q := s.request(id, user("q"), tool("call_1", "x"))
		r := s.response(id, 400, fault(orphanText))
		change(q)
		r.Origin = q.Origin
		s.advance(10 * time.Second)
		must.Agree(t, cmp.Diff(want, counts(run(t, analyzer.Default(), s.steps))), name)
	}
	f("a call", func(*event.Event) {}, map[string]uint64{analyzer.MetricCalls: 1, analyzer.MetricFailed: 1, analyzer.MetricFindings: 1, analyzer.MetricNew: 1})
	f("an SDK's retry", func(q *event.Event) { q.Retry = 2 }, map[string]uint64{analyzer.MetricRetries: 1, analyzer.MetricFindings: 1})
	f("an imported call", func(q *event.Event) { q.Origin = event.OriginImport }, map[string]uint64{})
}

// Seconds are published once, in order, and continue when nothing happens.
func TestTallySeconds(t *testing.T) {
	s := newStream("c1")
	s.ok(assistant("hello"), hello...)
	for range 10 {
		s.advance(400 * time.Millisecond)
	}
	s.advance(time.Hour)
	s.ok(assistant("hello"), hello...)
	s.now = s.now.Add(-10 * time.Second) // an event with an older stream time
	s.ok(assistant("hello"), hello...)
	s.advance(time.Minute)
	out := run(t, analyzer.Default(), s.steps)
	var seconds []int64
	for i, y := range out.Tallies {
		seconds = append(seconds, y.Second-epoch.Unix())
		if i > 0 && y.Second <= out.Tallies[i-1].Second {
			t.Errorf("second %d after %d", y.Second, out.Tallies[i-1].Second)
		}
	}
	must.Agree(t, cmp.Diff([]int64{1, 2, 3, 3603, 3606, 3607, 3608, 3657}, seconds))
	must.Equal(t, counts(out)[analyzer.MetricCalls], 3, "calls")
}

func TestTallyLabelsAreLimited(t *testing.T) {
	cfg := analyzer.Default()
	cfg.MaxLabelValues = 2
	s := newStream("c1")
	for i := range 5 {
		s.labels.ServiceVersion = fmt.Sprintf("1.%d", i)
		s.ok(assistant("hello"), hello...)
	}
	s.now = s.now.Add(time.Hour) // a new hour, new values
	s.labels.ServiceVersion = "2.0"
	s.ok(assistant("hello"), hello...)
	s.advance(10 * time.Second)
	got := countsBy(run(t, cfg, s.steps), func(c *analyzer.Count) string { return c.Labels["service_version"] })
	must.Agree(t, cmp.Diff(map[string]uint64{"1.0": 1, "1.1": 1, "other": 3, "2.0": 1}, got))
}

// The newest failed exchange of a second represents all of its kind.
func TestTallyExamples(t *testing.T) {
	s := newStream("c1")
	var ids []string
	for range 3 {
		ids = append(ids, s.fail(400, orphanText, user("q"), tool("call_1", "x")))
	}
	ids = append(ids, s.fail(429, "Rate limit reached", hello...))
	for i := range s.steps {
		s.steps[i].at.Time = epoch.Add(time.Duration(i) * time.Millisecond)
	}
	s.advance(10 * time.Second)
	var got []string
	for _, y := range run(t, analyzer.Default(), s.steps).Tallies {
		for _, ex := range y.Examples {
			if !ex.Finding {
				got = append(got, ex.Exchange+" "+ex.Rule)
			}
			if ex.Fix == "" {
				t.Errorf("the example %s has no fix", ex.Exchange)
			}
		}
	}
	must.Agree(t, cmp.Diff([]string{ids[2] + " orphan_tool_reply", ids[3] + " "}, got))
}

// A cause is new once per stage, whichever process reads it; retries of an SDK and degraded exchanges never are.
func TestNewCauses(t *testing.T) {
	s := newStream("c1")
	s.fail(400, orphanText, orphan...)
	s.labels.Conversation = "c2"
	s.fail(400, orphanText, orphan...)
	s.labels.Stage, s.labels.Conversation = "executor", "c3"
	s.fail(400, orphanText, orphan...)
	s.labels.Conversation = "c4"
	s.fail(500, "internal error", hello...)
	s.labels.Conversation = "c5"
	id := s.exchange()
	s.request(id, hello...).Degraded = true
	s.response(id, 402, fault("Insufficient Balance")).Degraded = true
	s.advance(10 * time.Second)
	want := []string{"planner orphan_tool_reply", "executor orphan_tool_reply", "executor server_error"}
	for k := range len(s.steps) {
		var got []string
		out := restarted(t, s.steps, k)
		for _, y := range counted(out) {
			for _, c := range y.Counts {
				if c.Metric == analyzer.MetricNew {
					got = append(got, c.Labels["stage"]+" "+c.Labels["cause"])
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("stopped after %d events (-want +got):\n%s", k, diff)
		}
	}
}
