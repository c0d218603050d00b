package terminal

import (
	"fmt"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/quantity"
)

// Middle returns s if it has at most n runes, else its beginning and end with the number of runes left out between them.
func Middle(s string, n int) string {
	count := utf8.RuneCountInString(s)
	if count <= n {
		return s
	}
	r := []rune(s)
	head := n * 2 / 3
	return fmt.Sprintf("%s … %s characters left out … %s", string(r[:head]), quantity.Count(count-n), string(r[count-n+head:]))
}

// Around returns the n runes of s around byte offset at, with … where text is left out.
func Around(s string, at, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	middle := utf8.RuneCountInString(s[:min(max(at, 0), len(s))])
	start := min(max(middle-n/3, 0), len(r)-n)
	out := string(r[start : start+n])
	if start > 0 {
		out = "…" + out
	}
	if start+n < len(r) {
		out += "…"
	}
	return out
}
