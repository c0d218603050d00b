package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmtap/llmtap/analyzer/check"
)

// Text prints each finding with the messages around it, the fault marked:
//
//	history.json:1  openai_chat/openai
//	  orphan_tool_reply (would be rejected): message 2 (tool) answers call_1, which …
//	      1 assistant  ""
//	    > 2 tool       answers call_1  "PORT=80"
//	    root cause: tool_calls_dropped_on_save (high): answer of exchange history.json:1 made …
//	    fix: …
//
// A defect that an earlier record had is one line.
type Text struct{ W io.Writer }

// Around the fault, so many messages are shown before and after it.
const (
	shownBefore = 2
	shownAfter  = 1
	shownText   = 60 // bytes of a text
)

// Print shows r, unless it has nothing to say.
func (t Text) Print(r *Result) error {
	head := r.Source
	if r.ID != "" {
		head += " (" + r.ID + ")"
	}
	switch {
	case r.Error != "":
		_, err := fmt.Fprintf(t.W, "%s  unreadable: %s\n\n", head, r.Error)
		return err
	case len(r.Findings) == 0:
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s/%s\n", head, r.Dialect, r.Variant)
	all := messages(r)
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.again {
			fmt.Fprintf(&b, "  %s (%s): %sagain, first in %s\n", f.Rule, verdict(f), place(f), f.First)
			continue
		}
		fmt.Fprintf(&b, "  %s (%s): %s\n", f.Rule, verdict(f), f.Summary)
		for j := max(0, f.Message-shownBefore); f.Message >= 0 && j < min(len(all), f.Message+shownAfter+1); j++ {
			mark := " "
			if j == f.Message {
				mark = ">"
			}
			fmt.Fprintf(&b, "    %s %3d %s\n", mark, j, Describe(all[j], shownText))
		}
		if f.explained {
			fmt.Fprintf(&b, "    root cause: %s (%s): %s\n", f.RootCause, f.Confidence, f.Evidence)
		}
		fmt.Fprintf(&b, "    fix: %s\n", f.Fix)
	}
	_, err := fmt.Fprintln(t.W, b.String())
	return err
}

// Close prints the sum.
func (t Text) Close(c Counts) error {
	histories := "histories"
	if c.Checked == 1 {
		histories = "history"
	}
	_, err := fmt.Fprintf(t.W, "%d %s checked, %d would be rejected, %d not judged, %d unreadable\n", c.Checked, histories, c.Rejected, c.Unjudged, c.Unreadable)
	return err
}

// place is the message of a finding, if it is of one.
func place(f *Finding) string {
	if f.Message < 0 {
		return ""
	}
	return fmt.Sprintf("message %d, ", f.Message)
}

func verdict(f *Finding) string {
	switch {
	case f.Predicted == check.Reject && f.Severity != check.Reject:
		return "was accepted, would usually be rejected"
	case f.Predicted == check.Reject:
		return "would be rejected"
	case f.Predicted == check.Lenient:
		return "accepted here, rejected elsewhere"
	}
	return "style"
}

// messages are the messages of the request that r is about; nil when they cannot be read alone.
func messages(r *Result) []json.RawMessage {
	body := json.RawMessage(r.body)
	if len(body) > 0 && body[0] == '{' {
		var f fields
		if json.Unmarshal(body, &f) != nil {
			return nil
		}
		body = f[r.Dialect.Descriptor().Messages]
	}
	var all []json.RawMessage
	_ = json.Unmarshal(body, &all) // scanned already; a difference in strictness only loses the excerpt
	return all
}

// Describe is one line on a message of any dialect: who, what it calls and answers, the first n bytes of each text.
func Describe(raw json.RawMessage, n int) string {
	var m fields
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return Clip(string(raw), n+10)
	}
	who := m.text("role")
	if who == "" {
		who = m.text("type")
	}
	out := []string{fmt.Sprintf("%-9s", who)}
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	add(part(m, n))
	for _, key := range []string{"tool_calls", "content", "parts", "output"} {
		var items []fields
		if m[key] == nil || json.Unmarshal(m[key], &items) != nil {
			if m.has(key) {
				add(Clip(string(m[key]), n))
			}
			continue
		}
		for i, p := range items {
			if i == 4 && len(items) > 5 {
				add(fmt.Sprintf("and %d more", len(items)-i))
				break
			}
			add(part(p, n))
		}
	}
	return strings.Join(out, "  ")
}

// part says what a call, a reply or a content part is, with n bytes of a text; "" for a message.
func part(p fields, n int) string {
	inner := func(key string) fields {
		var f fields
		_ = json.Unmarshal(p[key], &f) // another type has no members
		return f
	}
	call := func(f fields, id string) string {
		if id == "" {
			return "calls " + Clip(f.text("name"), 40)
		}
		return fmt.Sprintf("calls %s (%s)", Clip(f.text("name"), 40), Clip(id, 40))
	}
	switch {
	case p.text("type") == "function_call", p.text("type") == "custom_tool_call":
		return call(p, p.text("call_id"))
	case p.text("call_id") != "":
		return "answers " + Clip(p.text("call_id"), 40)
	case p.text("type") == "tool_use":
		return call(p, p.text("id"))
	case p.text("tool_use_id") != "":
		return "answers " + Clip(p.text("tool_use_id"), 40)
	case p.text("tool_call_id") != "":
		return "answers " + Clip(p.text("tool_call_id"), 40)
	case p.has("function"):
		return call(inner("function"), p.text("id"))
	case p.has("functionCall"):
		return call(inner("functionCall"), inner("functionCall").text("id"))
	case p.has("functionResponse"):
		return "answers " + Clip(inner("functionResponse").text("name"), 40)
	case p.has("toolUse"):
		return call(inner("toolUse"), inner("toolUse").text("toolUseId"))
	case p.has("toolResult"):
		return "answers " + Clip(inner("toolResult").text("toolUseId"), 40)
	case p["text"] != nil:
		return Clip(string(p["text"]), n)
	case p.text("role") == "" && p.text("type") != "":
		return "[" + Clip(p.text("type"), 30) + "]"
	}
	return ""
}

// Clip is s on one line, cut after n bytes. An id may hold what commands a terminal; here it does not.
func Clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s[:min(len(s), 8*n)])
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
