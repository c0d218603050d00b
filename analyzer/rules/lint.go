package rules

import (
	"fmt"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
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
