package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// llmtap show --tool and the query tool_replies print arguments and reply of a call in every dialect.
func TestToolReplies(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	s := showTest{newCommandTest(t)}
	const (
		chatCall    = `{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]}`
		claudeCall  = `{"type":"tool_use","id":"call_1","name":"read","input":{"path":"a"}}`
		bedrockCall = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"read","input":{"path":"a"}}}]}`
		geminiCall  = `{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a"}}}]}`
		itemCall    = `{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a\"}"}`
		user        = `{"role":"user","content":"Which port?"}`
	)
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	for _, c := range []struct{ name, url, request, answer, next string }{
		{
			"chat", chatURL, chat(user), `{"choices":[{"message":` + chatCall + `,"finish_reason":"tool_calls"}]}`,
			chat(user + "," + chatCall + `,{"role":"tool","tool_call_id":"call_1","content":"PORT = 80"}`),
		},
		{
			"dropped", chatURL, chat(user), `{"choices":[{"message":` + chatCall + `,"finish_reason":"tool_calls"}]}`,
			chat(user + `,{"role":"assistant","content":""},{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"PORT = 80"}]}`),
		},
		{
			"anthropic", anthropicURL, `{"model":"m","max_tokens":9,"messages":[` + user + `]}`, `{"type":"message","role":"assistant","content":[` + claudeCall + `],"stop_reason":"tool_use"}`,
			`{"model":"m","max_tokens":9,"messages":[` + user + `,{"role":"assistant","content":[` + claudeCall + `]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"PORT = 80"}]}]}`,
		},
		{
			"gemini", geminiURL, `{"contents":[{"role":"user","parts":[{"text":"Which port?"}]}]}`, `{"candidates":[{"content":` + geminiCall + `,"finishReason":"STOP"}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"Which port?"}]},` + geminiCall + `,{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"text":"PORT = 80"}}}]}]}`,
		},
		{
			"bedrock", bedrockURL, `{"messages":[{"role":"user","content":[{"text":"Which port?"}]}]}`, `{"output":{"message":` + bedrockCall + `},"stopReason":"tool_use"}`,
			`{"messages":[{"role":"user","content":[{"text":"Which port?"}]},` + bedrockCall + `,{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"PORT = 80"}]}}]}]}`,
		},
		{
			"responses", responsesURL, `{"model":"m","input":[` + user + `]}`, `{"object":"response","status":"completed","output":[` + itemCall + `]}`,
			`{"model":"m","input":[` + user + `,` + itemCall + `,{"type":"function_call_output","call_id":"call_1","output":"PORT = 80"}]}`,
		},
		{"open", chatURL, chat(user), `{"choices":[{"message":` + chatCall + `,"finish_reason":"tool_calls"}]}`, ""},
	} {
		s.send(c.name, c.url, event.CaptureFull, 200, c.request, c.answer)
		if c.next != "" {
			s.send(c.name, c.url, event.CaptureFull, 200, c.next, `{}`)
		}
	}
	s.waitStored(s.n)
	replied := func(name, arguments, reply string) {
		t.Helper()
		want := "PORT = 80"
		if name == "open" {
			want = ""
		}
		if strings.ReplaceAll(arguments, " ", "") != `{"path":"a"}` || !strings.Contains(reply, want) || want == "" && reply != "" {
			t.Errorf("%s: arguments %s, reply %s", name, arguments, reply)
		}
	}

	out, errs, code := s.llmtap("query", "tool_replies", "--tool", "read", "--format", "jsonl")
	if code != command.ExitOK {
		t.Fatalf("exit code %d %s", code, errs)
	}
	found := map[string]bool{}
	for line := range strings.Lines(out) {
		var row struct {
			Conversation string `json:"conversation_id"`
			Arguments    string `json:"called_with"`
			Returned     string
		}
		must.Do(t, json.Unmarshal([]byte(line), &row))
		found[row.Conversation] = true
		replied(row.Conversation, row.Arguments, row.Returned)
	}
	for _, name := range []string{"chat", "dropped", "anthropic", "gemini", "bedrock", "responses", "open"} {
		if !found[name] {
			t.Errorf("tool_replies: no row of %s in\n%s", name, out)
		}
		var calls []struct{ Arguments, Reply string }
		out, errs, code := s.show(name, "--tool", "read", "--format", "json")
		if err := json.Unmarshal([]byte(out), &calls); code != command.ExitOK || err != nil || len(calls) != 1 {
			t.Errorf("%s: exit code %d, %v, %s\n%s", name, code, err, errs, out)
			continue
		}
		replied(name, calls[0].Arguments, calls[0].Reply)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a reply":     {[]string{"chat", "--tool", "call_1"}, command.ExitOK, "PORT = 80"},
		"by exchange": {[]string{"019aa0b0-0001-7000-8000-00000000cafe", "--tool", "read"}, command.ExitOK, "1 call of read in conversation chat"},
		"no reply":    {[]string{"open", "--tool", "read"}, command.ExitOK, "no reply"},
		"unknown":     {[]string{"chat", "--tool", "write"}, command.ExitFailed, "the tools called are read"},
		"as a body":   {[]string{"chat", "--tool", "read", "--format", "body"}, command.ExitBadInput, "without --tool"},
		"CSV":         {[]string{"chat", "--tool", "read", "--format", "csv"}, command.ExitOK, "asked_at,exchange_id,tool_name"},
	} {
		if out, errs, code := s.show(c.args...); code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", name, code, c.want, out, errs)
		}
	}
}
