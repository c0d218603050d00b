package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
)

var lintCommand = &command.Command{
	Name:  "lint",
	Args:  "FILE|-...",
	Short: "Check recorded message histories before a provider rejects them",
	Long: `Reads files, the .json, .jsonl, .ndjson and .har files of directories, or
standard input (-): a HAR, or JSON or JSON lines with any mix of
  request bodies
  message arrays
  calls          {"request":…,"response":…,"status":…,"url":…}
  batch requests {"custom_id":…,"url":…,"body":…}, {"custom_id":…,"params":…}
  conversations  {"messages":…,"format":"openai.chat"}
Files may be compressed with gzip or zstd, and UTF-8 or UTF-16. A record may
have 64 MiB. The provider whose rules apply follows from the URL, else from the
format, else from the model name. llmtap rules ID explains a rule.

With --cache, it compares each request with the one before it in its conversation
and reports what the provider cannot read from its prompt cache, why, and how
many tokens that is; or bytes, if the answers do not report tokens. Request
bodies without answers are one conversation per file, in order.

Exit code: 0 if all requests were judged and none is or would be rejected; else the
first that applies (the rest of the input is still checked):
  2  some input is unreadable
  1  a request would be rejected, and no recorded status 2xx says otherwise, or
     a recorded answer refused its content; with --cache: a request breaks the
     prompt cache for a reason that a change of the agent avoids
  3  some input was not judged: a file without records, a request without
     messages or for another API, an unknown format, more than 65,536 messages,
     calls, replies or tools; with --cache: a provider of whose cache nothing is
     documented`,
	Examples: `  llmtap lint history.json
  llmtap lint recorded/
  my-agent --dump-request | llmtap lint -
  llmtap lint --dialect openai_chat/deepseek --format jsonl runs/*.jsonl.gz
  llmtap lint --previous-response-id resp_1 items.json
  llmtap lint --cache recorded/*.jsonl
  llmtap lint --severity reject --format sarif runs/*.jsonl > llmtap.sarif`,
	Run: runLint,
}

// memoryLimit is the soft memory limit of lint, above the limits of its input and of its conversations.
const memoryLimit = 160 << 20

func runLint(ctx context.Context, c *command.Call) error {
	dialect := lint.DialectFlag(c.Flags)
	previous := c.Flags.String("previous-response-id", "", "`id` of the answer that Responses inputs without one continue; its calls are unknown")
	cache := c.Flags.Bool("cache", false, "report what breaks the provider's prompt cache from one request to the next, instead of violations")
	minimum := c.Choice(c.Flags, "severity", string(check.Style), "lowest `severity` to report", lint.Severities()...)
	format := c.Format(command.Text, command.JSON, command.JSONL, "github", "sarif")
	style := c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	l := lint.New(map[string]lint.Printer{
		command.Text:  lint.Text{W: c.Stdout, Style: style, Cache: *cache},
		command.JSON:  lint.Rows{E: &table.Encoder{W: c.Stdout, Format: *format}},
		command.JSONL: lint.Rows{E: &table.Encoder{W: c.Stdout, Format: *format}},
		"github":      lint.GitHub{W: c.Stdout},
		"sarif":       &lint.SARIF{W: c.Stdout, Version: buildVersion().Version},
	}[*format])
	l.Minimum, l.PreviousResponse, l.Cache = check.Severity(*minimum), *previous, *cache
	var err error
	if l.Forced, err = lint.ParseTarget(*dialect); err != nil {
		return command.BadInput(err)
	}
	// Records of up to 64 MiB leave garbage of that size, so the default pace of the collector would double the memory.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(memoryLimit))
	if err := l.Files(ctx, c.Args, c.Stdin); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	return command.Outcome(l.Counts.Unreadable, l.Counts.Rejected+l.Counts.Refused+l.Counts.Broken, l.Counts.Unjudged)
}
