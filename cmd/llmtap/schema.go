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
	Args:  "status|migrate|print|verify",
	Short: "Show, create, print or verify the tables in ClickHouse",
	Long: `  status   list migrations and tables; exit code 1 if they are unusable
  migrate  apply missing migrations, as llmtap up does at start
  print    print all statements, for clickhouse-client --multiquery, offline
  verify   prove that llmtap works with a server or cluster, in a database that
           it creates and drops; exit code 1 if a step fails`,
	Examples: `  llmtap schema status
  llmtap schema migrate --dry-run
  llmtap schema migrate --clickhouse-dsn clickhouse://admin@ch.internal/llmtap
  llmtap schema print --cluster main
  llmtap schema verify --clickhouse-dsn clickhouse://llmtap@ch1,ch2/llmtap \
    --clickhouse-password-file ch.password --cluster main`,
	Values: func() []string { return []string{"status", "migrate", "print", "verify"} },
	Run:    runSchema,
}

func runSchema(ctx context.Context, c *command.Call) error {
	cluster := c.Parameters.String("cluster", "", "`name` of the cluster that tables are created on; existing tables know theirs")
	database := c.Parameters.String("database", "", "print: `name` of the database (default "+chdb.Database+"); verify: of the database to create (default NAME_verify)")
	dryRun := c.Parameters.Bool("dry-run", false, "migrate: print the statements, run none")
	keep := c.Parameters.Bool("keep", false, "verify: do not drop the database")
	servers := connect.DirectFlags(c, "clickhouse.password_file")
	style := c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	action := c.Args[0]
	switch action {
	case "print":
		script, err := clickhouse.Script(*cluster, cmp.Or(*database, chdb.Database))
		fmt.Fprint(c.Stdout, script)
		return err
	case "status", "migrate", "verify":
	default:
		return command.BadInputf("unknown action %q; see llmtap schema --help", action)
	}
	cfg, err := servers.ClickHouse()
	if err != nil {
		return err
	}
	cfg.Cluster = cmp.Or(*cluster, cfg.Cluster)
	switch {
	case action == "verify":
		v := clickhouse.VerifyConfig{Config: cfg, ScratchDatabase: *database, Keep: *keep}
		ok, err := schema.Verify(ctx, c.Stdout, v, style)
		if err == nil && !ok {
			err = &command.ExitError{Code: command.ExitFailed}
		}
		return err
	case action == "status":
		return schema.Status(ctx, c.Stdout, cfg, style)
	case *dryRun:
		return schema.Plan(ctx, c.Stdout, cfg)
	}
	return schema.Migrate(ctx, c.Stdout, cfg, slog.New(slog.NewTextHandler(c.Stderr, nil)))
}
