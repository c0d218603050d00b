package cause

import (
	"strings"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/event/redact"
)

// Redact makes an error text safe to store: credentials and personal data are masked, as package redact says, and it is
// cut at 4 KiB. It is the text for humans; nothing else in it changes.
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
