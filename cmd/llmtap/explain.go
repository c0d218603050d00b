package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/explain"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var explainCommand = &command.Command{
	Name:  "explain",
	Args:  "[FILE|TEXT]...",
	Short: "Explain why provider calls failed: cause, evidence, fix",
	Long: `Reads an error text of any form (exception, log, traceback, web page, body) or
records as JSON lines, plain or gzip; the format is detected:

  {"id":…,"body":…,"status":400,"provider":"gemini"}             an error
  {"id":…,"request":…,"response":…,"status":400,"url":"https…"}  an exchange

A "request" and a "url" make the cause of an error more certain. With --unknown it
lists the stored error texts that llmtap cannot explain, one row per wording.

Exit code: 0 whether explained or not, 2 if some input is unreadable (the rest is
still explained).`,
	Examples: `  llmtap explain error.txt
  llmtap explain "Error code: 400 - {'error': {'message': …}}"
  my-agent 2>&1 | llmtap explain -
  llmtap explain --format jsonl errors.jsonl.gz | jq -r .cause | sort | uniq -c
  llmtap explain --unknown --since '30 days'`,
	Run: runExplain,
}

// unknownQuery is the question of --unknown.
const unknownQuery = "unknown_errors"

func runExplain(ctx context.Context, c *command.Call) error {
	unknown := c.Parameters.Bool("unknown", false, "list the stored error texts that llmtap cannot explain")
	since := c.Parameters.String("since", "", "with --unknown: start `time`; empty: 7 days ago")
	flags := serverFlags(c)
	format := c.Format(command.Text, command.JSONL)
	if err := c.Parse(); err != nil {
		return err
	}
	if *unknown {
		if len(c.Args) > 0 {
			return command.BadInputf("unexpected argument %q: --unknown reads no files", c.Args[0])
		}
		return listUnknown(ctx, c, flags, *since, *format)
	}
	var p explain.Printer = explain.Text{W: c.Stdout}
	if *format == "jsonl" {
		p = explain.JSONL{E: json.NewEncoder(c.Stdout)}
	}
	e := explain.New(p)
	inputs := c.Args
	if len(inputs) == 0 {
		inputs = []string{"-"}
	}
	for _, in := range inputs {
		err := error(nil)
		if isText(in) {
			err = e.Text(explain.Argument, []byte(in))
		} else {
			err = e.File(in, c.Stdin)
		}
		if err != nil {
			return fmt.Errorf("write explanation: %w", err)
		}
	}
	if err := p.Close(e.Counts); err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	if e.Counts.Unreadable > 0 {
		return &command.ExitError{Code: command.ExitBadInput}
	}
	return nil
}

// isText reports whether an argument is an error text itself: it is no file, and no name that somebody mistyped.
func isText(arg string) bool {
	if _, err := os.Stat(arg); err == nil {
		return false
	}
	return strings.ContainsAny(arg, " \n{<")
}

// listUnknown prints the wordings that nothing explains.
func listUnknown(ctx context.Context, c *command.Call, flags *config.Flags, since, format string) error {
	q, err := queries.Get(unknownQuery)
	if err != nil {
		return err
	}
	given := map[string]string{}
	if since != "" {
		given["since"] = since
	}
	params, err := q.Bind(given)
	if err != nil {
		return err
	}
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	sink, err := openClickHouse(ctx, servers)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	res, err := sink.Query(ctx, q.SQL, params)
	if err != nil {
		return err
	}
	return table.Write(c.Stdout, res, format, terminal.Width(c.Getenv))
}
