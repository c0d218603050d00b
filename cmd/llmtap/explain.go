package main

import (
	"context"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/explain"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var explainCommand = &command.Command{
	Name:  "explain",
	Args:  "[FILE|TEXT|-]...",
	Short: "Explain why provider calls failed: cause, evidence, fix",
	Long: `Reads an error text of any form (exception, log, traceback, web page, body) or
records as JSON lines or a HAR, plain, gzip or zstd; the format is detected:

  {"id":…,"body":…,"status":400,"provider":"gemini"}             an error
  {"id":…,"request":…,"response":…,"status":400,"url":"https…"}  a call

A "request" and a "url" make the cause of an error more certain. With --unknown it
lists the stored error texts that llmtap cannot explain, one row per wording.

Requests, answers and logs of them are left out of a text, because a message may
contain the wording of any error. What remains must state an error.

Exit code: 0 whether or not an explanation was found, 2 if some input is
unreadable, 3 if some input is empty or a text without an error (the rest is
still explained).`,
	Examples: `  llmtap explain error.txt
  llmtap explain "Error code: 400 - {'error': {'message': …}}"
  my-agent 2>&1 | llmtap explain -
  llmtap explain --format jsonl errors.jsonl.gz | jq -r .cause | sort | uniq -c
  llmtap explain --unknown --since '30 days'`,
	Run: runExplain,
}

func runExplain(ctx context.Context, c *command.Call) error {
	unknown := c.Parameters.Bool("unknown", false, "list the stored error texts that llmtap cannot explain")
	since := c.Parameters.String("since", "7d", "with --unknown: start `time`")
	servers := connect.Flags(c)
	format, style := c.Format(table.Formats...), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	if *unknown {
		if len(c.Args) > 0 {
			return command.BadInputf("unexpected argument %q: --unknown reads no files", c.Args[0])
		}
		q, err := query.Named("unknown_errors", queries.Values{"since": {*since}})
		if err != nil {
			return err
		}
		return q.Run(ctx, c, servers, *format, style)
	}
	if len(c.Args) == 0 {
		return command.BadInputf("missing argument FILE|TEXT|-; see llmtap explain --help")
	}
	var p explain.Printer = explain.Text{W: c.Stdout, Style: style}
	if *format != command.Text {
		p = explain.Rows{E: &table.Encoder{W: c.Stdout, Format: *format}}
	}
	e := explain.New(p)
	if err := e.Inputs(c.Args, c.Stdin); err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	return command.Outcome(e.Counts.Unreadable, 0, e.Counts.Empty+e.Counts.NoError)
}
