package records

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	maxID    = 64 // maximum characters of an id or a name
	maxParts = 4  // maximum parts shown of a message
)

// Describe describes a message of any dialect on one line: role, calls, replies, and up to n characters of each text.
func Describe(raw json.RawMessage, n int) string {
	m, ok := ParseMessage(raw)
	if !ok {
		return terminal.Clip(string(raw), n+10)
	}
	out := []string{fmt.Sprintf("%-9s", terminal.Clip(m.Role, maxID))}
	for i, p := range m.Parts {
		if i == maxParts && len(m.Parts) > maxParts+1 {
			out = append(out, fmt.Sprintf("and %d more", len(m.Parts)-i))
			break
		}
		out = append(out, p.describe(n))
	}
	return strings.Join(out, "  ")
}

// describe describes p with up to n characters of its text. Calls have no arguments.
func (p *Part) describe(n int) string {
	switch p.Kind {
	case Reply:
		return strings.TrimRight(p.Title()+"  "+p.quoted(n), " ")
	case Text:
		return p.quoted(n)
	case Reasoning:
		return "[reasoning]"
	case Call, Other:
	}
	return p.Title()
}

// Title returns the kind of p with its id and name, such as "calls read (call_1)"; "" for a text.
func (p *Part) Title() string {
	id, name := terminal.Clip(p.ID, maxID), terminal.Clip(p.Name, maxID)
	switch {
	case p.Kind == Text:
		return ""
	case p.Kind == Call && name == "":
		name = "a function without a name"
	case p.Kind == Reply && id == "" && name == "":
		name = "a call without an id"
	case p.Kind == Reply && id == "":
		id, name = name, ""
	case p.Kind == Other:
		return fmt.Sprintf("[%s, %s]", name, quantity.Plural(len(p.Text), "byte"))
	case p.Kind == Reasoning:
		return "reasoning"
	}
	verb := "calls "
	if p.Kind == Reply {
		verb, id, name = "answers ", name, id
	}
	if id == "" {
		return verb + name
	}
	return fmt.Sprintf("%s%s (%s)", verb, name, id)
}

// quoted returns up to n characters of the text. A string is in quotes.
func (p *Part) quoted(n int) string {
	if p.Empty || !p.String {
		return terminal.Clip(p.Text, n)
	}
	return `"` + terminal.Clip(p.Text, n) + `"`
}
