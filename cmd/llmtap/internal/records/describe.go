package records

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

const (
	maxID    = 40 // maximum characters of an id or a name
	maxParts = 4  // maximum content parts shown of a message
)

// Describe describes a message of any dialect on one line: role, calls, replies, and up to n characters of each text.
func Describe(raw json.RawMessage, n int) string {
	var m Fields
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return terminal.Clip(string(raw), n+10)
	}
	role := m.Text("role")
	if role == "" {
		role = m.Text("type")
	}
	out := []string{fmt.Sprintf("%-9s", role)}
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	add(describePart(m, n))
	for _, key := range []string{"tool_calls", "content", "parts", "output"} {
		var items []Fields
		if m[key] == nil || json.Unmarshal(m[key], &items) != nil {
			if m.Has(key) {
				add(terminal.Clip(string(m[key]), n))
			}
			continue
		}
		for i, p := range items {
			if i == maxParts && len(items) > maxParts+1 {
				add(fmt.Sprintf("and %d more", len(items)-i))
				break
			}
			add(describePart(p, n))
		}
	}
	return strings.Join(out, "  ")
}

// describePart describes a call, a reply or a content part with up to n characters of its text; "" for a message.
func describePart(p Fields, n int) string {
	id := func(s string) string { return terminal.Clip(s, maxID) }
	call := func(f Fields, callID string) string {
		if callID == "" {
			return "calls " + id(f.Text("name"))
		}
		return fmt.Sprintf("calls %s (%s)", id(f.Text("name")), id(callID))
	}
	answers := func(s string) string { return "answers " + id(s) }
	switch {
	case p.Text("type") == "function_call", p.Text("type") == "custom_tool_call":
		return call(p, p.Text("call_id"))
	case p.Text("call_id") != "":
		return answers(p.Text("call_id"))
	case p.Text("type") == "tool_use":
		return call(p, p.Text("id"))
	case p.Text("tool_use_id") != "":
		return answers(p.Text("tool_use_id"))
	case p.Text("tool_call_id") != "":
		return answers(p.Text("tool_call_id"))
	case p.Has("function"):
		return call(p.Object("function"), p.Text("id"))
	case p.Has("functionCall"):
		return call(p.Object("functionCall"), p.Object("functionCall").Text("id"))
	case p.Has("functionResponse"):
		return answers(p.Object("functionResponse").Text("name"))
	case p.Has("toolUse"):
		return call(p.Object("toolUse"), p.Object("toolUse").Text("toolUseId"))
	case p.Has("toolResult"):
		return answers(p.Object("toolResult").Text("toolUseId"))
	case p["text"] != nil:
		return terminal.Clip(string(p["text"]), n)
	case p.Text("role") == "" && p.Text("type") != "":
		return "[" + terminal.Clip(p.Text("type"), 30) + "]"
	}
	return ""
}
