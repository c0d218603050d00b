package clickhouse_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// states returns the number of migrations in each state.
func states(st *clickhouse.State) string {
	var all []string
	for _, state := range []clickhouse.MigrationState{clickhouse.Applied, clickhouse.Pending, clickhouse.Changed, clickhouse.Newer} {
		if n := len(st.In(state)); n > 0 {
			all = append(all, fmt.Sprint(n, " ", state))
		}
	}
	return strings.Join(all, ", ")
}

func TestInspect(t *testing.T) {
	t.Parallel()
	all := fmt.Sprint(len(files(t, -1)), " ")
	dsn := freshDSN(t)
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	inspect := func() *clickhouse.State {
		t.Helper()
		return must.Get(clickhouse.Inspect(t.Context(), cfg))(t)
	}
	st := inspect()
	if !st.NoDatabase || st.Version == "" || states(st) != all+"pending" {
		t.Errorf("without a database: %+v", st)
	}
	if st = inspect(); !st.NoDatabase {
		t.Error("Inspect created the database")
	}
	s := openDSN(t, dsn)
	st = inspect()
	if st.NoDatabase || states(st) != all+"applied" || len(st.Tables) != len(clickhouse.ColumnNames()) {
		t.Errorf("after Open: %+v", st)
	}
	if len(st.Disks) == 0 || st.Disks[0].Total == 0 || st.Disks[0].Free > st.Disks[0].Total {
		t.Errorf("disks: %+v", st.Disks)
	}
	for _, sql := range []string{
		"INSERT INTO migrations (number, name, checksum, applied_at) VALUES (1, '0001_other.sql', 'x', now64(3))",
		"INSERT INTO migrations (number, name, checksum, applied_at) VALUES (9999, '9999_later.sql', 'x', now64(3))",
	} {
		must.Do(t, s.Exec(t.Context(), sql))
	}
	if st = inspect(); !slices.Equal(st.In(clickhouse.Changed), []string{"0001_exchanges.sql"}) || !slices.Equal(st.In(clickhouse.Newer), []string{"9999_later.sql"}) {
		t.Errorf("with migrations of other releases: %+v", st)
	}
	must.Do(t, s.Exec(t.Context(), "DROP TABLE migrations"))
	if st = inspect(); st.NoDatabase || states(st) != all+"pending" {
		t.Errorf("without the table migrations: %+v", st)
	}
}

func TestInspectRejectedLogin(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(freshDSN(t))
	must.Do(t, err)
	u.User = url.UserPassword("default", "not-the-password")
	cfg := clickhouse.Default()
	cfg.DSN = u.String()
	if _, err = clickhouse.Inspect(t.Context(), cfg); !errors.Is(err, clickhouse.ErrLogin) || strings.Contains(err.Error(), "not-the-password") {
		t.Errorf("wrong password: %v", err)
	}
	cfg.PasswordFile = "/nosuch"
	must.Fail(t, must.Err(clickhouse.Inspect(t.Context(), cfg)), "read password_file", "no password file")
	cfg.DSN, cfg.PasswordFile = "http://127.0.0.1:1/llmtap", ""
	if _, err = clickhouse.Inspect(t.Context(), cfg); err == nil || errors.Is(err, clickhouse.ErrLogin) {
		t.Errorf("no server: %v", err)
	}
}

// The password may be in a file.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	u := must.Get(url.Parse(dsn))(t)
	password, _ := u.User.Password()
	u.User = url.UserPassword(u.User.Username(), "not-the-password")
	cfg := clickhouse.Default()
	cfg.DSN, cfg.PasswordFile = u.String(), writeFile(t, password+"\n")
	if st, err := clickhouse.Inspect(t.Context(), cfg); err != nil || !st.NoDatabase {
		t.Errorf("%+v, %v", st, err)
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
