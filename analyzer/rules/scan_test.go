package rules

import (
	"bytes"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// scan reads a request of target's dialect: a whole body, or an array of its messages.
func scan(t testing.TB, target wire.Target, body []byte) *facts.Request {
	t.Helper()
	r := new(facts.Request)
	read := facts.ScanRequest
	if bytes.HasPrefix(bytes.TrimLeft(body, " \n"), []byte("[")) {
		read = facts.ScanMessages
	}
	must.Do(t, read(target.Dialect, body, r), "scan", target.Dialect)
	return r
}
