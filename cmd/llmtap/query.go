package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const queryHelp = `Ask ClickHouse. Without a name it lists the questions that llmtap knows; what a question can be told is in its help.

  llmtap query
  llmtap query causes --since '15 minutes'
  llmtap query conversation --conversation_id conv-7
  llmtap query conversation --help
  llmtap query failures_by_stage --format jsonl
  llmtap query --sql 'SELECT stage, count() FROM exchanges_final GROUP BY stage'`

func runQuery(ctx context.Context, c *cli) error {
	// The name comes first, because it decides which flags there are.
	var q queries.Query
	if len(c.args) > 0 && !strings.HasPrefix(c.args[0], "-") {
		var err error
		if q, err = queries.Get(c.args[0]); err != nil {
			return &exitError{exitBadInput, err}
		}
		c.args = c.args[1:]
	}
	help := queryHelp
	if q.Name != "" {
		help = q.Question + "\n\n  llmtap query " + q.Name
	}
	fs := c.flags("query", help)
	dataDir := fs.String("data-dir", defaultDataDir(c.getenv), "`directory` of a running llmtap with an embedded ClickHouse")
	dsn := fs.String("clickhouse-dsn", "", "ClickHouse `dsn`; empty: that of --data-dir")
	format := fs.String("format", "text", "output as `text|jsonl`")
	sql := ""
	if q.Name == "" {
		fs.StringVar(&sql, "sql", "", "`statement` of your own")
	}
	given := map[string]string{}
	for _, p := range q.Params {
		fs.Func(p.Name, p.Doc+defaultNote(p), func(v string) error {
			given[p.Name] = v
			return nil
		})
	}
	if err := c.parse(fs); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return &exitError{exitBadInput, fmt.Errorf("%q is left over: the name of the question comes first", fs.Arg(0))}
	}
	if q.Name == "" && sql == "" {
		return listQueries(c.stdout)
	}
	params, err := q.Bind(given)
	if err != nil {
		return &exitError{exitBadInput, err}
	}
	if q.Name != "" {
		sql = q.SQL
	}
	sink, err := openStore(ctx, *dsn, *dataDir)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	res, err := sink.Query(ctx, sql, params)
	if err != nil {
		return err
	}
	if *format == "jsonl" {
		return printJSONLines(c.stdout, res)
	}
	if q.Name != "" {
		fmt.Fprintf(c.stdout, "%s\n\n", q.Question)
	}
	return printTable(c.stdout, res, terminalWidth(c.getenv))
}

func defaultNote(p queries.Param) string {
	if p.Required {
		return " (required)"
	}
	return " (default " + p.Default + ")"
}

// openStore opens the ClickHouse at dsn, else the embedded one of a llmtap that runs on dataDir.
func openStore(ctx context.Context, dsn, dataDir string) (*clickhouse.Sink, error) {
	if dsn == "" {
		running, ok := chdb.Running(clickhouseDir(dataDir))
		if !ok {
			return nil, fmt.Errorf("no llmtap runs on %s; start one with llmtap up, or give --data-dir or --clickhouse-dsn", dataDir)
		}
		dsn = running
	}
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("reach ClickHouse: %w", err)
	}
	return sink, nil
}

func listQueries(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range queries.Names() {
		q, err := queries.Get(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(tw, "%s\t%s\n", name, q.Question)
	}
	return tw.Flush()
}
