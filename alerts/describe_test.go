package alerts

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/session"
)

func TestEveryRootCauseHasDescription(t *testing.T) {
	for _, id := range session.RootCauses {
		if rootCauses[id] == "" && id != session.NoHistory {
			t.Errorf("root cause %s has no description", id)
		}
	}
	if len(rootCauses) != len(session.RootCauses)-1 {
		t.Errorf("%d descriptions of %d root causes", len(rootCauses), len(session.RootCauses)-1)
	}
}

func TestDescription(t *testing.T) {
	f := func(s Share, want string) {
		t.Helper()
		if got := s.Description(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
	f(Share{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save"}, "assistant message saved without its tool_calls")
	f(Share{Cause: "orphan_tool_reply", RootCause: "unknown_no_history"}, "the history contains a tool result without its tool call")
	f(Share{Cause: "auth"}, "the provider refused the credentials")
	f(Share{Cause: "auth", RootCause: "brand_new"}, "brand new")
	f(Share{Cause: "brand_new"}, "brand new")
	f(Share{}, "unknown cause")
}
