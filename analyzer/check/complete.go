package check

import (
	"errors"
	"fmt"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Complete returns nil if the rules judge all of r for t. The error says what they cannot judge: a request to another API,
// without messages, or with more messages than facts.Request holds.
func Complete(r *facts.Request, t wire.Target) error {
	text := t.Dialect.Descriptor().Pairing.Items && r.MessagesKind == facts.String // the input is one user message
	switch {
	case t.Dialect == wire.Other:
		return errors.New("no rules for this API")
	case r.Dropped > 0:
		return fmt.Errorf("too many messages, calls, replies or tools: %d of them were not judged", r.Dropped)
	case len(r.Messages) == 0 && !text:
		return errors.New("the request has no messages")
	}
	return nil
}
