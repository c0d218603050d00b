package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/schema"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var schemaCommand = &command.Command{
	Name:  "schema",
	Args:  "status|migrate|print",
	Short: "Show, create or print the tables in ClickHouse",
	Long: `  status   list migrations and tables; exit code 1 if they are unusable
  migrate  apply missing migrations, as llmtap up does at start
  print    print all statements, for clickhouse-client --multiquery, offline`,
	Examples: `  llmtap schema status
  llmtap schema migrate --dry-run
  llmtap schema migrate --clickhouse-dsn clickhouse://admin@ch.internal/llmtap
  llmtap schema print --cluster main`,
	Values: func() []string { return []string{"status", "migrate", "print"} },
	Run:    runSchema,
}

func runSchema(ctx context.Context, c *command.Call) error {
	cluster := c.Parameters.String("cluster", "", "`name` of the cluster that tables are created on; existing tables know theirs")
	database := c.Parameters.String("database", chdb.Database, "print: `name` of the database")
	dryRun := c.Parameters.Bool("dry-run", false, "migrate: print the statements, run none")
	servers := connect.DirectFlags(c, "clickhouse.password_file")
	style := c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	action := c.Args[0]
	switch action {
	case "print":
		script, err := clickhouse.Script(*cluster, *database)
		fmt.Fprint(c.Stdout, script)
		return err
	case "status", "migrate":
	default:
		return command.BadInputf("unknown action %q; see llmtap schema --help", action)
	}
	cfg, err := servers.ClickHouse()
	if err != nil {
		return err
	}
	cfg.Cluster = cmp.Or(*cluster, cfg.Cluster)
	switch {
	case action == "status":
		return schema.Status(ctx, c.Stdout, cfg, style)
	case *dryRun:
		return schema.Plan(ctx, c.Stdout, cfg)
	}
	return schema.Migrate(ctx, c.Stdout, cfg, slog.New(slog.NewTextHandler(c.Stderr, nil)))
}
