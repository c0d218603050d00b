package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var queryCommand = &command.Command{
	Name:  "query",
	Args:  "[NAME]",
	Short: "Query ClickHouse: stored queries for incidents, or SQL",
	Long: `Without a name it lists the queries. Each has parameters of its own:
llmtap query NAME --help`,
	Examples: `  llmtap query
  llmtap query causes --since '15 minutes'
  llmtap query is_it_over --service checkout --attr tenant=acme
  llmtap query bursts --since 2026-11-20 --until 2026-11-21T09:30:00Z
  llmtap query conversation --conversation_id conv-7
  llmtap query usage --since 7d --format csv > usage.csv
  llmtap query --sql 'SELECT model, count() FROM exchanges_final GROUP BY ALL'`,
	Values: queries.Names,
	Run:    runQuery,
}

func runQuery(ctx context.Context, c *command.Call) error {
	servers := connect.Flags(c)
	format, style := c.Format(table.Formats...), c.Style()
	q, err := query.New(c)
	if err != nil {
		return err
	}
	if err := c.Parse(); err != nil {
		return err
	}
	if q.SQL == "" {
		return query.List(c.Stdout, style.Width)
	}
	return q.Run(ctx, c, servers, *format, style)
}
