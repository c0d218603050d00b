package slack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// checkLimits fails the test if a message exceeds a limit of Slack, with or without containers.
func checkLimits(t *testing.T, m message) {
	t.Helper()
	for _, list := range [][]any{{m.all()}, {m.unfolded()}} {
		raw := must.Get(json.Marshal(list[0]))(t)
		for _, problem := range limitProblems(raw) {
			t.Error(problem)
		}
	}
	if n := utf8.RuneCountInString(m.text); n > 4000 { // Slack truncates a text above 40,000 characters, and advises 4,000
		t.Errorf("text of %d characters", n)
	}
	if !utf8.ValidString(m.text) {
		t.Error("the text is not UTF-8")
	}
}

// mrkdwnTexts returns the texts of v, decoded JSON of blocks, in which Slack interprets mentions and links.
func mrkdwnTexts(v any) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, mrkdwnTexts(x)...)
		}
	case map[string]any:
		if text, ok := v["text"].(string); ok && v["type"] == "mrkdwn" {
			out = append(out, text)
		}
		for _, x := range v {
			out = append(out, mrkdwnTexts(x)...)
		}
	}
	return out
}

// limitProblems returns what Slack's reference of Block Kit does not allow in these blocks. Slack does not document whether
// the blocks in containers count, so they do.
func limitProblems(blocks []byte) (out []string) {
	seen := map[string]bool{} // ids of blocks, and of actions in a block
	unique := func(kind, id string) {
		if utf8.RuneCountInString(id) > 255 || id != "" && seen[kind+id] {
			out = append(out, fmt.Sprintf("%s %.40q is too long or not unique", kind, id))
		}
		seen[kind+id] = true
	}
	length := func(kind, text string, limit int) {
		if n := utf8.RuneCountInString(text); n == 0 || n > limit {
			out = append(out, fmt.Sprintf("%s of %d characters: %.60s", kind, n, text))
		}
		if strings.ContainsAny(text, "\x00\x1b\u202e\u200b") {
			out = append(out, kind+" contains characters that hide or reorder others")
		}
	}
	count := 0
	var walk func(raw []byte, depth int)
	walk = func(raw []byte, depth int) {
		var list []viewBlock
		if err := json.Unmarshal(raw, &list); err != nil {
			out = append(out, err.Error())
		}
		if count += len(list); depth > 0 && (len(list) == 0 || len(list) > 10) {
			out = append(out, fmt.Sprintf("container of %d blocks", len(list)))
		}
		for i, x := range list {
			unique("block_id", x.BlockID)
			switch x.Type {
			case "header":
				length(x.Type, x.Text.Text, 150)
			case "section":
				length(x.Type, x.Text.Text, 3000)
			case "container":
				length(x.Type, x.Title.Text, 150)
				walk(x.Children, depth+1)
			case "context":
				if len(x.Elements) == 0 || len(x.Elements) > 10 {
					out = append(out, fmt.Sprintf("context of %d elements", len(x.Elements)))
				}
				for _, e := range x.Elements {
					length(x.Type, e.Content(), 2000)
				}
			case "actions":
				if len(x.Elements) == 0 || len(x.Elements) > 25 {
					out = append(out, fmt.Sprintf("actions of %d elements", len(x.Elements)))
				}
				for _, e := range x.Elements {
					unique(fmt.Sprintf("action_id in block %d.%d ", depth, i), e.ActionID)
					length(e.Type, e.Content()+e.Placeholder.Text, 75)
					if len(e.Value) > 2000 || len(e.Options) > 100 {
						out = append(out, e.Type+" with a value or a list that is too long")
					}
					for _, o := range e.Options {
						length("option", o.Text.Text, 75)
						length("option value", o.Value, 150)
					}
				}
			case "divider":
			default:
				out = append(out, "unknown block "+x.Type)
			}
		}
	}
	walk(blocks, 0)
	if count > 50 {
		out = append(out, fmt.Sprintf("%d blocks", count))
	}
	return out
}
