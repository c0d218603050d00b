package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/sinks/chdb"
)

// llmtap schema on a real engine, before and after the migrations.
func TestSchema(t *testing.T) {
	needClickHouse(t)
	cfg := chdb.Default()
	cfg.Dir = config.ClickHouseDir(t.TempDir())
	srv, err := chdb.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(t.Context())
	schema := func(args ...string) (string, int) {
		t.Helper()
		var out, stderr bytes.Buffer
		err := run(t.Context(), append([]string{"schema"}, args...), nil, &out, &stderr, func(k string) string {
			return map[string]string{"LLMTAP_CLICKHOUSE_DSN": srv.DSN()}[k]
		})
		code := command.Report(err, &stderr)
		return out.String() + stderr.String(), code
	}
	expect := func(wantCode int, parts []string, args ...string) string {
		t.Helper()
		got, code := schema(args...)
		if code != wantCode {
			t.Errorf("schema %q: exit code %d, want %d", args, code, wantCode)
		}
		for _, p := range parts {
			if !regexp.MustCompile("(?m)" + p).MatchString(got) {
				t.Errorf("schema %q has no %q:\n%s", args, p, got)
			}
		}
		return got
	}
	expect(command.ExitOK, []string{`^database llmtap, on one server$`, `^0001_exchanges.sql +pending +[0-9a-f]{12}$`, `^Migrations are pending: llmtap schema migrate`}, "status")
	all := expect(command.ExitOK, []string{`^CREATE TABLE IF NOT EXISTS exchanges$`}, "migrate", "--dry-run")
	if printed := expect(command.ExitOK, nil, "print"); printed != all {
		t.Errorf("print differs from the migrations of an empty database:\n%s", printed)
	}
	expect(command.ExitOK, []string{`^0001_exchanges.sql +pending`}, "status")
	expect(command.ExitOK, []string{`msg="migration applied" migration=0001_exchanges.sql`, `^up to date$`}, "migrate")
	expect(command.ExitOK, []string{`^up to date$`}, "migrate")
	expect(command.ExitOK, []string{`^-- nothing to do$`}, "migrate", "--dry-run")
	status := expect(command.ExitOK, []string{`^0001_exchanges.sql +applied +20\d\d-\d\d-\d\dT\S+Z +[0-9a-f]{12}$`, `^TABLE +ROWS +ON DISK +TTL$`, `^exchanges +0 +0 B +none$`}, "status")
	if strings.Contains(status, "pending") {
		t.Errorf("status after migrate:\n%s", status)
	}
	expect(command.ExitFailed, []string{`has tables on one server: cluster main requires an empty database`}, "status", "--cluster", "main")
}
