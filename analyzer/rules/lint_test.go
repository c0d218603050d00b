package rules_test

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A request that cannot be judged is an error, not a request without violations.
func TestLint(t *testing.T) {
	f := func(dialect wire.Dialect, body, want string) {
		t.Helper()
		violations, err := rules.Lint(wire.Target{Dialect: dialect, Variant: dialect.Variants()[0]}, []byte(body))
		if text := errorText(err); text != want || len(violations) > 0 {
			t.Errorf("%.80s: %v, %q, want %q", body, violations, text, want)
		}
	}
	user := `{"role":"user","content":"q"}`
	f(wire.OpenAIChat, `{"messages":[`+user+`]}`, "")
	f(wire.OpenAIResponses, `{"input":"q"}`, "")
	f(wire.OpenAIChat, `{"messages":[]}`, "the request has no messages")
	f(wire.OpenAIChat, `{"messages":"q"}`, "the request has no messages")
	f(wire.OpenAIChat, `{"input":"q"}`, "the request has no messages")
	f(wire.OpenAIChat, ``, "read request: body is not the JSON value expected")
	f(wire.OpenAIChat, `{"messages":[`+user, "read request: body ends inside its JSON")
	f(wire.OpenAIChat, `{"messages":[`+strings.Repeat(user+",", 1<<16)+user+`]}`, "too many messages, calls, replies or tools: 1 of them were not judged")
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Accepted reports what a provider would reject, and what cannot be judged.
func TestAccepted(t *testing.T) {
	f := func(messages, want string) {
		t.Helper()
		err := rules.Accepted(wire.Target{Dialect: wire.OpenAIChat, Variant: wire.DeepSeek}, []byte(`{"messages":[`+messages+`]}`))
		if text := errorText(err); want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", messages, text, want)
		}
	}
	user := `{"role":"user","content":"q"}`
	f(user, "")
	f(user+`,{"role":"assistant","content":"a"},`+user+","+user, "") // at most a style violation
	f(user+`,{"role":"assistant","content":""},{"role":"tool","tool_call_id":"call_1","content":"ok"}`,
		"orphan_tool_reply: message 2 (tool) answers call_1, which no assistant message in this request called; message 1 is an assistant message without tool_calls; fix: ")
	f("", "the request has no messages")
}
