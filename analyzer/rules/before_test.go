package rules

import (
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// violationsAfter is violations of a request that follows answer, the body of a response; nil when none is known.
func violationsAfter(t *testing.T, target wire.Target, body, answer []byte) []check.Violation {
	t.Helper()
	if answer == nil {
		return violations(t, target, body)
	}
	var a facts.Response
	if err := facts.ScanResponse(target.Dialect, "application/json", answer, &a); err != nil || a.Malformed || a.Cut {
		t.Fatalf("scan answer: %v, malformed: %v, cut: %v", err, a.Malformed, a.Cut)
	}
	r := scan(t, target, body)
	target.Model = string(r.Model)
	before := &check.Before{Signed: a.Signed, Copy: copyOf(r, &a)}
	if string(r.PreviousResponse) == a.ID && a.ID != "" {
		before.Chain = &check.Chain{Calls: a.Calls}
	}
	return check.NewChecker(All).Check(r, target, before)
}

// copyOf is the message that repeats a, by its first call; -1 when there is none.
func copyOf(r *facts.Request, a *facts.Response) int {
	for i := range r.Messages {
		for _, c := range r.Messages[i].Calls {
			if len(a.Calls) > 0 && string(c.ID) == a.Calls[0].ID {
				return i
			}
		}
	}
	return -1
}
