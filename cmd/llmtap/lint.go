package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
)

var lintCommand = &command.Command{
	Name:  "lint",
	Args:  "[FILE]...",
	Short: "Check recorded message histories before a provider rejects them",
	Long: `Reads files or standard input: JSON or JSON lines, plain or gzip, any mix of
  request bodies
  message arrays
  exchanges      {"request":…,"response":…,"status":…,"url":…}
  conversations  {"messages":…,"format":"openai.chat"}
The provider whose rules apply follows from the URL, else from the format, else
from the model name. llmtap rules ID explains a rule.

Exit code: 0 if no request would be rejected, 1 if one would, 2 if some input is
unreadable (the rest is still checked).`,
	Examples: `  llmtap lint history.json
  my-agent --dump-request | llmtap lint -
  llmtap lint --dialect openai_chat/deepseek --format jsonl runs/*.jsonl.gz
  llmtap lint --severity reject --format sarif runs/*.jsonl > llmtap.sarif`,
	Run: runLint,
}

func runLint(_ context.Context, c *command.Call) error {
	dialect := c.Flags.String("dialect", "auto", "whose rules apply: auto or a `dialect[/variant]`, such as anthropic or openai_chat/mistral")
	minimum := c.Flags.String("severity", "style", "lowest severity to report, `reject|lenient|style`")
	format := c.Format(command.Text, command.JSONL, "github", "sarif")
	if err := c.Parse(); err != nil {
		return err
	}
	l := lint.New(map[string]lint.Printer{
		command.Text:  lint.Text{W: c.Stdout},
		command.JSONL: lint.JSONL{E: json.NewEncoder(c.Stdout)},
		"github":      lint.GitHub{W: c.Stdout},
		"sarif":       &lint.SARIF{W: c.Stdout, Version: buildVersion().Version},
	}[*format])
	var err error
	if l.Minimum, err = lint.ParseSeverity(*minimum); err != nil {
		return command.BadInput(err)
	}
	if l.Forced, err = lint.ParseTarget(*dialect); err != nil {
		return command.BadInput(err)
	}
	if err := l.Files(c.Args, c.Stdin); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	switch {
	case l.Counts.Unreadable > 0:
		return &command.ExitError{Code: command.ExitBadInput}
	case l.Counts.Rejected > 0:
		return &command.ExitError{Code: command.ExitFailed}
	}
	return nil
}
