package slack

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

var (
	dateToken = regexp.MustCompile(`<!date\^[^|>]*\|([^>]*)>`)
	linkToken = regexp.MustCompile(`<([^|>!]*)\|([^>]*)>`)
	unmarked  = strings.NewReplacer("```", "", "`", "", "&lt;", "<", "&gt;", ">", "&amp;", "&",
		":red_circle:", "🔴", ":large_orange_circle:", "🟠", ":large_blue_circle:", "🔵", ":large_green_circle:", "🟢",
		":hourglass:", "⏳", ":bell:", "🔔")
	bold = regexp.MustCompile(`\*([^*\n]+)\*`)
)

// plainBlocks renders the JSON of a message's blocks as the text that people see in Slack. Times are in UTC.
func plainBlocks(t *testing.T, blocks []byte) string {
	t.Helper()
	var list []struct {
		Type string
		Text struct{ Text string }

		Elements []struct {
			Text, Placeholder struct{ Text string }
			Options           []struct{ Text struct{ Text string } }
		}
	}
	if err := json.Unmarshal(blocks, &list); err != nil {
		t.Fatalf("decode blocks: %v", err)
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
		for _, e := range x.Elements {
			var options []string
			for _, o := range e.Options {
				options = append(options, o.Text.Text)
			}
			if e.Text.Text += e.Placeholder.Text; len(options) > 0 {
				e.Text.Text += ": " + strings.Join(options, ", ")
			}
			b.WriteString("[" + e.Text.Text + "] ")
		}
		b.WriteString(plainText(x.Text.Text))
		b.WriteByte('\n')
	}
	return b.String()
}

func plainText(mrkdwn string) string {
	s := dateToken.ReplaceAllString(mrkdwn, "$1")
	s = linkToken.ReplaceAllString(s, "$2: $1")
	return unmarked.Replace(bold.ReplaceAllString(s, "$1"))
}
