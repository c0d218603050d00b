package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
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
	Run: runSchema,
}

func runSchema(ctx context.Context, c *command.Call) error {
	cluster := c.Parameters.String("cluster", "", "`name` of the cluster that tables are created on; existing tables know theirs")
	database := c.Parameters.String("database", chdb.Database, "print: `name` of the database")
	dryRun := c.Parameters.Bool("dry-run", false, "migrate: print the statements, run none")
	flags := serverFlags(c, "clickhouse.password_file")
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
	servers, err := flags.Load()
	if err != nil {
		return err
	}
	cfg, err := clickHouseConfig(servers)
	if err != nil {
		return err
	}
	cfg.Cluster = cmp.Or(*cluster, servers.ClickHouse.Cluster)
	if action == "migrate" && !*dryRun {
		return migrate(ctx, c, cfg)
	}
	st, err := clickhouse.Inspect(ctx, cfg)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if action == "status" {
		return printSchema(c.Stdout, st)
	}
	script, err := st.Script()
	if err == nil && script == "" {
		script = "-- nothing to do\n"
	}
	fmt.Fprint(c.Stdout, script)
	return errors.Join(err, unusable(st))
}

func migrate(ctx context.Context, c *command.Call, cfg clickhouse.Config) error {
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.NewTextHandler(c.Stderr, nil)), nil)
	if err != nil {
		return err
	}
	if err := sink.Close(); err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout, "up to date")
	return nil
}

func printSchema(w io.Writer, st *clickhouse.State) error {
	where := "on one server"
	if st.Cluster != "" {
		where = "on cluster " + st.Cluster + "; rows and bytes are those of the server that was asked"
	}
	if st.NoDatabase {
		where = "does not exist yet"
	}
	fmt.Fprintf(w, "database %s, %s\n\n", st.Database, where)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MIGRATION\tSTATE\tAPPLIED AT\tSHA-256")
	for _, m := range st.Migrations {
		at, sum := "", fmt.Sprintf("%.12s", m.Checksum)
		if !m.AppliedAt.IsZero() {
			at = m.AppliedAt.UTC().Format(time.RFC3339)
		}
		if m.State == clickhouse.Changed {
			sum += fmt.Sprintf(", applied was %.12s", m.Was)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", m.Name, m.State, at, sum)
	}
	if len(st.Tables) > 0 {
		fmt.Fprintln(tw, "\nTABLE\tROWS\tON DISK\tTTL")
	}
	for _, t := range st.Tables {
		ttl := t.TTL
		if ttl == "" {
			ttl = "none"
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\n", t.Name, t.Rows, config.FormatBytes(t.Bytes), ttl)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	switch {
	case len(st.In(clickhouse.Newer)) > 0:
		fmt.Fprintln(w, "\nThe database is of a newer release than this one. Rows of this one lack what that one added: finish the update.")
	case len(st.In(clickhouse.Pending)) > 0:
		fmt.Fprintln(w, "\nMigrations are pending: llmtap schema migrate, or the next start of llmtap up, applies them.")
	}
	return unusable(st)
}

// unusable is an error when Open would refuse the tables.
func unusable(st *clickhouse.State) error {
	if changed := st.In(clickhouse.Changed); len(changed) > 0 {
		return fmt.Errorf("migration %s was changed after it was applied: use the release that created this database, or an empty database", changed[0])
	}
	return nil
}
