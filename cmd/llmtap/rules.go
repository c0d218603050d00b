package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/wire"
)

var rulesCommand = &command.Command{
	Name:  "rules",
	Args:  "[ID]...",
	Short: "List the rules of the message protocol, or explain one",
	Long:  "An explanation says why providers reject a violation, which ones do, and the fix.",
	Examples: `  llmtap rules
  llmtap rules orphan_tool_reply
  llmtap rules --signals
  llmtap rules --format json |
    jq -r '.[] | select(.rejected_by | index("anthropic/anthropic")) | .id'`,
	Run: runRules,
}

// ruleInfo is a rule as --format json prints it.
type ruleInfo struct {
	ID         string   `json:"id"`
	Title      string   `json:"title"`
	Doc        string   `json:"doc"`
	Fix        string   `json:"fix"`
	RejectedBy []string `json:"rejected_by"` // dialect/variant
}

func newRuleInfo(r *check.Rule) ruleInfo {
	_, doc, _ := strings.Cut(r.Doc, "\n")
	info := ruleInfo{ID: r.ID, Title: r.Title(), Doc: strings.TrimSpace(doc), Fix: r.Fix, RejectedBy: []string{}}
	for _, d := range wire.Dialects {
		for _, v := range d.Variants() {
			name := string(d) + "/" + string(v)
			if r.Severity(wire.Target{Dialect: d, Variant: v}) == check.Reject {
				info.RejectedBy = append(info.RejectedBy, name)
			} else if v == wire.Ollama && r.Severity(wire.Target{Dialect: d, Variant: v, Native: true}) == check.Reject {
				info.RejectedBy = append(info.RejectedBy, name+" (/api/chat)")
			}
		}
	}
	return info
}

func runRules(_ context.Context, c *command.Call) error {
	signals := c.Parameters.Bool("signals", false, "list the signals: findings that need more than one request")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	if *signals {
		return listSignals(c, *format)
	}
	chosen := rules.All
	if len(c.Args) > 0 {
		chosen = nil
		for _, id := range c.Args {
			r := rules.ByID(id)
			if r == nil {
				return command.BadInputf("no rule %q%s", id, nearRule(id))
			}
			chosen = append(chosen, r)
		}
	}
	infos := make([]ruleInfo, len(chosen))
	for i, r := range chosen {
		infos[i] = newRuleInfo(r)
	}
	switch {
	case *format == command.JSON:
		return command.WriteJSON(c.Stdout, infos)
	case len(c.Args) == 0:
		for i := range infos {
			fmt.Fprintf(c.Stdout, "%-32s %s\n", infos[i].ID, infos[i].Title)
		}
		fmt.Fprintln(c.Stdout, "\nExplain one: llmtap rules ID")
		return nil
	}
	for i := range infos {
		printRule(c, &infos[i])
	}
	return nil
}

func printRule(c *command.Call, r *ruleInfo) {
	fmt.Fprintf(c.Stdout, "%s: %s\n\n%s\n\nFix: %s\n", r.ID, r.Title, r.Doc, r.Fix)
	by := "nobody for certain"
	if len(r.RejectedBy) > 0 {
		by = strings.Join(r.RejectedBy, ", ")
	}
	fmt.Fprintf(c.Stdout, "Rejected by: %s\n\n", by)
}

// listSignals prints the signals, which are found beside the rules.
func listSignals(c *command.Call, format string) error {
	if format == command.JSON {
		return command.WriteJSON(c.Stdout, analyzer.Signals)
	}
	for _, s := range analyzer.Signals {
		fmt.Fprintf(c.Stdout, "%-32s %s\n", s.ID, s.Doc)
	}
	return nil
}

// nearRule names the rules that share a word with id.
func nearRule(id string) string {
	var near []string
	for _, r := range rules.All {
		if slices.ContainsFunc(strings.Split(id, "_"), func(word string) bool { return len(word) > 3 && strings.Contains(r.ID, word) }) {
			near = append(near, r.ID)
		}
	}
	if len(near) == 0 || len(near) > 8 {
		return "; llmtap rules lists them"
	}
	return "; did you mean " + strings.Join(near, ", ") + "?"
}
