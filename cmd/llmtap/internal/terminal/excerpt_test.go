package terminal

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMiddle(t *testing.T) {
	f := func(s string, n int, want string) {
		t.Helper()
		must.Equal(t, Middle(s, n), want, "Middle(%q, %d)", s, n)
	}
	f("abcdef", 6, "abcdef")
	f("abcdefghi", 6, "abcd … 3 characters left out … hi")
	f("名前名前名前", 3, "名前 … 3 characters left out … 前")
}

func TestAround(t *testing.T) {
	f := func(s string, at, n int, want string) {
		t.Helper()
		must.Equal(t, Around(s, at, n), want, "Around(%q, %d, %d)", s, at, n)
	}
	f("abcdef", 5, 6, "abcdef")
	f("abcdefghi", 0, 3, "abc…")
	f("abcdefghi", 4, 3, "…def…")
	f("abcdefghi", 9, 3, "…ghi")
	f("名前名前名前", 6, 3, "…前名前…")
}
