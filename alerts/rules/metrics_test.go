package rules

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestHelp(t *testing.T) {
	for _, name := range KnownMetrics() {
		if Help(name) == "" {
			t.Errorf("%s has no help text", name)
		}
	}
	must.Equal(t, len(helps), len(KnownMetrics()), "help texts")
}
