// Package ruledoc writes the documentation of rules and signals.
package ruledoc

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A rule is the JSON form of a check.Rule.
type rule struct {
	ID         string   `json:"id"`
	Title      string   `json:"title"`
	Doc        string   `json:"doc"`
	Fix        string   `json:"fix"`
	RejectedBy []string `json:"rejected_by"` // as dialect/variant
}

func newRule(r *check.Rule) rule {
	_, doc, _ := strings.Cut(r.Doc, "\n")
	out := rule{ID: r.ID, Title: r.Title(), Doc: strings.TrimSpace(doc), Fix: r.Fix, RejectedBy: []string{}}
	for _, d := range wire.Dialects {
		for _, v := range d.Variants() {
			name := string(d) + "/" + string(v)
			if r.Severity(wire.Target{Dialect: d, Variant: v}) == check.Reject {
				out.RejectedBy = append(out.RejectedBy, name)
			} else if v == wire.Ollama && r.Severity(wire.Target{Dialect: d, Variant: v, Native: true}) == check.Reject {
				out.RejectedBy = append(out.RejectedBy, name+" (/api/chat)")
			}
		}
	}
	return out
}

// Write writes the rules with these ids as text or json. Without ids, text is the list of all rules.
func Write(w io.Writer, ids []string, format string) error {
	chosen := make([]rule, 0, len(rules.All))
	for _, id := range ids {
		r := rules.ByID(id)
		if r == nil {
			return command.BadInputf("no rule %q; %s", id, suggest(id))
		}
		chosen = append(chosen, newRule(r))
	}
	if len(ids) == 0 {
		for _, r := range rules.All {
			chosen = append(chosen, newRule(r))
		}
	}
	if format == command.JSON {
		return command.WriteJSON(w, chosen)
	}
	for _, r := range chosen {
		if len(ids) == 0 {
			fmt.Fprintf(w, "%-32s %s\n", r.ID, r.Title)
			continue
		}
		by := cmp.Or(strings.Join(r.RejectedBy, ", "), "none for certain")
		fmt.Fprintf(w, "%s: %s\n\n%s\n\nFix: %s\nRejected by: %s\n\n", r.ID, r.Title, r.Doc, r.Fix, by)
	}
	if len(ids) == 0 {
		fmt.Fprintln(w, "\nExplain one: llmtap rules ID")
	}
	return nil
}

// WriteSignals writes the signals as text or json.
func WriteSignals(w io.Writer, format string) error {
	if format == command.JSON {
		return command.WriteJSON(w, signals.All)
	}
	for _, s := range signals.All {
		fmt.Fprintf(w, "%-32s %s\n", s.ID, s.Doc)
	}
	return nil
}

// suggest returns a hint with up to 8 rules that share a word with id.
func suggest(id string) string {
	var near []string
	for _, r := range rules.All {
		if slices.ContainsFunc(strings.Split(id, "_"), func(word string) bool { return len(word) > 3 && strings.Contains(r.ID, word) }) {
			near = append(near, r.ID)
		}
	}
	if len(near) == 0 || len(near) > 8 {
		return "llmtap rules lists all"
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}
