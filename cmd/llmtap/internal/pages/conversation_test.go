package pages

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/show"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// The messages of an exchange are linked, and its findings are in the order of their importance.
func TestDescribeExchange(t *testing.T) {
	e := &show.Exchange{
		Exchange: stored.Exchange{ID: "x1", Status: 400, Dialect: "openai_chat"},
		Messages: []string{
			`{"role":"user","content":"q"}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"k84d8e2ef713e31d4\":\"~9:ac71f2eb95ef6312\"}"}}]}`,
			`{"role":"tool","tool_call_id":"c1","content":"ok"}`,
			`{"role":"tool","tool_call_id":"c2","content":"~12:0123456789abcdef"}`,
			``,
			`[1]`,
		},
		Answer:   `{"choices":[{"message":{"role":"assistant","content":"done"}}]}`,
		Findings: []show.Finding{{Finding: stored.Finding{Rule: "late_tool_reply", Severity: "lenient"}}, {Finding: stored.Finding{Rule: "orphan_tool_reply", Severity: "reject", Message: 3, Status: 400}}},
		Earlier:  []show.Finding{{Finding: stored.Finding{Rule: "missing_tool_reply", Severity: "reject", Exchange: "x0"}}},
	}
	asked := time.Unix(1, 0)
	out := describeExchange(e, map[string]show.Timing{"c1": {AskedAt: asked, AnsweredAt: asked.Add(1500 * time.Millisecond)}})
	call, reply, other := out.Messages[1].Parts[1], out.Messages[2].Parts[0], out.Messages[3].Parts[0]
	if call.Partner != 2 || call.Timing != "reply sent 1.5 s after the call" || reply.Partner != 1 || reply.Name != "f" {
		t.Errorf("call %+v, reply %+v", call, reply)
	}
	must.Equal(t, call.Text, "{…: (9 bytes)}", "arguments as a shape")
	if other.Partner != -1 || !other.Shaped || other.Text != "(12 bytes)" || out.Shapes == "" {
		t.Errorf("shaped reply %+v", other)
	}
	if out.Messages[4].Stored || !out.Messages[5].Stored || out.Messages[5].Parts[0].Text != "[1]" {
		t.Errorf("messages %+v", out.Messages[4:])
	}
	if len(out.Answer) != 1 || out.Answer[0].Parts[0].Text != "done" {
		t.Errorf("answer %+v", out.Answer)
	}
	got := ""
	for _, f := range out.Findings {
		got += fmt.Sprint(f.Rule, " ", f.Breaks(), " ", f.Verdict(), f.Since, "; ")
	}
	must.Equal(t, got, "orphan_tool_reply true rejected; late_tool_reply false accepted here, rejected elsewhere; missing_tool_reply true would be rejectedx0; ", "findings")
}

func TestTiming(t *testing.T) {
	at := time.Unix(1, 0)
	f := func(c show.Timing, want string) {
		t.Helper()
		must.Equal(t, timing(c), want, "%+v", c)
	}
	f(show.Timing{}, "")
	f(show.Timing{AskedAt: at}, "")
	f(show.Timing{AskedAt: at, AnsweredAt: at.Add(time.Microsecond)}, "reply sent 0.001 s after the call")
	f(show.Timing{AskedAt: at, AnsweredAt: at.Add(time.Minute), StartedAt: at, EndedAt: at.Add(250 * time.Millisecond), Status: "ok"}, "ok, the tool took 0.25 s")
}

func TestUnavailable(t *testing.T) {
	c := Conversations{func() (*clickhouse.Sink, error) { return nil, errors.New("ClickHouse is down") }}
	_, _, err := c.Find(context.Background(), "x")
	must.Is(t, err, web.ErrUnavailable)
	for _, known := range []error{show.ErrUnknown, show.ErrAmbiguous} {
		must.Is(t, sourceError(fmt.Errorf("%q %w", "x", known)), web.ErrNotFound)
	}
}
