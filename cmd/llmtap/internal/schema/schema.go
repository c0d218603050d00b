// Package schema reports the tables in ClickHouse and creates them.
package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Status writes the migrations and tables to w. It returns an error if llmtap cannot use the tables.
func Status(ctx context.Context, w io.Writer, cfg clickhouse.Config, style *terminal.Style) error {
	st, err := clickhouse.Inspect(ctx, cfg)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	where := "on one server"
	if st.Cluster != "" {
		where = "on cluster " + st.Cluster + "; rows and bytes are those of the queried server"
	}
	if st.NoDatabase {
		where = "does not exist yet"
	}
	fmt.Fprintf(w, "database %s, %s\n\n", st.Database, where)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "MIGRATION\tSTATE\tAPPLIED AT\tSHA-256")
	for _, m := range st.Migrations {
		sum := fmt.Sprintf("%.12s", m.Checksum)
		if m.State == clickhouse.Changed {
			sum += fmt.Sprintf(", applied was %.12s", m.Was)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", m.Name, m.State, style.Time(m.AppliedAt), sum)
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
		fmt.Fprintln(w, "\nA newer release created these tables. Rows of this release lack the new columns: finish the update.")
	case len(st.In(clickhouse.Pending)) > 0:
		fmt.Fprintln(w, "\nMigrations are pending: llmtap schema migrate, or the next start of llmtap up, applies them.")
	}
	return usable(st)
}

// Plan writes the statements of Migrate to w.
func Plan(ctx context.Context, w io.Writer, cfg clickhouse.Config) error {
	st, err := clickhouse.Inspect(ctx, cfg)
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	script, err := st.Script()
	if err == nil && script == "" {
		script = "-- nothing to do\n"
	}
	fmt.Fprint(w, script)
	return errors.Join(err, usable(st))
}

// Migrate applies the pending migrations.
func Migrate(ctx context.Context, w io.Writer, cfg clickhouse.Config, logger *slog.Logger) error {
	sink, err := clickhouse.Open(ctx, cfg, logger, nil)
	if err != nil {
		return err
	}
	if err := sink.Close(); err != nil {
		return err
	}
	fmt.Fprintln(w, "up to date")
	return nil
}

// usable returns an error if clickhouse.Open would reject the tables.
func usable(st *clickhouse.State) error {
	if changed := st.In(clickhouse.Changed); len(changed) > 0 {
		return fmt.Errorf("migration %s was changed after it was applied: use the release that created this database, or an empty database", changed[0])
	}
	return nil
}
