// Package slowtest marks the tests that take more than ten seconds, so that go test ./... takes minutes and not a quarter of an
// hour. CI runs the marked tests by name, see .ci/run.
package slowtest

import (
	"flag"
	"testing"
)

var slow = flag.Bool("slow", false, "run the tests that take more than ten seconds")

// Skip skips the test unless the flag -slow is set.
func Skip(t *testing.T) {
	t.Helper()
	if !*slow {
		t.Skip("SKIPPED without -slow")
	}
}
