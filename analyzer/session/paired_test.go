package session_test

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestPaired(t *testing.T) {
	const (
		a      = `{"type":"tool_use","id":"toolu_a","name":"f","input":{}}`
		b      = `{"type":"tool_use","id":"toolu_b","name":"f","input":{}}`
		text   = `{"type":"text","text":"Going on."}`
		replyA = `{"type":"tool_result","tool_use_id":"toolu_a","content":"ok"}`
		replyB = `{"type":"tool_result","tool_use_id":"toolu_b","content":"ok"}`
	)
	f := func(errorText, calls string, ok, mixed, split bool, replies ...string) {
		t.Helper()
		body := `{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[` + calls + `]}`
		for _, r := range replies {
			body += `,{"role":"user","content":[` + r + `]}`
		}
		body += `]}`
		var r facts.Request
		must.Do(t, facts.ScanRequest(wire.Anthropic, []byte(body), &r))
		p, found := session.PairedIn(&r, []byte(body), wire.Target{Dialect: wire.Anthropic})([]byte(errorText))
		if found != ok || p.Mixed != mixed || p.Split != split || ok && (p.Call != 1 || p.Reply != 2) {
			t.Errorf("%s: %+v, %v", body, p, found)
		}
	}
	f("without `tool_result`: toolu_a.", a, true, false, false, replyA)
	f("without `tool_result`: toolu_a, toolu_b. Each", a+" , "+b, true, false, false, replyA+","+replyB)
	f("without `tool_result`: toolu_a", a+","+text+","+b, true, true, false, replyA+","+replyB)
	f("without `tool_result`: toolu_a", a+","+text, true, true, false, replyA)
	f("without `tool_result`: toolu_a", a+","+b, true, false, true, replyA, replyB)
	f("without `tool_result`: toolu_a, toolu_b", a+","+b, false, false, false, replyA) // one is missing
	f("without `tool_result`: toolu_x", a, false, false, false, replyA)                // of another request
	f("without `tool_result`", a, false, false, false, replyA)
}
