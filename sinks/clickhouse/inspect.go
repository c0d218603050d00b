package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// ErrLogin means that the server does not accept the user and password.
var ErrLogin = errors.New("ClickHouse refuses the login")

// Error codes of a refused login, and of a table that does not exist.
const (
	codeUnknownUser      = 192
	codeWrongPassword    = 193
	codeRequiredPassword = 194
	codeAuthentication   = 516
	codeUnknownTable     = 60
)

// A State is what a ClickHouse has for llmtap at one moment.
type State struct {
	Version    string
	Database   string
	NoDatabase bool     // Open would create it
	Missing    []string // migrations that Open would apply
	Changed    []string // migrations that are not what was applied
	Newer      []uint32 // numbers of migrations of a newer release
	Disks      []Disk   // none when the user may not see them
}

// A Disk is where the server keeps data.
type Disk struct {
	Name, Path  string
	Free, Total uint64 // bytes
}

// Inspect looks at the server and changes nothing. The State holds what was found before an error.
func Inspect(ctx context.Context, cfg Config) (*State, error) {
	st := &State{}
	o, err := cfg.options()
	if err != nil {
		return st, fmt.Errorf("read the DSN: %w", err)
	}
	st.Database = o.Auth.Database
	conn, err := dial(ctx, cfg, "")
	if code(err) == codeUnknownDatabase {
		st.NoDatabase = true
		conn, err = dial(ctx, cfg, "default")
	}
	if err != nil {
		switch code(err) {
		case codeUnknownUser, codeWrongPassword, codeRequiredPassword, codeAuthentication:
			err = fmt.Errorf("%w: %w", ErrLogin, err)
		}
		return st, fmt.Errorf("connect to ClickHouse: %w", err)
	}
	defer func() { _ = conn.Close() }() // only read
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&st.Version); err != nil {
		return st, fmt.Errorf("read version: %w", err)
	}
	s := &Sink{conn: conn, cfg: cfg, logger: slog.New(slog.DiscardHandler)}
	if err := s.inspectSchema(ctx, st); err != nil {
		return st, err
	}
	rows, err := conn.Query(ctx, "SELECT name, path, free_space, total_space FROM system.disks WHERE total_space > 0 ORDER BY name")
	if err != nil {
		return st, nil //nolint:nilerr // a right that llmtap does not need
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	for rows.Next() {
		var d Disk
		if err := rows.Scan(&d.Name, &d.Path, &d.Free, &d.Total); err != nil {
			return st, fmt.Errorf("read disks: %w", err)
		}
		st.Disks = append(st.Disks, d)
	}
	if err := rows.Err(); err != nil {
		return st, fmt.Errorf("read disks: %w", err)
	}
	return st, nil
}

// inspectSchema compares the migrations of this release with those that were applied.
func (s *Sink) inspectSchema(ctx context.Context, st *State) error {
	ms, err := embedded()
	if err != nil {
		return err
	}
	var applied []appliedMigration
	if !st.NoDatabase {
		if applied, err = s.applied(ctx); err != nil {
			return err
		}
	}
	for _, m := range compare(ms, applied) {
		switch m.State {
		case Pending:
			st.Missing = append(st.Missing, m.Name)
		case Changed:
			st.Changed = append(st.Changed, m.Name)
		case Newer:
			st.Newer = append(st.Newer, m.Number)
		case Applied:
		}
	}
	return nil
}
