package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/explain"
	"github.com/llmtap/llmtap/dashboards/queries"
)

const explainHelp = `Say why provider calls failed: the cause, how it is known, what it means, what to do. Reads an error text of any form
(an exception, a log, a traceback, a page, a body), or JSON lines of records, plain or gzip, and tells by itself which:

  {"id":…,"body":…,"status":400,"provider":"gemini"}             an error; "request" and "url" let the request tell
  {"id":…,"request":…,"response":…,"status":400,"url":"https…"}  an exchange

  llmtap explain error.txt
  llmtap explain "Error code: 400 - {'error': {'message': …}}"
  my-agent 2>&1 | llmtap explain -
  llmtap explain --format jsonl errors.jsonl.gz | jq -r .cause | sort | uniq -c
  llmtap explain --unknown --since '30 days'

With --unknown it asks ClickHouse for the texts of failed calls that nothing explained, one row for each wording.

Exit code: 0 explained or not, 2 input that cannot be read (the rest is still explained).`

// unknownQuery is the question of --unknown.
const unknownQuery = "unknown_errors"

func runExplain(ctx context.Context, c *cli) error {
	fs := c.flags("explain", explainHelp)
	format := fs.String("format", "text", "output as `text|jsonl`")
	unknown := fs.Bool("unknown", false, "list the error texts of a running llmtap that nothing explains")
	since := fs.String("since", "", "with --unknown: how `long` back to look (default 7 days)")
	dataDir := fs.String("data-dir", config.DefaultDataDir(c.getenv), "with --unknown: `directory` of a running llmtap with an embedded ClickHouse")
	dsn := fs.String("clickhouse-dsn", "", "with --unknown: ClickHouse `dsn`; empty: that of --data-dir")
	if err := c.parse(fs); err != nil {
		return err
	}
	if *format != "text" && *format != "jsonl" {
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of text, jsonl", *format)}
	}
	if *unknown {
		if fs.NArg() > 0 {
			return &exitError{exitBadInput, fmt.Errorf("%q: --unknown reads no files", fs.Arg(0))}
		}
		return listUnknown(ctx, c, *dsn, *dataDir, *since, *format)
	}
	var p explain.Printer = explain.Text{W: c.stdout}
	if *format == "jsonl" {
		p = explain.JSONL{E: json.NewEncoder(c.stdout)}
	}
	e := explain.New(p)
	inputs := fs.Args()
	if len(inputs) == 0 {
		inputs = []string{"-"}
	}
	for _, in := range inputs {
		err := error(nil)
		if isText(in) {
			err = e.Text(explain.Argument, []byte(in))
		} else {
			err = e.File(in, c.stdin)
		}
		if err != nil {
			return fmt.Errorf("write explanation: %w", err)
		}
	}
	if err := p.Close(e.Counts); err != nil {
		return fmt.Errorf("write explanation: %w", err)
	}
	if e.Counts.Unreadable > 0 {
		return &exitError{code: exitBadInput}
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
func listUnknown(ctx context.Context, c *cli, dsn, dataDir, since, format string) error {
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
	sink, err := openStore(ctx, dsn, dataDir)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	res, err := sink.Query(ctx, q.SQL, params)
	if err != nil {
		return err
	}
	if format == "jsonl" {
		return printJSONLines(c.stdout, res)
	}
	return printTable(c.stdout, res, terminalWidth(c.getenv))
}
