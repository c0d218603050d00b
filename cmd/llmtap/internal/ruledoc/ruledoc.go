// Package ruledoc writes the documentation of rules, causes, root causes and signals.
package ruledoc

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/cause"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/nearest"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Kinds lists the kinds of entries in the order of the list.
var Kinds = []string{"rule", "cause", "root_cause", "signal"}

var headings = map[string]string{
	"rule": "Rules: what is wrong in a request", "cause": "Causes: why a call failed, besides the rules",
	"root_cause": "Root causes: what the agent did", "signal": "Signals: what several calls show",
}

// An Entry documents one id.
type Entry struct {
	Kind       string   `json:"kind"` // one of Kinds
	ID         string   `json:"id"`
	Title      string   `json:"title"`
	Doc        string   `json:"doc"`
	Fix        string   `json:"fix"`
	RejectedBy []string `json:"rejected_by"` // of a rule, as dialect/variant; never nil
}

// entries returns the entries by kind. A cause with the id of a rule is the failure for this rule, and has no entry of its own.
func entries() (all []Entry) {
	for _, r := range rules.All {
		_, doc, _ := strings.Cut(r.Doc, "\n")
		all = append(all, Entry{"rule", r.ID, r.Title(), strings.TrimSpace(doc), r.Fix, rejectedBy(r)})
	}
	for _, id := range cause.IDs() {
		if rules.ByID(id) == nil {
			meaning, fix := cause.Meaning(id)
			all = append(all, Entry{"cause", id, meaning, "", fix, []string{}})
		}
	}
	for _, id := range session.RootCauses {
		all = append(all, Entry{"root_cause", id, session.Summaries[id], "", session.Fix(id), []string{}})
	}
	for _, s := range signals.All {
		all = append(all, Entry{"signal", s.ID, s.Doc, "", "", []string{}})
	}
	return all
}

// IDs returns the ids of all entries.
func IDs() (ids []string) {
	for _, e := range entries() {
		ids = append(ids, e.ID)
	}
	return ids
}

func rejectedBy(r *check.Rule) []string {
	by := []string{}
	for _, d := range wire.Dialects {
		for _, v := range d.Variants() {
			name := string(d) + "/" + string(v)
			if r.Severity(wire.Target{Dialect: d, Variant: v}) == check.Reject {
				by = append(by, name)
			} else if v == wire.Ollama && r.Severity(wire.Target{Dialect: d, Variant: v, Native: true}) == check.Reject {
				by = append(by, name+" (/api/chat)")
			}
		}
	}
	return by
}

// Select returns the entries with these ids, or all of a kind, or all. An unknown id is an error that names similar ones.
func Select(ids []string, kind string) ([]Entry, error) {
	all := entries()
	if kind != "" {
		all = slices.DeleteFunc(all, func(e Entry) bool { return e.Kind != kind })
	}
	if len(ids) == 0 {
		return all, nil
	}
	var chosen []Entry
	for _, id := range ids {
		found := len(chosen)
		for _, e := range all {
			if e.ID == id {
				chosen = append(chosen, e)
			}
		}
		if len(chosen) == found {
			return nil, command.BadInputf("no rule, cause, root cause or signal %q; %s", id, suggest(id, all))
		}
	}
	return chosen, nil
}

// Write writes entries in one of table.Formats. Text is a list by kind, or the whole documentation if full.
func Write(w io.Writer, entries []Entry, full bool, format string, style *terminal.Style) error {
	if format != command.Text {
		enc := table.Encoder{W: w, Format: format}
		for i := range entries {
			if err := enc.Encode(&entries[i]); err != nil {
				return err
			}
		}
		return enc.Close()
	}
	var b strings.Builder
	for i := range entries {
		if e := &entries[i]; full {
			e.write(&b, style)
		} else {
			if i == 0 || entries[i-1].Kind != e.Kind {
				fmt.Fprintf(&b, "%s%s\n", strings.Repeat("\n", min(i, 1)), style.Bold(headings[e.Kind]))
			}
			b.WriteString(style.Wrap("  "+terminal.Pad(e.ID, column)+" ", e.Title, indent) + "\n")
		}
	}
	if !full {
		b.WriteString("\nExplain one: llmtap rules ID\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Ids in the list are column wide, so titles begin after indent.
const column = 32

var indent = strings.Repeat(" ", column+3)

func (e *Entry) write(b *strings.Builder, style *terminal.Style) {
	paragraph := func(first, text string) {
		if text != "" {
			b.WriteString(style.Wrap(first, strings.Join(strings.Fields(text), " "), "") + "\n")
		}
	}
	paragraph(style.Bold(e.ID)+" ("+strings.ReplaceAll(e.Kind, "_", " ")+"): ", e.Title)
	for text := range strings.SplitSeq(e.Doc, "\n\n") {
		if text != "" {
			b.WriteByte('\n')
			paragraph("", text)
		}
	}
	b.WriteByte('\n')
	paragraph(style.Bold("Fix: "), e.Fix)
	if e.Kind == "rule" {
		paragraph(style.Bold("Rejected by: "), cmp.Or(strings.Join(e.RejectedBy, ", "), "none for certain"))
	}
	if e.Fix != "" {
		b.WriteByte('\n')
	}
}

// suggest returns a hint with the entry that has a similar id, or with the entries that share most words with id.
func suggest(id string, all []Entry) string {
	var ids, near []string
	most := 1
	for _, e := range all {
		ids = append(ids, e.ID)
		shared := 0
		for word := range strings.SplitSeq(id, "_") {
			if len(word) > 3 && strings.Contains(e.ID, word) {
				shared++
			}
		}
		if shared > most {
			near, most = nil, shared
		}
		if shared == most {
			near = append(near, e.ID)
		}
	}
	if similar := nearest.Name(id, ids); similar != "" {
		near = []string{similar}
	}
	if len(near) == 0 || len(near) > 8 {
		return "llmtap rules lists all"
	}
	return "did you mean " + strings.Join(near, ", ") + "?"
}
