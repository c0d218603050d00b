package stored

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestGuessed(t *testing.T) {
	f := func(guessed, failed int64, want string) {
		t.Helper()
		must.Equal(t, Guessed("the server failed", guessed, failed), want, "%d of %d", guessed, failed)
	}
	f(0, 8, "the server failed")
	f(8, 8, "probably the server failed")
	f(3, 8, "the server failed (guessed for 3 of 8 calls)")
}
