package slack

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

var (
	dateToken = regexp.MustCompile(`<!date\^[^|>]*\|([^>]*)>`)
	linkToken = regexp.MustCompile(`<([^|>!]*)\|([^>]*)>`)
	unmarked  = strings.NewReplacer("```", "", "`", "", "&lt;", "<", "&gt;", ">", "&amp;", "&",
		":red_circle:", "🔴", ":large_orange_circle:", "🟠", ":large_blue_circle:", "🔵", ":large_green_circle:", "🟢",
		":hourglass:", "⏳", ":bell:", "🔔")
	bold = regexp.MustCompile(`\*([^*\n]+)\*`)
)

// PlainText renders the JSON of a message's blocks as it reads in Slack, for terminals and for people who judge it.
// Times are in UTC.
func PlainText(blocks []byte) (string, error) {
	var list []struct {
		Type string
		Text struct{ Text string }
	}
	if err := json.Unmarshal(blocks, &list); err != nil {
		return "", fmt.Errorf("decode blocks: %w", err)
	}
	var b strings.Builder
	for i, x := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		if x.Type == "divider" {
			b.WriteString("────────────────────\n")
			continue
		}
		b.WriteString(plainText(x.Text.Text))
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func plainText(mrkdwn string) string {
	s := dateToken.ReplaceAllString(mrkdwn, "$1")
	s = linkToken.ReplaceAllString(s, "$2: $1")
	return unmarked.Replace(bold.ReplaceAllString(s, "$1"))
}
