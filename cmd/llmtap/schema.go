package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const schemaHelp = `The tables in ClickHouse. llmtap up makes them by itself; with this they can be looked at, or made before by someone else.

  llmtap schema status                       which migrations and tables there are
  llmtap schema migrate --dry-run            the statements that are missing
  llmtap schema migrate --clickhouse-dsn clickhouse://admin@ch.internal/llmtap
  llmtap schema print                        all statements, for clickhouse-client --multiquery
  llmtap schema print --cluster main         the same for a cluster: replicated and Distributed tables

print reads no server. Exit code of status: 1 when llmtap could not work with these tables as they are.`

func runSchema(ctx context.Context, c *cli) error {
	action := ""
	if len(c.args) > 0 && !strings.HasPrefix(c.args[0], "-") {
		action, c.args = c.args[0], c.args[1:]
	}
	fs := c.flags("schema", schemaHelp)
	dataDir := fs.String("data-dir", config.DefaultDataDir(c.getenv), "`directory` of a running llmtap with an embedded ClickHouse")
	cfg := clickhouse.Default()
	fs.StringVar(&cfg.DSN, "clickhouse-dsn", "", "ClickHouse `dsn`; empty: that of --data-dir")
	fs.StringVar(&cfg.PasswordFile, "clickhouse-password-file", "", "`file` with the password")
	fs.BoolVar(&cfg.AllowSkipVerify, "clickhouse-allow-skip-verify", false, "permit skip_verify=true in the DSN")
	fs.StringVar(&cfg.Cluster, "cluster", "", "`name` of the cluster whose servers hold the tables; of tables that exist it is known")
	database := fs.String("database", chdb.Database, "print: `name` of the database")
	dryRun := fs.Bool("dry-run", false, "migrate: print the statements, run none")
	if err := c.parse(fs); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return &exitError{exitBadInput, fmt.Errorf("%q is left over: llmtap schema takes one of migrate, status and print, then flags", fs.Arg(0))}
	}
	switch action {
	case "print":
		script, err := clickhouse.Script(cfg.Cluster, *database)
		fmt.Fprint(c.stdout, script)
		return err
	case "status", "migrate":
	default:
		return &exitError{exitBadInput, fmt.Errorf("%q is none of migrate, status, print; see llmtap schema --help", action)}
	}
	if cfg.DSN == "" {
		running, ok := chdb.Running(config.ClickHouseDir(*dataDir))
		if !ok {
			return fmt.Errorf("no llmtap runs on %s; start one with llmtap up, or give --data-dir or --clickhouse-dsn", *dataDir)
		}
		cfg.DSN = running
	}
	if err := cfg.Validate(); err != nil {
		return &exitError{exitBadInput, err}
	}
	if action == "migrate" && !*dryRun {
		return migrate(ctx, c, cfg)
	}
	st, err := clickhouse.ReadSchema(ctx, cfg)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if action == "status" {
		return printSchema(c.stdout, st)
	}
	script, err := st.Script()
	if err == nil && script == "" {
		script = "-- nothing to do\n"
	}
	fmt.Fprint(c.stdout, script)
	return errors.Join(err, unusable(st))
}

func migrate(ctx context.Context, c *cli, cfg clickhouse.Config) error {
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.NewTextHandler(c.stderr, nil)), nil)
	if err != nil {
		return err
	}
	if err := sink.Close(); err != nil {
		return err
	}
	fmt.Fprintln(c.stdout, "up to date")
	return nil
}

func printSchema(w io.Writer, st *clickhouse.SchemaState) error {
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
	case st.Has(clickhouse.Newer):
		fmt.Fprintln(w, "\nThe database is of a newer release than this one. Rows of this one lack what that one added: finish the update.")
	case st.Has(clickhouse.Pending):
		fmt.Fprintln(w, "\nMigrations are pending: llmtap schema migrate, or the next start of llmtap up, applies them.")
	}
	return unusable(st)
}

// unusable is an error when Open would refuse the tables.
func unusable(st *clickhouse.SchemaState) error {
	for _, m := range st.Migrations {
		if m.State == clickhouse.Changed {
			return fmt.Errorf("migration %s was changed after it was applied: use the release that made this database, or an empty database", m.Name)
		}
	}
	return nil
}
