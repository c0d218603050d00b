package analyzer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A request to /responses/compact is judged like one to /responses, and a conversation goes on after it without a finding.
func TestCompact(t *testing.T) {
	call := msg{"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
	output := msg{"type": "function_call_output", "call_id": "call_1", "output": "ok"}
	said := msg{"type": "message", "id": "msg_1", "role": "assistant", "content": []msg{{"type": "output_text", "text": "done"}}}
	compaction := msg{"type": "compaction", "id": "cmp_1", "encrypted_content": "c2Vj"}
	f := func(answer any, compacted []msg, want ...string) {
		t.Helper()
		s := newScene(responsesURL)
		s.at([]msg{call}, user("go"))
		s.at([]msg{said}, user("go"), call, output)
		s.url = responsesURL + "/compact"
		s.at(answer, compacted...)
		s.url = responsesURL
		s.at([]msg{said}, user("go"), compaction, user("and now?"))
		_, findings, _ := latest(run(t, analyzer.Default(), s.steps))
		var got []string
		for _, f := range findings {
			got = append(got, f.Rule+" "+string(f.Severity))
		}
		must.Agree(t, cmp.Diff(want, got, cmpopts.EquateEmpty()), "findings")
	}
	whole := body(msg{"id": "resp_c", "object": "response.compaction", "output": []msg{user("go"), compaction}})
	f(whole, []msg{user("go"), call, output, said})
	f("No tool output found for function call call_1.", []msg{user("go"), call}, "missing_tool_reply reject")
}
