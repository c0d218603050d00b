package cause

import (
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
)

// Redact makes an error text safe to store: it masks credentials and personal data like package redact, and truncates the text
// to 4 KiB. Otherwise the text stays unchanged, for humans to read.
func Redact(text []byte) string {
	text = redact.Truncate(text, maxText)
	s := strings.ToValidUTF8(string(redact.Append(make([]byte, 0, len(text)+64), text)), "?")
	if len(s) > maxText {
		end := maxText
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return s
}
