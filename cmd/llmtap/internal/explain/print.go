package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
)

// JSONL prints one object a result.
type JSONL struct{ E *json.Encoder }

// Print encodes r.
func (j JSONL) Print(r *Result) error { return j.E.Encode(r) }

// Close does nothing: the objects say it all.
func (JSONL) Close(Counts) error { return nil }

// Text prints a result as a reader wants it: what, how that is known, by whom, what it means, where in the request, what to
// do.
type Text struct{ W io.Writer }

// maxShown bounds the findings that Text shows of one request.
const maxShown = 5

// Print shows r.
func (t Text) Print(r *Result) error {
	var b strings.Builder
	switch {
	case r.ID != "":
		fmt.Fprintf(&b, "%s (%s)\n", r.Source, r.ID)
	case r.Source != "-" && r.Source != Argument: // a text at hand needs no name
		b.WriteString(r.Source + "\n")
	}
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", name, text)
		}
	}
	if r.Summary != "" {
		line("cause", what(r))
		if r.Cause != "" {
			line("known", known(r))
		}
		line("provider", r.Provider)
		line("means", r.Summary)
	}
	for i := range r.Findings {
		if i == maxShown && len(r.Findings) > maxShown+1 {
			line("", fmt.Sprintf("and %d more in the request", len(r.Findings)-i))
			break
		}
		f := &r.Findings[i]
		name := "found"
		if f.Predicted != check.Reject && len(r.Possible) > 0 {
			name = "maybe"
		}
		line(name, f.Rule+": "+f.Summary)
	}
	line("fix", r.Fix)
	if r.Other != nil {
		line("or", fmt.Sprintf("%s (%s), as the request shows: %s", r.Other.Cause, r.Other.Class, r.Other.Fix))
	}
	line("cluster", r.Cluster)
	line("error", r.Error)
	_, err := fmt.Fprintln(t.W, b.String())
	return err
}

// Close prints the sum, unless there was one result.
func (t Text) Close(c Counts) error {
	if c.Explained+c.Unexplained+c.Fine+c.Unreadable <= 1 {
		return nil
	}
	_, err := fmt.Fprintf(t.W, "%d explained, %d unexplained, %d did not fail, %d unreadable\n", c.Explained, c.Unexplained, c.Fine, c.Unreadable)
	return err
}
