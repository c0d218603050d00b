package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/analyzer"
)

// printLint shows each finding with the messages around it, the fault marked:
//
//	history.json:1  would be rejected by openai
//	  orphan_tool_reply: message 2 (tool) answers call_1, which …
//	      1 assistant ""
//	    > 2 tool      call_1 "PORT=80"
//	    fix: …
func printLint(w io.Writer, r *lintRecord) error {
	switch {
	case r.Error != "":
		_, err := fmt.Fprintf(w, "%s  unreadable: %s\n\n", r.Source, r.Error)
		return err
	case len(r.Findings) == 0:
		return nil
	}
	head := r.Source
	if r.ID != "" {
		head += " (" + r.ID + ")"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s/%s\n", head, r.Dialect, r.Variant)
	for _, f := range r.Findings {
		verdict := "would be rejected"
		switch {
		case f.Predicted == analyzer.Reject && f.Severity != analyzer.Reject:
			verdict = "was accepted, would usually be rejected"
		case f.Predicted != analyzer.Reject:
			verdict = "accepted here, rejected elsewhere"
		}
		fmt.Fprintf(&b, "  %s (%s): %s\n", f.Rule, verdict, f.Summary)
		for i := max(0, f.Message-2); i < min(len(r.messages), f.Message+2); i++ {
			mark := " "
			if i == f.Message {
				mark = ">"
			}
			fmt.Fprintf(&b, "    %s %3d %s\n", mark, i, describeMessage(r.messages[i]))
		}
		fmt.Fprintf(&b, "    fix: %s\n", f.Fix)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// describeMessage is one line on a message: role, ids, the start of its content.
func describeMessage(raw json.RawMessage) string {
	var m struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return clip(string(raw), 70)
	}
	parts := []string{fmt.Sprintf("%-9s", m.Role)}
	if m.ToolCallID != "" {
		parts = append(parts, "answers "+m.ToolCallID)
	}
	for _, c := range m.ToolCalls {
		parts = append(parts, fmt.Sprintf("calls %s(%s)", c.Function.Name, c.ID))
	}
	if len(m.Content) > 0 && string(m.Content) != "null" {
		parts = append(parts, clip(string(m.Content), 60))
	}
	return strings.Join(parts, "  ")
}
