package explain

import (
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

// Rows prints one object per result, as JSON, JSON lines or CSV.
type Rows = table.Rows[*Result, Counts]

// Text prints cause, evidence, provider, meaning, findings and fix of each result.
type Text struct {
	W     io.Writer
	Style *terminal.Style
}

// Labels are column wide; the text begins after indent.
const (
	column = 9
	indent = "            "
)

// maxFindings is the maximum number of findings that Text prints for one request.
const maxFindings = 5

// Print prints r.
func (t Text) Print(r *Result) error {
	var b strings.Builder
	switch {
	case r.ID != "":
		fmt.Fprintf(&b, "%s\n", t.Style.Bold(r.Source+" ("+terminal.Line(r.ID)+")"))
	case r.Source != "-" && r.Source != argument: // a single text needs no name
		b.WriteString(t.Style.Bold(r.Source) + "\n")
	}
	line := func(name, text string) {
		if text != "" {
			b.WriteString(t.Style.Wrap("  "+t.Style.Bold(terminal.Pad(name, column))+" ", text, indent) + "\n")
		}
	}
	if r.Summary != "" {
		line("cause", title(r))
		if r.Cause != "" {
			line("evidence", evidence(r))
		}
		line("provider", r.Provider)
		line("meaning", r.Summary)
	}
	for i := range r.Findings {
		if i == maxFindings && len(r.Findings) > maxFindings+1 {
			line("", fmt.Sprintf("and %d more in the request", len(r.Findings)-i))
			break
		}
		f := &r.Findings[i]
		name := "finding"
		if f.Predicted != check.Reject && len(r.Possible) > 0 {
			name = "possible"
		}
		line(name, f.Rule+": "+f.Summary)
	}
	line("fix", r.Fix)
	if r.Other != nil {
		line("or", fmt.Sprintf("%s (%s), by the request: %s", r.Other.Cause, r.Other.Class, r.Other.Fix))
	}
	line("cluster", r.Cluster)
	line("error", r.Error)
	_, err := fmt.Fprintln(t.W, b.String())
	return err
}

// Close prints the counts, unless there was one result.
func (t Text) Close(c Counts) error {
	if c.Explained+c.Unexplained+c.Fine+c.NoError+c.Unreadable <= 1 {
		return nil
	}
	_, err := fmt.Fprintf(t.W, "%d explained, %d unexplained, %d did not fail, %d unreadable\n", c.Explained, c.Unexplained, c.Fine+c.NoError, c.Unreadable)
	return err
}

// evidence describes how the cause of res is known.
func evidence(res *Result) string {
	by := "the text"
	switch res.StatedBy {
	case "", "hosts", "common": // wording shared by several providers
	case "status":
		by = fmt.Sprintf("HTTP status %d", res.Status)
		if res.Status == 0 {
			by = "the client, which received no answer"
		}
	default:
		by = "the text, in the wording of " + res.StatedBy
	}
	if res.Gateway != "" {
		by += ", relayed by " + res.Gateway
	}
	where := "the request"
	if res.Message != nil && *res.Message >= 0 {
		where = fmt.Sprintf("message %d of the request", *res.Message)
	}
	switch res.Known {
	case cause.Stated:
		return "stated by " + by
	case cause.Guessed:
		if res.StatedBy == "status" {
			return "guessed from " + by + " alone, because the wording of the text is not known"
		}
		return "guessed from " + by + ", whose wording is not known from any server"
	case cause.Inferred:
		return fmt.Sprintf("inferred: the text states no cause, and %s violates %s", where, res.Rule)
	case cause.Both:
		return fmt.Sprintf("both: stated by %s, and %s violates %s", by, where, res.Rule)
	case cause.Conflict:
		if res.Other == nil {
			return fmt.Sprintf("conflict: stated by %s, but the request does not show it", by)
		}
		return fmt.Sprintf("conflict: stated by %s, but the request violates %s and no rule of this cause", by, res.Other.Rule)
	}
	return "unknown"
}

// title returns the cause and class of res.
func title(res *Result) string {
	if res.Cause == "" {
		return "no failure"
	}
	return strings.TrimSpace(res.Cause + " (" + res.Class + ")")
}
