package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
)

// JSONL prints one object per result.
type JSONL struct{ E *json.Encoder }

// Print encodes r.
func (j JSONL) Print(r *Result) error { return j.E.Encode(r) }

// Close does nothing.
func (JSONL) Close(Counts) error { return nil }

// Text prints cause, evidence, provider, meaning, findings and fix of each result.
type Text struct{ W io.Writer }

// maxFindings is the maximum number of findings that Text prints for one request.
const maxFindings = 5

// Print prints r.
func (t Text) Print(r *Result) error {
	var b strings.Builder
	switch {
	case r.ID != "":
		fmt.Fprintf(&b, "%s (%s)\n", r.Source, r.ID)
	case r.Source != "-" && r.Source != Argument: // a single text needs no name
		b.WriteString(r.Source + "\n")
	}
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, text)
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
	if c.Explained+c.Unexplained+c.Fine+c.Unreadable <= 1 {
		return nil
	}
	_, err := fmt.Fprintf(t.W, "%d explained, %d unexplained, %d did not fail, %d unreadable\n", c.Explained, c.Unexplained, c.Fine, c.Unreadable)
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
	case cause.Inferred:
		return fmt.Sprintf("inferred: the text states no cause; %s violates %s, which %s rejects", where, res.Rule, res.Variant)
	case cause.Both:
		return fmt.Sprintf("both: stated by %s, and %s violates %s", by, where, res.Rule)
	case cause.Conflict:
		other := "another rule"
		if res.Other != nil {
			other = res.Other.Rule
		}
		return fmt.Sprintf("conflict: stated by %s, but the request violates %s and no rule of this cause", by, other)
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
