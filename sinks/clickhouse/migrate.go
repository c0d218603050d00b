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

// migrate applies the migrations that the database does not have.
func (s *Sink) migrate(ctx context.Context) error {
	dir, err := fs.Sub(schema, "schema")
	if err != nil {
		return fmt.Errorf("open migrations: %w", err)
	}
	ms, err := migrations(dir)
	if err != nil {
		return err
	}
	return s.apply(ctx, ms)
}

func (s *Sink) apply(ctx context.Context, ms []migration) error {
	if err := s.conn.Exec(ctx, createMigrations); err != nil {
		return fmt.Errorf("create table migrations: %w", err)
	}
	applied, err := s.applied(ctx)
	if err != nil {
		return err
	}
	for _, m := range ms {
		sums := applied[m.number]
		delete(applied, m.number)
		for sum, name := range sums {
			if sum != m.checksum {
				return fmt.Errorf("migration %s was changed after it was applied as %s (SHA-256 %.12s, now %.12s): restore the file, or use an empty database",
					m.name, name, sum, m.checksum)
			}
		}
		if len(sums) > 0 {
			continue
		}
		if err := s.applyOne(ctx, m); err != nil {
			return err
		}
		s.logger.Info("migration applied", "migration", m.name)
	}
	for n := range applied {
		// A newer release was here; its migrations only add, so this one can go on. It happens in every rolling update.
		s.logger.Warn("database has a migration of a newer release", "migration", n)
	}
	return nil
}

func (s *Sink) applyOne(ctx context.Context, m migration) error {
	for i, stmt := range statements(m.text) {
		if err := s.conn.Exec(ctx, stmt); err != nil {
			return fmt.Errorf("run statement %d of migration %s: %w", i+1, m.name, err)
		}
	}
	err := s.conn.Exec(ctx, "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, now64(3))", m.number, m.name, m.checksum)
	if err != nil {
		return fmt.Errorf("record migration %s: %w", m.name, err)
	}
	return nil
}

// applied returns number -> checksum -> name of what the database has. More than one checksum for a number means that
// two releases with different files started at once.
func (s *Sink) applied(ctx context.Context) (map[uint32]map[string]string, error) {
	rows, err := s.conn.Query(ctx, "SELECT number, checksum, name FROM migrations")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err
	applied := map[uint32]map[string]string{}
	for rows.Next() {
		var n uint32
		var sum, name string
		if err := rows.Scan(&n, &sum, &name); err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		if applied[n] == nil {
			applied[n] = map[string]string{}
		}
		applied[n][sum] = name
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
		if err := s.conn.QueryRow(ctx, "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = ?", t).Scan(&engine); err != nil {
			return fmt.Errorf("read TTL of %s: %w", t, err)
		}
		if strings.Contains(engine, " TTL "+ttl+" ") || strings.HasSuffix(engine, " TTL "+ttl) {
			continue
		}
		if err := s.conn.Exec(ctx, "ALTER TABLE "+t+" MODIFY TTL "+ttl); err != nil {
			return fmt.Errorf("set TTL of %s: %w", t, err)
		}
		s.logger.Info("retention set", "table", t, "retention", retention)
	}
	return nil
}

// quoteName quotes an identifier.
func quoteName(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(s) + "`"
}
