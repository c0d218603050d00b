package alerts

import (
	"encoding/json"
	"os"
	"testing"
)

// Every cause that the analyzer can name has words, and no word is for a cause that does not exist.
func TestCauseWords(t *testing.T) {
	text, err := os.ReadFile("../../shared/spec/causes.json")
	if err != nil {
		t.Skipf("SKIPPED, words of causes not checked: %v", err)
	}
	var spec struct{ Causes []struct{ ID string } }
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range spec.Causes {
		known[c.ID] = true
		if causeWords[c.ID] == "" {
			t.Errorf("no words for cause %s", c.ID)
		}
	}
	for id := range causeWords {
		if !known[id] {
			t.Errorf("words for %s, which is no cause", id)
		}
	}
}

func TestWords(t *testing.T) {
	f := func(s Share, want string) {
		t.Helper()
		if got := s.Words(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
	f(Share{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save"}, "assistant message saved without its tool_calls")
	f(Share{Cause: "orphan_tool_reply", RootCause: "unknown_no_history"}, "tool message without the tool call it answers")
	f(Share{Cause: "auth"}, "credentials refused")
	f(Share{Cause: "auth", RootCause: "brand_new"}, "brand new")
	f(Share{}, "cause not known yet")
}
