package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/ruledoc"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
)

var rulesCommand = &command.Command{
	Name:  "rules",
	Args:  "[ID]...",
	Short: "List or explain rules, causes, root causes and signals",
	Long: `The ids are those of alerts, findings and queries. An explanation contains the
meaning of the id and the fix for the agent; for a rule, also the reason why
providers reject a violation, and which providers do.`,
	Examples: `  llmtap rules
  llmtap rules orphan_tool_reply tool_calls_dropped_on_save
  llmtap rules --kind signal
  llmtap rules --format json |
    jq -r '.[] | select(.rejected_by | index("anthropic/anthropic")) | .id'`,
	Values: ruledoc.IDs,
	Run:    runRules,
}

func runRules(_ context.Context, c *command.Call) error {
	kind := c.Choice(c.Parameters, "kind", "", "only entries of this `kind`", ruledoc.Kinds...)
	format, style := c.Format(table.Formats...), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	entries, err := ruledoc.Select(c.Args, *kind)
	if err != nil {
		return err
	}
	return ruledoc.Write(c.Stdout, entries, len(c.Args) > 0, *format, style)
}
