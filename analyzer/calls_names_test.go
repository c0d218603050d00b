package analyzer_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Gemini's calls have no ids: they are paired by name and order.
func TestCallsWithoutIDs(t *testing.T) {
	call, reply := msg{"functionCall": msg{"name": "book", "args": msg{}}}, msg{"functionResponse": msg{"name": "book", "response": msg{"result": "ok"}}}
	content := func(role string, parts ...msg) msg { return msg{"role": role, "parts": parts} }
	ask := content("user", msg{"text": "book two tables"})
	f := func(name string, history []msg, want ...string) {
		t.Helper()
		s := newStream("c1")
		s.url = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
		exchange := func(contents []msg, parts ...msg) {
			id := s.exchange()
			s.request(id).Body = body(msg{"contents": contents})
			s.response(id, 200, body(msg{"candidates": []msg{{"content": content("model", parts...), "finishReason": "STOP"}}}))
		}
		exchange([]msg{ask}, call, call)
		exchange(append([]msg{ask}, history...), msg{"text": "done"})
		s.advance(30 * time.Minute)
		must.Agree(t, cmp.Diff(want, final(run(t, analyzer.Default(), s.steps))), name)
	}
	f("both", []msg{content("model", call, call), content("user", reply, reply)}, " book answered", " book answered")
	f("one", []msg{content("model", call, call), content("user", reply)}, " book answered", " book missing")
	f("none", []msg{content("model", call, call), content("user", msg{"text": "well?"})}, " book missing", " book missing")
	f("stopped", nil, " book abandoned", " book abandoned")
	named := func(id string) (c, r msg) {
		return msg{"functionCall": msg{"id": id, "name": "book", "args": msg{}}}, msg{"functionResponse": msg{"id": id, "name": "book", "response": msg{"result": "ok"}}}
	}
	c1, r1 := named("agent-7f3b21aa90c14d55")
	c2, r2 := named("agent-02cd41be77a0e913")
	f("both, under ids of the agent's own", []msg{content("model", c1, c2), content("user", r1, r2)}, " book answered", " book answered")
	f("one, under ids of the agent's own", []msg{content("model", c1, c2), content("user", r1)}, " book answered", " book missing")
}

// Calls of tools that are no functions count under the name of their kind, and those that the provider runs do not count.
func TestCallsOfOtherTools(t *testing.T) {
	ask := msg{"role": "user", "content": "list the files"}
	call := func(kind, id string, more msg) msg {
		m := msg{"type": kind + "_call", "call_id": id}
		maps.Copy(m, more)
		return m
	}
	container := msg{"environment": msg{"type": "container_reference", "container_id": "k"}}
	shell, patch := call("shell", "call_1", msg{"environment": nil, "action": msg{}}), call("apply_patch", "call_2", msg{"operation": msg{}})
	hosted, its := call("shell", "call_3", container), msg{"type": "shell_call_output", "call_id": "call_3", "output": []msg{}}
	listed, patched := msg{"type": "shell_call_output", "call_id": "call_1", "output": []msg{}}, msg{"type": "apply_patch_call_output", "call_id": "call_2", "status": "failed"}
	f := func(name string, history []msg, findings int, want ...string) {
		t.Helper()
		s := newStream("c1")
		s.url = responsesURL
		exchange := func(input []msg, output ...msg) {
			id := s.exchange()
			s.request(id).Body = body(msg{"model": "gpt-5.1", "input": input})
			s.response(id, 200, body(msg{"object": "response", "status": "completed", "output": output}))
		}
		exchange([]msg{ask}, hosted, its, shell, patch)
		exchange(append([]msg{ask}, history...), msg{"type": "message", "role": "assistant", "content": []msg{{"type": "output_text", "text": "done"}}})
		s.advance(30 * time.Minute)
		out := run(t, analyzer.Default(), s.steps)
		must.Agree(t, cmp.Diff(want, final(out)), name)
		_, found, _ := latest(out)
		must.Equal(t, len(found), findings, "%s: findings: %v", name, found)
	}
	f("both answered", []msg{hosted, its, shell, patch, listed, patched}, 0, "call_1 shell answered", "call_2 apply_patch answered")
	// The finding, and that the provider accepted it.
	f("one answered", []msg{hosted, its, shell, patch, listed}, 2, "call_1 shell answered", "call_2 apply_patch missing")
}
