package analyzer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Requests that name the answer before them and contain only what follows it, or all outputs of the history.
func TestRootCausesAfterNamedAnswer(t *testing.T) {
	call := func(id, name string) msg {
		return msg{"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}
	}
	output := func(id string) msg { return msg{"type": "function_call_output", "call_id": id, "output": "ok"} }
	f := func(name string, play func(s *scene, next func(answer any, items ...msg)), want ...string) {
		t.Helper()
		s := newScene(responsesURL)
		play(s, func(answer any, items ...msg) {
			id := s.begin(items...)
			s.end(id, answer)
			s.previous = "resp_" + id
		})
		must.Agree(t, cmp.Diff(want, s.causes(t), cmpopts.SortSlices(func(a, b string) bool { return a < b }), cmpopts.EquateEmpty()), name)
	}
	both, none := []msg{call("call_1", "f"), call("call_2", "g")}, []msg{}

	f("the replies only", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next(none, output("call_1"), output("call_2"))
	})
	f("the replies of older turns again", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next([]msg{call("call_3", "f")}, user("go"), output("call_1"), output("call_2"))
		next(none, user("go"), output("call_1"), output("call_2"), output("call_3"))
	})
	f("the calls again under other ids", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next("x", call("call_7", "f"), call("call_8", "g"), output("call_1"), output("call_2"))
	}, "missing_tool_reply call_7: id_rewritten high", "missing_tool_reply call_8: id_rewritten high")
	f("replies under other ids", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next("x", call("call_1", "f"), call("call_2", "g"), output("call_7"), output("call_8"))
	}, "missing_tool_reply call_1: id_rewritten high", "missing_tool_reply call_2: id_rewritten high",
		"unknown_tool_call_id call_7: id_rewritten high", "unknown_tool_call_id call_8: id_rewritten high", "previous_response_unresolved call_1:")
	f("only replies, under other ids", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next("x", output("call_7"), output("call_8"))
	}, "orphan_tool_reply call_7: unknown_no_history low", "orphan_tool_reply call_8: unknown_no_history low",
		"previous_response_unresolved call_1: id_rewritten medium", "previous_response_unresolved call_2: id_rewritten medium")
	f("both under other ids", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next("x", call("call_5", "f"), call("call_6", "g"), output("call_7"), output("call_8"))
	}, "missing_tool_reply call_5: id_rewritten high", "missing_tool_reply call_6: id_rewritten high",
		"previous_response_unresolved call_1: id_rewritten high", "previous_response_unresolved call_2: id_rewritten high",
		"unknown_tool_call_id call_7: id_rewritten high", "unknown_tool_call_id call_8: id_rewritten high")
	f("a reply is missing", func(_ *scene, next func(any, ...msg)) {
		next(both, user("go"))
		next("x", call("call_1", "f"), call("call_2", "g"), output("call_1"))
	}, "missing_tool_reply call_2: tool_skipped medium", "previous_response_unresolved call_1:")
	f("a call of a turn before the named answer", func(_ *scene, next func(any, ...msg)) {
		next([]msg{call("call_1", "f")}, user("go"))
		next([]msg{call("call_2", "g")}, output("call_1"))
		next("x", call("call_1", "f"), call("call_2", "g"), output("call_2"))
	}, "missing_tool_reply call_1: unknown_no_history low", "previous_response_unresolved call_2:")
}
