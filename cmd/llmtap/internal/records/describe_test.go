package records

import (
	"encoding/json"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Messages of every dialect are described by role, calls and replies.
func TestDescribe(t *testing.T) {
	f := func(message, want string) {
		t.Helper()
		must.Equal(t, Describe(json.RawMessage(message), 60), want, "%s", message)
	}
	f(`{"role":"user","content":"q"}`, `user       "q"`)
	f(`{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `assistant  ""  calls f (call_1)`)
	f(`{"role":"tool","tool_call_id":"call_1","content":"ok"}`, `tool       answers call_1  "ok"`)
	f(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"},{"type":"text","text":"hi"}]}`, `user       answers toolu_1  "ok"  "hi"`)
	f(`{"role":"assistant","content":[{"type":"thinking","thinking":"…"},{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`, `assistant  [reasoning]  calls f (toolu_1)`)
	f(`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}`, `model      calls f`)
	f(`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}`, `user       answers f  {}`)
	f(`{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]}`, `assistant  calls f (t1)`)
	f(`{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[]}}]}`, `user       answers t1  []`)
	f(`{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}`, `function_call  calls f (call_1)`)
	f(`{"type":"function_call_output","call_id":"call_1","output":"ok"}`, `function_call_output  answers call_1  "ok"`)
	f(`{"type":"reasoning","id":"rs_1"}`, `reasoning  [reasoning]`)
	f(`7`, `7`)
	f(`null`, `null`)
	f(`{"role":"tool","tool_call_id":"\u001b[2J\u009b"}`, `tool       answers \u001b[2J\u009b`)
}
