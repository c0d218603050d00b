package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const queryHelp = `Ask ClickHouse. Without a name it lists the questions that llmtap knows; what a question can be told is in its help.

  llmtap query
  llmtap query causes --since '15 minutes'
  llmtap query bursts --since 2026-11-20 --until 2026-11-21T09:30:00Z --service planner-api
  llmtap query conversation --conversation_id conv-7
  llmtap query usage --since 7d --format csv > usage.csv
  llmtap query usage --help
  llmtap query --sql 'SELECT stage, count() FROM exchanges_final GROUP BY stage'`

// timeHelp follows the help of each parameter that is a time.
const timeHelp = ": such as 15 minutes, 2h, 7d, 2026-11-20 or 2026-11-20T09:30:00Z"

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
		help = q.Question + "\n\n" + examples(q)
	}
	fs := c.flags("query", help)
	var store storeArgs
	fs.StringVar(&store.file, "config", "", "configuration `file`, with the prices and where ClickHouse is; "+config.SystemFile+" when there is one")
	fs.StringVar(&store.dataDir, "data-dir", "", "`directory` of a running llmtap with an embedded ClickHouse; empty: that of the configuration")
	fs.StringVar(&store.dsn, "clickhouse-dsn", "", "ClickHouse `dsn`; empty: that of the configuration")
	format := fs.String("format", "table", "output as `table|json|csv|jsonl`")
	sql := ""
	if q.Name == "" {
		fs.StringVar(&sql, "sql", "", "`statement` of your own")
	}
	given := map[string]string{}
	own := map[string]bool{} // variables of the environment that are no flags of this command
	for _, p := range q.Params {
		own[config.FlagEnv(p.Name)] = true
		fs.Func(p.Name, paramHelp(p), func(v string) error {
			given[p.Name] = v
			return nil
		})
	}
	// A service or a stage is not taken from the environment: it would hide rows unasked.
	flags := *c
	flags.getenv = func(name string) string {
		if own[name] {
			return ""
		}
		return c.getenv(name)
	}
	if err := flags.parse(fs); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return &exitError{exitBadInput, fmt.Errorf("%q is left over: the name of the question comes first", fs.Arg(0))}
	}
	printer, ok := printers[*format]
	if !ok {
		return &exitError{exitBadInput, fmt.Errorf("format: %q is none of table, json, csv, jsonl", *format)}
	}
	if q.Name == "" && sql == "" {
		return listQueries(c.stdout, terminalWidth(c.getenv))
	}
	params, err := q.Bind(given)
	if err != nil {
		return &exitError{exitBadInput, err}
	}
	if q.Name != "" {
		sql = q.SQL
	}
	s, err := config.Load(store.file, c.getenv)
	if err != nil {
		return err
	}
	if slices.Contains(q.Bound, "prices") {
		params["prices"] = s.Prices.Bound()
	}
	sink, err := store.open(ctx, &s.Config)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	res, err := sink.Query(ctx, sql, params)
	if err != nil {
		return err
	}
	if q.Name != "" && (*format == "table" || *format == "text") {
		fmt.Fprintf(c.stdout, "%s\n\n", strings.ReplaceAll(strings.Join(wrap(q.Question, terminalWidth(c.getenv)), "\n"), "\n  ", "\n"))
	}
	return printer(c.stdout, res, terminalWidth(c.getenv))
}

// paramHelp says what p is, and what it is when it is not given.
func paramHelp(p queries.Param) string {
	help := p.Doc
	if p.Time {
		help += timeHelp
	}
	switch {
	case p.Required:
		return help + " (required)"
	case p.Default == "":
		return help
	}
	return help + " (default " + p.Default + ")"
}

// examples are ways to ask q.
func examples(q queries.Query) string {
	ask := "  llmtap query " + q.Name
	lines := []string{""}
	for _, p := range q.Params {
		switch {
		case p.Name == "text":
			lines[0] += " --text 'connection refused'"
		case p.Required:
			lines[0] += " --" + p.Name + " conv-7"
		case p.Name == "since":
			lines = append(lines, lines[0]+" --since '15 minutes'", lines[0]+" --since 2026-11-20 --until 2026-11-21T09:30:00Z")
		case p.Name == "service":
			lines = append(lines, lines[0]+" --since 7d --service planner-api --format csv")
		}
	}
	return ask + strings.Join(lines, "\n"+ask)
}

// storeArgs say which ClickHouse is asked.
type storeArgs struct{ file, dataDir, dsn string }

// open opens the ClickHouse that the arguments name, else that of the configuration.
func (a storeArgs) open(ctx context.Context, cfg *config.Config) (*clickhouse.Sink, error) {
	switch {
	case a.dsn != "" || a.dataDir != "":
		return openStore(ctx, a.dsn, a.dataDir)
	case cfg.ClickHouse.DSN == "":
		return openStore(ctx, "", cfg.DataDir)
	}
	return openClickHouse(ctx, cfg.ClickHouse.DSN, cfg.ClickHouse.PasswordFile)
}

// openStore opens the ClickHouse at dsn, else the embedded one of a llmtap that runs on dataDir.
func openStore(ctx context.Context, dsn, dataDir string) (*clickhouse.Sink, error) {
	if dsn == "" {
		running, ok := chdb.Running(config.ClickHouseDir(dataDir))
		if !ok {
			return nil, fmt.Errorf("no llmtap runs on %s; start one with llmtap up, or give --data-dir or --clickhouse-dsn", dataDir)
		}
		dsn = running
	}
	return openClickHouse(ctx, dsn, "")
}

func openClickHouse(ctx context.Context, dsn, passwordFile string) (*clickhouse.Sink, error) {
	cfg := clickhouse.Default()
	cfg.DSN, cfg.PasswordFile = dsn, passwordFile
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("reach ClickHouse: %w", err)
	}
	return sink, nil
}

// listQueries prints the questions by group.
func listQueries(w io.Writer, width int) error {
	byGroup := map[string][]queries.Query{}
	longest := 0
	for _, name := range queries.Names() {
		q, err := queries.Get(name)
		if err != nil {
			return err
		}
		byGroup[q.Group] = append(byGroup[q.Group], q)
		longest = max(longest, len(name))
	}
	var b strings.Builder
	for _, group := range queries.Groups() {
		fmt.Fprintf(&b, "%s\n", group)
		for _, q := range byGroup[group] {
			name := q.Name
			for _, line := range wrap(q.Question, max(30, width-longest-4)) {
				fmt.Fprintf(&b, "  %-*s  %s\n", longest, name, strings.TrimSpace(line))
				name = ""
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("Ask one:             llmtap query causes --since '15 minutes'\nWhat it can be told: llmtap query causes --help\n")
	_, err := io.WriteString(w, b.String())
	return err
}
