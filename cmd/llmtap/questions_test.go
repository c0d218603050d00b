package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// call publishes a call of a version at a time. It fails if its tool message answers no call.
func (c *commandTest) call(version, prompt string, age time.Duration, broken bool, answer string) {
	c.t.Helper()
	status, history := 200, `{"role":"user","content":"plan"}`
	if broken {
		status, answer = 400, `{"error":{"message":"Messages with role 'tool' must be a response to a preceding message with 'tool_calls'","type":"invalid_request_error"}}`
		history += `,{"role":"assistant","content":"on it"},{"role":"tool","tool_call_id":"call_1","content":"ok"}`
	}
	request := `{"model":"gpt-5-mini","temperature":0.2,"messages":[{"role":"system","content":"` + prompt + `"},` + history + `]}`
	at := time.Now().Add(-age)
	c.exchange(event.Event{
		Time: at, Capture: event.CaptureFull, Instance: "i" + version, Attrs: map[string]string{"tenant": []string{"globex", "acme"}[c.n%2]}, URL: chatURL,
		Labels: event.Labels{Service: "shop", ServiceVersion: version, Stage: "planner", Conversation: fmt.Sprint("order-", c.n+1), User: event.HashUser(nil, "ann")},
	}, event.Event{Time: at, Status: status, Duration: time.Second}, request, answer)
}

// On call asks ten questions about an incident, each of which one command answers. What a tool returned is in TestShow.
func TestQuestions(t *testing.T) {
	t.Parallel()
	c := newCommandTest(t)
	const answer = `{"id":"x","model":"gpt-5-mini","choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}`
	for i := range 20 {
		c.call("1.0.0", "You plan orders.", 3*time.Hour-time.Duration(i)*time.Second, false, answer)
	}
	must.Do(t, c.pub.Flush(t.Context())) // which version is the first is decided by the order of the stream
	for i := range 20 {                  // no answer reports its usage
		c.call("1.1.0", "You plan orders well.", 150*time.Minute-time.Duration(i)*time.Second, i%2 == 0, strings.Replace(answer, "usage", "x", 1))
	}
	must.Do(t, c.pub.Flush(t.Context()))
	for i := range 30 {
		c.call("1.1.1", "You plan orders well.", time.Hour-time.Duration(i)*time.Second, false, answer)
	}
	c.waitStored(70)
	for _, q := range []struct {
		args string
		want string // line of CSV
	}{
		// Which versions fail?
		{"failures_by_stage", "shop,planner,1.1.0,20,10,50,"},
		{"failures_by_stage", "shop,planner,1.1.1,30,0,0,"},
		// Since when, and whose change?
		{"whose_change", "1.1.0,1.0.0,"},
		{"whose_change", ",shop,planner,orphan_tool_reply,orphan_tool_reply,"},
		// Who is hit?
		{"affected --by user", "user,78352bae17eb6789,10,70,14,"},
		{"affected --by tenant", "tenant,globex,10,35,29,0,10"},
		// Is it over?
		{"is_it_over", "none for 2 h in 31 calls,shop,planner,orphan_tool_reply,"},
		{"is_it_over", `,31,16.3,0,0,0,"[""1.1.1: never in 30 calls"",""1.1.0: none in the last 1 call""]"`},
		// What do the failures cost?
		{"failure_cost", "shop,planner,openai,gpt-5-mini,orphan_tool_reply,10,0,10,,,,"},
		// Which latency has each model, and which provider fails?
		{"providers", "openai,gpt-5-mini,api.openai.com,70,10,14,orphan_tool_reply,[400],"},
		{"providers", ",1,1,1,,100"},
		// How many tokens? 20 answers report no usage, apart from 10 of the failed calls.
		{"usage", "shop,,openai,gpt-5-mini,70,10,0,20,50000,0,0,5000,0.0225,1100,"},
		// What changed besides the version?
		{"what_changed --what system_prompt", ",system prompt changed in 1.1.0 from "},
	} {
		args := append([]string{"query"}, strings.Fields(q.args)...)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "system_prompt", "system prompt")
		}
		for _, filter := range []string{"--service=shop", "--attr=tenant", "--user-name=ann"} {
			out, errs, code := c.llmtap(append([]string{args[0], "--since", "1 day", filter, "--format", "csv"}, args[1:]...)...)
			if code != command.ExitOK || !strings.Contains(out, q.want) {
				t.Errorf("%s %s: exit code %d, no %s in\n%s%s", q.args, filter, code, q.want, out, errs)
			}
		}
	}
	out, errs, code := c.llmtap("query", "causes", "--since", "1 minute", "--until", "30s")
	if want := "The newest stored call began at "; code != command.ExitOK || !strings.Contains(out, want) || !strings.HasPrefix(strings.SplitN(out, "\n\n", 2)[1], "(no rows from ") {
		t.Errorf("no rows: exit code %d, no %q in\n%s%s", code, want, out, errs)
	}
}
