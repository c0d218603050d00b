package schema

import (
	"context"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

func TestMain(m *testing.M) {
	chdb.RunChild()
	os.Exit(m.Run())
}

// The reports on a real engine, before and after the migrations.
func TestSchema(t *testing.T) {
	collectortest.NeedClickHouse(t)
	cfg := clickhouse.Default()
	cfg.DSN = collectortest.StartClickHouse(t).DSN()
	migrate := func(ctx context.Context, w io.Writer, cfg clickhouse.Config) error {
		return Migrate(ctx, w, cfg, slog.New(slog.NewTextHandler(w, nil)))
	}
	status := func(ctx context.Context, w io.Writer, cfg clickhouse.Config) error {
		return Status(ctx, w, cfg, &terminal.Style{})
	}
	expect := func(report func(context.Context, io.Writer, clickhouse.Config) error, patterns ...string) string {
		t.Helper()
		var out strings.Builder
		if err := report(t.Context(), &out, cfg); err != nil {
			out.WriteString(err.Error())
		}
		for _, p := range patterns {
			if !regexp.MustCompile("(?m)" + p).MatchString(out.String()) {
				t.Errorf("no %q in\n%s", p, out.String())
			}
		}
		return out.String()
	}
	expect(status, `^database llmtap, on one server$`, `^0001_exchanges.sql +pending +[0-9a-f]{12}$`, `^Migrations are pending: llmtap schema migrate`)
	plan := expect(Plan, `^CREATE TABLE IF NOT EXISTS exchanges$`)
	must.Equal(t, must.Get(clickhouse.Script("", chdb.Database))(t), plan, "the script differs from the plan for an empty database")
	expect(status, `^0001_exchanges.sql +pending`)
	expect(migrate, `msg="migration applied" migration=0001_exchanges.sql`, `^up to date$`)
	expect(migrate, `^up to date$`)
	expect(Plan, `^-- nothing to do$`)
	applied := expect(status, `^0001_exchanges.sql +applied +20\d\d-\d\d-\d\d \S+ UTC +[0-9a-f]{12}$`, `^TABLE +ROWS +ON DISK +TTL$`, `^exchanges +0 +0 B +none$`)
	if strings.Contains(applied, "pending") {
		t.Errorf("status after migrate:\n%s", applied)
	}
	cfg.Cluster = "main"
	expect(status, `has tables on one server: cluster main requires an empty database$`)
}
