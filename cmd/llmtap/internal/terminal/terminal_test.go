package terminal

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestWrap(t *testing.T) {
	f := func(text string, width int, want ...string) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, Wrap(text, width, "  ")), "Wrap", text, width)
	}
	f("", 20, "")
	f("a b", 20, "a b")
	f("aaaa bbbb cccc", 10, "aaaa bbbb", "  cccc")
	f("aaaaaaaaaaaaaaaaaaaaaaaaa", 20, "aaaaaaaaaaaaaaaaaaaa", "  aaaaa")
	f("aaaa bbbbbbbbbbbbbbbbbbbbb", 20, "aaaa", "  bbbbbbbbbbbbbbbbbb", "  bbb")
	f("aaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbb", 20, "aaaaaaaaaaaaaa", "  bbbbbbbbbbbbbbbbbb", "  bbb")
	f(`a {"type":"b","code":"c"}`, 20, `a {"type":"b",`, `  "code":"c"}`)
	f("aaaaaaaaaaaaaaaa b", 0, "aaaaaaaaaa", "  aaaaaa b")
	f("計画 計画計画計画計画", 10, "計画", "  計画計画", "  計画計画")
}

func TestClip(t *testing.T) {
	f := func(s string, n int, want string) {
		t.Helper()
		must.Equal(t, Clip(s, n), want, "Clip(%q, %d)", s, n)
	}
	f("abc", 3, "abc")
	f("abcd", 3, "ab…")
	f("名前名前", 3, "名…")
	f("名前", 4, "名前")
	f("a\n\t b\x1b[2J", 20, `a b\u001b[2J`)
}
