package rules

import (
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Lint returns the violations in a request body for t, in rule order. An error means that the body is not a request of this
// dialect, or that the rules cannot judge all of it; the violations found are still returned.
func Lint(t wire.Target, body []byte) ([]check.Violation, error) {
	var r facts.Request
	if err := facts.ScanRequest(t.Dialect, body, &r); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return check.NewChecker(InOrder).Check(&r, t, nil), check.Complete(&r, t)
}

// Accepted returns nil if t would accept the request body. The error lists the violations for which t would reject it, or says
// what the rules cannot judge.
func Accepted(t wire.Target, body []byte) error {
	found, err := Lint(t, body)
	for i := range found {
		if v := &found[i]; v.Predicted == check.Reject {
			err = errors.Join(err, fmt.Errorf("%s: %s; fix: %s", v.Rule.ID, v.Summary, v.Rule.Fix))
		}
	}
	return err
}
