package analyzer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/session"
)

// A violation that is no error at most servers explains the failure of a request whose error text names it.
func TestRefusedAlthoughLenient(t *testing.T) {
	const (
		url     = "http://127.0.0.1:9000/v1/chat/completions"
		orphan  = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
		twice   = "Duplicate value for 'tool_call_id' of call_1 in message[3]"
		unknown = "The server is in a bad mood"
		limit   = "Rate limit reached for this model"
	)
	first, second := assistant("", "call_1 f"), assistant("", "call_2 f", "call_3 f")
	before := []msg{user("u")}
	with := func(more ...msg) []msg { return append(before[:1:1], more...) }
	f := func(name, text string, said msg, history, next []msg, wantCause, wantKnown, wantRoot string) {
		t.Helper()
		s := newScene(url)
		s.at(said, history...)
		s.at(text, next...)
		exchanges, _, _ := latest(run(t, analyzer.Default(), s.steps))
		for _, e := range exchanges {
			if e.Failed && (e.Cause != wantCause || e.CauseKnown != wantKnown || e.RootCause != wantRoot) {
				t.Errorf("%s: cause %s %s, root cause %q, want %s %s, %q", name, e.Cause, e.CauseKnown, e.RootCause, wantCause, wantKnown, wantRoot)
			}
		}
	}
	done := with(first, tool("call_1", "x"))
	lost := with(first, tool("call_1", "x"), assistant("", "call_2 f"), tool("call_2", "y"), tool("call_3", "z"))
	same := with(first, tool("call_1", "x"), tool("call_1", "x"))
	f("one parallel call lost", orphan, second, done, lost, "unknown_tool_call_id", cause.Both, session.CallsDropped)
	f("reply twice", twice, first, before, same, "duplicate_tool_reply", cause.Both, session.DuplicateReply)
	f("text names nothing", unknown, first, before, same, "duplicate_tool_reply", cause.Inferred, session.DuplicateReply)
	f("text names something else", limit, first, before, same, "rate_limit", cause.Stated, "")
}

// A server that nobody knows named a violation: a request with it is predicted to be refused there until one is accepted.
func TestRefusedOnce(t *testing.T) {
	y := newYears()
	y.url = "http://127.0.0.1:9000/v1/chat/completions"
	y.send("builder", "1", "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'", orphan...)
	y.send("builder", "1", "", orphan...)
	y.send("builder", "1", "", orphan...)
	y.advance(10 * time.Second)
	_, findings, _ := latest(run(t, analyzer.Default(), y.steps))
	got := map[string]string{}
	for _, f := range findings {
		if f.Rule == "orphan_tool_reply" {
			got[f.Conversation] = fmt.Sprintf("%s, %s", f.Predicted, f.Severity)
		}
	}
	must.Agree(t, cmp.Diff(map[string]string{"talk 1": "reject, reject", "talk 2": "reject, lenient", "talk 3": "lenient, lenient"}, got), "predicted and severity")
}

// Providers report several defects with the same words. The root cause is that of the violation which the request has.
func TestRootCauseOfOtherRule(t *testing.T) {
	const (
		orphan  = "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
		missing = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)"
		limit   = "Rate limit reached for this model"
	)
	said, ask := assistant("", "call_1 f"), user("u")
	f := func(text string, next []msg, wantCause, wantRoot string) {
		t.Helper()
		s := newScene(deepSeekURL)
		s.at(said, ask)
		s.at(text, next...)
		exchanges, _, _ := latest(run(t, analyzer.Default(), s.steps))
		for _, e := range exchanges {
			if e.Failed && (e.Cause != wantCause || e.RootCause != wantRoot) {
				t.Errorf("%s: cause %s %s, root cause %q, want %s, %q", text, e.Cause, e.CauseKnown, e.RootCause, wantCause, wantRoot)
			}
		}
	}
	late := []msg{ask, said, system("Be brief."), tool("call_1", "x")}
	early := []msg{ask, tool("call_1", "x"), said}
	f(orphan, late, "orphan_tool_reply", session.Interleaved)
	f(orphan, early, "orphan_tool_reply", session.HistoryReordered)
	f(missing, late, "missing_tool_reply", session.Interleaved)
	f(limit, late, "rate_limit", "")
}
