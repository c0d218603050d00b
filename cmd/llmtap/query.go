package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

var queryCommand = &command.Command{
	Name:  "query",
	Args:  "[NAME]",
	Short: "Query ClickHouse: stored queries for incidents, or SQL",
	Long: `Without a name it lists the queries. Each has parameters of its own:
llmtap query NAME --help`,
	Examples: `  llmtap query
  llmtap query causes --since '15 minutes'
  llmtap query bursts --since 2026-11-20 --until 2026-11-21T09:30:00Z
  llmtap query conversation --conversation_id conv-7
  llmtap query usage --since 7d --format csv > usage.csv
  llmtap query --sql 'SELECT model, count() FROM exchanges_final GROUP BY ALL'`,
	Run: runQuery,
}

func runQuery(ctx context.Context, c *command.Call) error {
	q, err := query.New(c)
	if err != nil {
		return err
	}
	flags := serverFlags(c)
	format := c.Format(table.Formats...)
	if err := c.Parse(); err != nil {
		return err
	}
	width := terminal.Width(c.Getenv)
	if q.SQL == "" {
		return query.List(c.Stdout, width)
	}
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	params, err := q.Bind(servers.Prices)
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
	if q.Name != "" && *format == command.Text {
		fmt.Fprintf(c.Stdout, "%s\n\n", strings.Join(terminal.Wrap(q.Question, width, ""), "\n"))
	}
	return table.Write(c.Stdout, res, *format, width)
}
