package clickhouse

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed schema/*.sql
var schema embed.FS

// A migration is one file of schema/. Numbers start at 1 and leave no gap; a test sees to it.
type migration struct {
	number   uint32
	name     string // 0001_exchanges.sql
	checksum string // SHA-256 of the file, hex
	text     string
}

// migrations returns the files of dir in order.
func migrations(dir fs.FS) ([]migration, error) {
	entries, err := fs.ReadDir(dir, ".") // sorted by name
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var ms []migration
	for _, e := range entries {
		prefix, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.ParseUint(prefix, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read number of migration %s: %w", e.Name(), err)
		}
		text, err := fs.ReadFile(dir, e.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(text)
		ms = append(ms, migration{uint32(n), e.Name(), hex.EncodeToString(sum[:]), string(text)})
	}
	return ms, nil
}

// statements cuts SQL text at each semicolon that ends a line.
func statements(text string) []string {
	var out []string
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// Two processes may insert the same line; the readers below take duplicates as one.
const createMigrations = `CREATE TABLE IF NOT EXISTS migrations
(
    number     UInt32,
    name       String,
    checksum   String COMMENT 'SHA-256 of the file',
    applied_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (number, checksum)`

// embedded returns the migrations of this release.
func embedded() ([]migration, error) {
	dir, err := fs.Sub(schema, "schema")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	return migrations(dir)
}

// begin are the statements before the first migration.
func (l layout) begin() ([]string, error) {
	stmts, err := l.rewrite(createMigrations)
	if l.cluster == "" || err != nil {
		return stmts, err
	}
	return append([]string{"CREATE DATABASE IF NOT EXISTS " + quoteName(l.database) + l.on()}, stmts...), nil
}

// statements are those of m in this layout.
func (l layout) statements(m migration) ([]string, error) {
	var out []string
	for _, stmt := range statements(m.text) {
		stmts, err := l.rewrite(stmt)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", m.name, err)
		}
		out = append(out, stmts...)
	}
	return out, nil
}

// record writes down that m was applied.
func (m migration) record() string {
	return fmt.Sprintf("INSERT INTO %s (number, name, checksum, applied_at) VALUES (%d, %s, %s, now64(3))",
		migrationsTable, m.number, quoteString(m.name), quoteString(m.checksum))
}

// migrate applies the migrations that the database does not have.
func (s *Sink) migrate(ctx context.Context) error {
	ms, err := embedded()
	if err != nil {
		return err
	}
	return s.apply(ctx, ms)
}

// apply changes nothing, and needs no right to, when the database has all of ms.
func (s *Sink) apply(ctx context.Context, ms []migration) error {
	applied, err := s.applied(ctx)
	if err != nil {
		return err
	}
	known := len(ms)
	begun := false
	for _, st := range compare(ms, applied) {
		switch st.State {
		case Changed:
			return fmt.Errorf("migration %s was changed after it was applied as %s (SHA-256 %.12s, now %.12s): restore the file, or use an empty database",
				st.Name, st.wasName, st.Was, st.Checksum)
		case Newer:
			// Migrations only add, so this release can go on. It happens in every rolling update.
			s.logger.Warn("database is of a newer release: what that one added stays empty in rows of this one; finish the update",
				"migration", st.Name, "newest_known", known)
		case Pending:
			if !begun {
				stmts, err := s.layout.begin()
				if err != nil {
					return err
				}
				if err := s.runAll(ctx, "the beginning", stmts); err != nil {
					return err
				}
				begun = true
			}
			if err := s.applyOne(ctx, st.migration); err != nil {
				return err
			}
			s.logger.Info("migration applied", "migration", st.Name)
		case Applied:
		}
	}
	return nil
}

func (s *Sink) applyOne(ctx context.Context, m migration) error {
	stmts, err := s.layout.statements(m)
	if err != nil {
		return err
	}
	if err := s.runAll(ctx, "migration "+m.name, stmts); err != nil {
		return err
	}
	if err := s.conn.Exec(ctx, m.record()); err != nil {
		return fmt.Errorf("record migration %s: %w", m.name, err)
	}
	return nil
}

// Of statements that change a replicated table at the same time one wins; the others are told to come again.
const (
	codeCannotAssignAlter = 517
	alterTries            = 10
	alterPause            = time.Second
)

func (s *Sink) runAll(ctx context.Context, of string, stmts []string) error {
	for i, stmt := range stmts {
		err := s.conn.Exec(ctx, stmt)
		for try := 1; code(err) == codeCannotAssignAlter && try < alterTries; try++ {
			select {
			case <-ctx.Done():
				return fmt.Errorf("run statement %d of %s: %w", i+1, of, ctx.Err())
			case <-time.After(alterPause):
			}
			err = s.conn.Exec(ctx, stmt)
		}
		if err != nil {
			return fmt.Errorf("run statement %d of %s: %w", i+1, of, err)
		}
	}
	return nil
}

// applied returns what the database has: nothing when it has no table of migrations. More than one checksum for a number
// means that two releases with different files started at once.
func (s *Sink) applied(ctx context.Context) ([]appliedMigration, error) {
	rows, err := s.conn.Query(ctx, "SELECT number, checksum, name, min(applied_at) FROM "+migrationsTable+" GROUP BY number, checksum, name ORDER BY number, checksum")
	if code(err) == codeUnknownTable {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	var applied []appliedMigration
	for rows.Next() {
		var a appliedMigration
		if err := rows.Scan(&a.number, &a.checksum, &a.name, &a.at); err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		applied = append(applied, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return applied, nil
}

// ageColumns say which time makes a row old. For exchanges it is the stream's time, because an agent's clock may be
// wrong by years.
var ageColumns = map[string]string{"exchanges": "stored_at", "findings": "first_seen", "tool_calls": "asked_at", "runs": "seen_at", "messages": "seen_at", "history": "seen_at", "alerts": "started_at"}

// applyRetention sets the tables' TTL where it differs. Retention 0 touches nothing, so a TTL of the operator's stays.
func (s *Sink) applyRetention(ctx context.Context) error {
	for _, t := range tableNames {
		retention := s.cfg.retention(t)
		if retention == 0 {
			continue
		}
		ttl := fmt.Sprintf("toDateTime(%s) + toIntervalSecond(%d)", ageColumns[t], int64(retention/time.Second))
		var engine string
		if err := s.conn.QueryRow(ctx, "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = ?", s.layout.local(t)).Scan(&engine); err != nil {
			return fmt.Errorf("read TTL of %s: %w", t, err)
		}
		if strings.Contains(engine, " TTL "+ttl+" ") || strings.HasSuffix(engine, " TTL "+ttl) {
			continue
		}
		if err := s.conn.Exec(ctx, "ALTER TABLE "+s.layout.stored(t)+" MODIFY TTL "+ttl); err != nil {
			return fmt.Errorf("set TTL of %s: %w", t, err)
		}
		s.logger.Info("retention set", "table", t, "retention", retention)
	}
	return nil
}
