package clickhouse

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A MigrationState says how a migration of this release and the database stand.
type MigrationState string

// The states of a migration.
const (
	Applied MigrationState = "applied"
	Pending MigrationState = "pending" // Open applies it
	Changed MigrationState = "changed" // the file is not what was applied; Open refuses the database
	Newer   MigrationState = "newer"   // of a newer release
)

// A Migration is one file of the schema.
type Migration struct {
	Number    uint32
	Name      string // 0001_exchanges.sql
	State     MigrationState
	Checksum  string    // SHA-256 of this release's file, hex; of a newer one what the database says
	Was       string    // of Changed: the checksum of what was applied
	AppliedAt time.Time // UTC; zero for Pending

	wasName   string
	migration migration // zero for Newer
}

type appliedMigration struct {
	number         uint32
	checksum, name string
	at             time.Time
}

// compare says how ms and what was applied stand, by number.
func compare(ms []migration, applied []appliedMigration) []Migration {
	var out []Migration
	for _, m := range ms {
		st := Migration{Number: m.number, Name: m.name, State: Pending, Checksum: m.checksum, migration: m}
		for _, a := range applied {
			switch {
			case a.number != m.number || st.State == Changed:
			case a.checksum == m.checksum:
				st.State, st.AppliedAt = Applied, a.at
			default:
				st.State, st.Was, st.wasName, st.AppliedAt = Changed, a.checksum, a.name, a.at
			}
		}
		out = append(out, st)
	}
	for _, a := range applied {
		if !slices.ContainsFunc(ms, func(m migration) bool { return m.number == a.number }) {
			out = append(out, Migration{Number: a.number, Name: a.name, State: Newer, Checksum: a.checksum, AppliedAt: a.at})
		}
	}
	return out
}

// A SchemaState is what a ClickHouse has of the tables at one moment.
type SchemaState struct {
	Database   string
	Cluster    string // "" when the tables are those of one server
	NoDatabase bool   // Open would create it
	Migrations []Migration
	Tables     []Table // those that exist
}

// A Table holds rows. On a cluster the numbers are those of the server that was asked.
type Table struct {
	Name  string // with _local on a cluster
	Rows  uint64 // as stored; one that was written again may count twice for a while
	Bytes uint64 // on disk
	TTL   string // an expression; "" when rows stay
}

// ReadSchema looks at the tables of the database and changes nothing.
func ReadSchema(ctx context.Context, cfg Config) (*SchemaState, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	ms, err := embedded()
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, cfg, "")
	if code(err) == codeUnknownDatabase {
		return &SchemaState{Database: o.Auth.Database, Cluster: cfg.Cluster, NoDatabase: true, Migrations: compare(ms, nil)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("connect to ClickHouse: %w", err)
	}
	defer func() { _ = conn.Close() }() // only read
	s := &Sink{conn: conn, cfg: cfg, logger: slog.New(slog.DiscardHandler)}
	if s.layout, err = s.findLayout(ctx); err != nil {
		return nil, err
	}
	applied, err := s.applied(ctx)
	if err != nil {
		return nil, err
	}
	sc := &SchemaState{Database: s.layout.database, Cluster: s.layout.cluster, Migrations: compare(ms, applied)}
	sc.Tables, err = s.tables(ctx)
	return sc, err
}

// Has reports whether a migration is in this state.
func (sc *SchemaState) Has(state MigrationState) bool {
	return slices.ContainsFunc(sc.Migrations, func(m Migration) bool { return m.State == state })
}

// Script returns the statements that Open would run, for clickhouse-client; "" when there are none.
func (sc *SchemaState) Script() (string, error) {
	var ms []migration
	for _, m := range sc.Migrations {
		if m.State == Pending {
			ms = append(ms, m.migration)
		}
	}
	if len(ms) == 0 {
		return "", nil
	}
	return layout{sc.Cluster, sc.Database}.script(ms)
}

// Script returns the statements that make the whole schema of this release, for clickhouse-client: in a database of one
// server, or of a cluster unless that is empty.
func Script(cluster, database string) (string, error) {
	ms, err := embedded()
	if err != nil {
		return "", err
	}
	return layout{cluster, database}.script(ms)
}

func (l layout) script(ms []migration) (string, error) {
	stmts, err := l.begin()
	if err != nil {
		return "", err
	}
	if l.cluster == "" {
		stmts = append([]string{"CREATE DATABASE IF NOT EXISTS " + quoteName(l.database)}, stmts...)
	}
	stmts = slices.Insert(stmts, 1, "USE "+quoteName(l.database))
	var b strings.Builder
	write := func(stmts []string) {
		for _, s := range stmts {
			b.WriteString(s + ";\n\n")
		}
	}
	write(stmts)
	for _, m := range ms {
		stmts, err := l.statements(m)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "-- %s\n\n", m.name)
		write(append(stmts, m.record()))
	}
	return b.String(), nil
}

var distributed = regexp.MustCompile(`^Distributed\('((?:[^'\\]|\\.)*)'`)

// findLayout says where the tables of the database lie, or will lie when there are none yet. A process that was not told
// of the cluster learns of it here: else it would change the tables of one server only.
func (s *Sink) findLayout(ctx context.Context) (layout, error) {
	l := layout{cluster: s.cfg.Cluster}
	var engine string
	err := s.conn.QueryRow(ctx, "SELECT currentDatabase(), max(engine_full) FROM system.tables WHERE database = currentDatabase() AND name = 'exchanges'").Scan(&l.database, &engine)
	if err != nil {
		return l, fmt.Errorf("look for tables: %w", err)
	}
	m := distributed.FindStringSubmatch(engine)
	switch {
	case engine == "":
	case m == nil && l.cluster != "":
		return l, fmt.Errorf("database %s holds the tables of one server: cluster %s needs an empty database", l.database, l.cluster)
	case m == nil:
	case l.cluster == "":
		l.cluster = strings.NewReplacer(`\\`, `\`, `\'`, `'`).Replace(m[1])
	case m[1] != l.cluster && !strings.Contains(m[1]+l.cluster, "{"): // a macro is another name of it
		return l, fmt.Errorf("database %s lies on cluster %s, not %s: correct clickhouse.cluster, or use an empty database", l.database, m[1], l.cluster)
	}
	return l, nil
}

// tables reads the sizes of those that exist.
func (s *Sink) tables(ctx context.Context) ([]Table, error) {
	rows, err := s.conn.Query(ctx, `SELECT name, ifNull(total_rows, 0), ifNull(total_bytes, 0), engine_full FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%ReplacingMergeTree' AND name != ? ORDER BY name`, migrationsTable)
	if err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	var out []Table
	for rows.Next() {
		var t Table
		var engine string
		if err := rows.Scan(&t.Name, &t.Rows, &t.Bytes, &engine); err != nil {
			return nil, fmt.Errorf("read tables: %w", err)
		}
		if _, ttl, ok := strings.Cut(engine, " TTL "); ok {
			t.TTL, _, _ = strings.Cut(ttl, " SETTINGS ")
		}
		out = append(out, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read tables: %w", err)
	}
	return out, nil
}
