package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
)

// ErrLogin is returned if the server rejects the user or the password.
var ErrLogin = errors.New("ClickHouse rejects the login")

// A State is the state of a ClickHouse server and of llmtap's database at one moment.
type State struct {
	Version    string // version of the server
	Database   string
	Cluster    string // empty if the tables are on one server
	NoDatabase bool   // the database is missing; Open would create it
	Migrations []Migration
	Tables     []Table // existing tables
	Disks      []Disk  // empty if the user is not allowed to read them
}

// A Table is a table that contains rows. On a cluster, the numbers apply only to the queried server.
type Table struct {
	Name  string `ch:"name"`  // ends with _local on a cluster
	Rows  uint64 `ch:"rows"`  // stored rows; a row that was written again may count twice for some time
	Bytes uint64 `ch:"bytes"` // size on disk
	TTL   string `ch:"ttl"`   // TTL expression; empty if rows are never deleted
}

// A Disk is a disk of the server.
type Disk struct {
	Name  string `ch:"name"`
	Path  string `ch:"path"`
	Free  uint64 `ch:"free_space"`  // bytes
	Total uint64 `ch:"total_space"` // bytes
}

// Inspect reads the state of the server and of the database without changing them. If it returns an error, the State is
// incomplete.
func Inspect(ctx context.Context, cfg Config) (*State, error) {
	st := &State{Cluster: cfg.Cluster}
	o, err := cfg.options()
	if err != nil {
		return st, fmt.Errorf("read the DSN: %w", err)
	}
	ms, err := embedded()
	if err != nil {
		return st, err
	}
	st.Database = o.Auth.Database
	conn, err := dial(ctx, cfg, "")
	if code(err) == proto.ErrUnknownDatabase {
		st.NoDatabase = true
		conn, err = dial(ctx, cfg, "default")
	}
	if err != nil {
		if slices.Contains(loginCodes, code(err)) {
			err = fmt.Errorf("%w: %w", ErrLogin, err)
		}
		return st, fmt.Errorf("connect to ClickHouse: %w", err)
	}
	defer func() { _ = conn.Close() }() // read-only
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&st.Version); err != nil {
		return st, fmt.Errorf("read version: %w", err)
	}
	s := &Sink{conn: conn, cfg: cfg, logger: slog.New(slog.DiscardHandler)}
	var applied []appliedMigration
	if !st.NoDatabase {
		if s.topology, err = s.readTopology(ctx); err != nil {
			return st, err
		}
		st.Database, st.Cluster = s.topology.database, s.topology.cluster
		if applied, err = s.applied(ctx); err != nil {
			return st, err
		}
		err = conn.Select(ctx, &st.Tables, `SELECT name, ifNull(total_rows, 0) AS rows, ifNull(total_bytes, 0) AS bytes, extract(engine_full, ' TTL (.*?)(?: SETTINGS |$)') AS ttl
FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%ReplacingMergeTree' AND name != '`+migrationsTable+`' ORDER BY name`)
		if err != nil {
			return st, fmt.Errorf("read tables: %w", err)
		}
	}
	st.Migrations = compare(ms, applied)
	// An error is ignored, because llmtap does not need the right to read disks.
	_ = conn.Select(ctx, &st.Disks, "SELECT name, path, free_space, total_space FROM system.disks WHERE total_space > 0 ORDER BY name")
	return st, nil
}

// In returns the names of the migrations that are in this state.
func (st *State) In(state MigrationState) (names []string) {
	for _, m := range st.Migrations {
		if m.State == state {
			names = append(names, m.Name)
		}
	}
	return names
}

// Script returns a script for clickhouse-client with the statements that Open would run, or "" if there are none.
func (st *State) Script() (string, error) {
	var ms []migration
	for _, m := range st.Migrations {
		if m.State == Pending {
			ms = append(ms, m.migration)
		}
	}
	if len(ms) == 0 {
		return "", nil
	}
	return topology{st.Cluster, st.Database}.script(ms)
}

var distributed = regexp.MustCompile(`^Distributed\('((?:[^'\\]|\\.)*)'`)

// readTopology returns the topology of the existing tables, or the configured topology if there are none. If the tables
// are on a cluster and no cluster is configured, it returns the cluster of the tables. Otherwise this process would
// only change the tables of one server.
func (s *Sink) readTopology(ctx context.Context) (topology, error) {
	t := topology{cluster: s.cfg.Cluster}
	var engine string
	err := s.conn.QueryRow(ctx, "SELECT currentDatabase(), max(engine_full) FROM system.tables WHERE database = currentDatabase() AND name = 'exchanges'").Scan(&t.database, &engine)
	if err != nil {
		return t, fmt.Errorf("look for tables: %w", err)
	}
	m := distributed.FindStringSubmatch(engine)
	switch {
	case engine == "":
	case m == nil && t.cluster != "":
		return t, fmt.Errorf("database %s has tables on one server: cluster %s requires an empty database", t.database, t.cluster)
	case m == nil:
	case t.cluster == "":
		t.cluster = strings.NewReplacer(`\\`, `\`, `\'`, `'`).Replace(m[1])
	case m[1] != t.cluster && !strings.Contains(m[1]+t.cluster, "{"): // a macro may expand to the same cluster
		return t, fmt.Errorf("database %s is on cluster %s, not %s: correct clickhouse.cluster, or use an empty database", t.database, m[1], t.cluster)
	}
	return t, nil
}
