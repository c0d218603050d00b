package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/ruledoc"
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

func runRules(_ context.Context, c *command.Call) error {
	signals := c.Parameters.Bool("signals", false, "list the signals: findings that need more than one request")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	if *signals {
		return ruledoc.WriteSignals(c.Stdout, *format)
	}
	return ruledoc.Write(c.Stdout, c.Args, *format)
}
