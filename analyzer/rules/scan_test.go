package rules

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// scan reads a messages array.
func scan(t testing.TB, messages []byte) *facts.Request {
	t.Helper()
	r := new(facts.Request)
	if err := facts.ScanMessages(facts.OpenAIChat, messages, r); err != nil {
		t.Fatalf("scan messages: %v", err)
	}
	return r
}
