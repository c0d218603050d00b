package slack

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var (
	dateToken = regexp.MustCompile(`<!date\^[^|>]*\|([^>]*)>`)
	linkToken = regexp.MustCompile(`<([^|>!]*)\|([^>]*)>`)
	unmarked  = strings.NewReplacer("```", "", "`", "", "&lt;", "<", "&gt;", ">", "&amp;", "&",
		":red_circle:", "🔴", ":large_orange_circle:", "🟠", ":large_blue_circle:", "🔵", ":large_green_circle:", "🟢", ":white_circle:", "⚪",
		":hourglass:", "⏳", ":bell:", "🔔")
	bold = regexp.MustCompile(`\*([^*\n]+)\*`)
)

// plainBlocks returns a message's blocks as the text that people see in Slack. Times are in UTC.
func plainBlocks(t *testing.T, blocks []byte) string {
	t.Helper()
	list := must.JSON[[]viewBlock](t, blocks)
	var b strings.Builder
	for i, x := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		switch x.Type {
		case "divider":
			b.WriteString("────────────────────\n")
			continue
		case "container":
			b.WriteString("▸ " + x.Title.Text + "\n\n" + plainBlocks(t, x.Children))
			continue
		}
		for _, e := range x.Elements {
			if x.Type == "context" {
				b.WriteString(plainText(e.Content()))
				continue
			}
			b.WriteString("[" + e.Label() + "] ")
		}
		b.WriteString(plainText(x.Text.Text))
		b.WriteByte('\n')
	}
	return b.String()
}

// A viewBlock is a block as a client reads it.
type viewBlock struct {
	Type     string
	BlockID  string `json:"block_id"`
	Title    struct{ Text string }
	Text     struct{ Type, Text string }
	Elements []viewElement
	Expand   bool
	Children json.RawMessage `json:"child_blocks"`

	Collapsed bool `json:"default_collapsed"`
}

// A viewElement is a text, a button or a menu in a block.
type viewElement struct {
	Type, Style string
	Text        json.RawMessage // a string in a context block, an object in a button
	Placeholder struct{ Text string }
	ActionID    string `json:"action_id"`
	Value       string
	Options     []struct {
		Text  struct{ Text string }
		Value string
	}
}

// Content returns the text of e.
func (e viewElement) Content() string {
	var s string
	if json.Unmarshal(e.Text, &s) == nil {
		return s
	}
	var object struct{ Text string }
	_ = json.Unmarshal(e.Text, &object) // a menu has no text
	return object.Text
}

// Label returns what a button or a menu shows, with the choices.
func (e viewElement) Label() string {
	var options []string
	for _, o := range e.Options {
		options = append(options, o.Text.Text)
	}
	s := e.Content() + e.Placeholder.Text
	if len(options) > 0 {
		s += ": " + strings.Join(options, ", ")
	}
	return s
}

func plainText(mrkdwn string) string {
	s := dateToken.ReplaceAllString(mrkdwn, "$1")
	s = linkToken.ReplaceAllString(s, "$2: $1")
	return unmarked.Replace(bold.ReplaceAllString(s, "$1"))
}
