package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/lint"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/mend"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

var repairCommand = &command.Command{
	Name:  "repair",
	Args:  "[FILE|-]",
	Short: "Repair a message history that a provider refuses",
	Long: `Reads a file as llmtap lint does, or the newest request of a stored conversation,
and writes the history with the fewest changes with which the provider accepts
it. What was changed, why, and what was lost is written to standard error. A
history without a fault is written unchanged, byte for byte.

What the provider accepted is never changed. If it refused a history in which the
rules find nothing, violations that explain its error are repaired, or else those
that only other providers refuse, as with --severity lenient.

A reply without its call gets the call back if an answer in the same file or
conversation contains it; otherwise the reply is removed. A call without a reply
gets an error as its reply. Ids, arguments, roles and the order are corrected.

--format patch writes a JSON patch (RFC 6902) with a reason per repair, to be
applied to the history that the agent stores. --format text writes only the
report.

llmtap query stuck lists the conversations that need it.

Exit code: 0 if the provider would accept the result; else the first that applies:
  2  some input is unreadable
  1  a violation or a recorded refusal is left, because there is no repair
     for it
  3  some input was not judged`,
	Examples: `  llmtap repair history.json > repaired.json
  llmtap repair --dialect anthropic --format text history.json
  llmtap repair --format patch history.json > patch.json
  llmtap query stuck
  llmtap repair --conversation order-7781 > repaired.json`,
	Run: runRepair,
}

func runRepair(ctx context.Context, c *command.Call) error {
	conversation := c.Parameters.String("conversation", "", "`id` of a stored conversation whose newest request is repaired")
	dialect := lint.DialectFlag(c.Parameters)
	severity := c.Choice(c.Parameters, "severity", string(check.Reject), "lowest `severity` to repair; lenient: also what only other providers refuse", string(check.Lenient), string(check.Reject))
	format := c.Choice(c.Parameters, "format", mend.JSON, "`format` of the output", mend.JSON, mend.Patch, mend.Text)
	servers := connect.Flags(c)
	style := c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	forced, err := lint.ParseTarget(*dialect)
	if err != nil {
		return command.BadInput(err)
	}
	m := mend.Mender{Format: *format, Forced: forced, Lenient: *severity == string(check.Lenient), Out: terminal.Exact(c.Stdout), Report: c.Stderr, Style: style}
	if *format == mend.Text {
		m.Report = c.Stdout
	}
	switch {
	case *conversation != "" && len(c.Args) > 0:
		return command.BadInputf("--conversation and a file exclude each other")
	case *conversation != "":
		err = servers.WithStore(ctx, func(q rows.Querier) error {
			h, err := mend.Stored(ctx, q, *conversation)
			if err != nil {
				return err
			}
			if forced != nil {
				h.Target.Dialect, h.Target.Variant = forced.Dialect, forced.Variant
			}
			return m.History(h)
		})
	default:
		err = repairFile(c, &m)
	}
	if err != nil {
		return err
	}
	return command.Outcome(m.Counts.Unreadable, m.Counts.Left, m.Counts.Unjudged)
}

func repairFile(c *command.Call, m *mend.Mender) error {
	name, r := "-", c.Stdin
	if len(c.Args) != 1 {
		return command.BadInputf("name a file, - for standard input, or --conversation")
	}
	if c.Args[0] != "-" {
		name = c.Args[0]
		f, err := os.Open(name)
		if err != nil {
			return command.BadInput(err)
		}
		defer func() { _ = f.Close() }() // used for reading only
		r = io.Reader(f)
	}
	if err := m.File(name, r); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}
