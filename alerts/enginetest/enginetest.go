// Package enginetest opens engines for the tests of notifiers and rules.
package enginetest

import (
	"testing"

	"github.com/llmtap/llmtap/alerts/engine"
)

// New returns an engine, which the end of the test closes.
func New(t testing.TB, cfg engine.Config, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(t.Context(), cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
