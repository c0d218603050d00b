package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
)

const lintHelp = `Check recorded message histories before a provider does. Reads JSON or JSON lines, plain or gzip, of any mix of: request
bodies, bare message arrays, exchanges ({"request":…,"response":…,"status":…,"url":…}) and conversations
({"messages":…,"format":"openai.chat"}). Each is recognised by itself, and judged by the rules of the provider that its
URL names, else of its format, else of its model's maker.

  llmtap lint history.json
  my-agent --dump-request | llmtap lint -
  llmtap lint --dialect openai_chat/deepseek --format jsonl runs/*.jsonl.gz
  llmtap lint --severity reject --format sarif runs/*.jsonl > llmtap.sarif

Exit code: 0 nothing would be rejected, 1 something would, 2 input that cannot be read (the rest is still reported).
What a rule means: llmtap rules ID.`

func runLint(_ context.Context, c *cli) error {
	fs := c.flags("lint", lintHelp)
	dialect := fs.String("dialect", "auto", "whose rules apply: `auto|name[/variant]`, such as anthropic or openai_chat/mistral")
	format := fs.String("format", "text", "output as `text|jsonl|github|sarif`")
	minimum := fs.String("severity", "style", "lowest severity to report: `reject|lenient|style`")
	if err := c.parse(fs); err != nil {
		return err
	}
	var p lint.Printer
	switch *format {
	case "text":
		p = lint.Text{W: c.stdout}
	case "jsonl":
		p = lint.JSONL{E: json.NewEncoder(c.stdout)}
	case "github":
		p = lint.GitHub{W: c.stdout}
	case "sarif":
		p = &lint.SARIF{W: c.stdout, Version: buildVersion().Version}
	default:
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, jsonl, github, sarif", *format)}
	}
	l := lint.New(p)
	var err error
	if l.Minimum, err = lint.ParseSeverity(*minimum); err != nil {
		return &exitError{exitBadInput, err}
	}
	if l.Forced, err = lint.ParseTarget(*dialect); err != nil {
		return &exitError{exitBadInput, err}
	}
	files := fs.Args()
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if err := l.File(name, c.stdin); err != nil {
			return fmt.Errorf("write findings: %w", err)
		}
	}
	if err := p.Close(l.Counts); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	switch {
	case l.Counts.Unreadable > 0:
		return &exitError{code: exitBadInput}
	case l.Counts.Rejected > 0:
		return &exitError{code: exitFailed}
	}
	return nil
}
