package clickhouse

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/cenkalti/backoff/v5"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

//go:embed schema/*.sql
var schema embed.FS

// A migration is one file in schema/. A test checks that the numbers start at 1 and have no gaps.
type migration struct {
	number   uint32
	name     string // name of the file, e.g. 0001_exchanges.sql
	checksum string // SHA-256 of the file, hex
	text     string
}

// migrations returns the migrations in dir, in order.
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

// embedded returns the migrations of this release.
func embedded() ([]migration, error) {
	dir, err := fs.Sub(schema, "schema")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	return migrations(dir)
}

// statements splits text after each semicolon at the end of a line.
func statements(text string) []string {
	var out []string
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// createMigrations creates the table of applied migrations. Two processes may insert the same row, so readers of the
// table ignore duplicates.
const createMigrations = `CREATE TABLE IF NOT EXISTS migrations
(
    number     UInt32,
    name       String,
    checksum   String COMMENT 'SHA-256 of the file',
    applied_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (number, checksum)`

// preamble returns the statements that must run before the first migration.
func (t topology) preamble() ([]string, error) {
	stmts, err := t.rewrite(createMigrations)
	if t.cluster == "" || err != nil {
		return stmts, err
	}
	return append([]string{"CREATE DATABASE IF NOT EXISTS " + sqltext.QuoteName(t.database) + t.on()}, stmts...), nil
}

// statements returns the statements of m in this topology.
func (t topology) statements(m migration) ([]string, error) {
	var out []string
	for _, stmt := range statements(m.text) {
		stmts, err := t.rewrite(stmt)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", m.name, err)
		}
		out = append(out, stmts...)
	}
	return out, nil
}

// record returns the statement that records m as applied.
func (m migration) record() string {
	return fmt.Sprintf("INSERT INTO %s (number, name, checksum, applied_at) VALUES (%d, %s, %s, now64(3))",
		migrationsTable, m.number, sqltext.QuoteString(m.name), sqltext.QuoteString(m.checksum))
}

// A MigrationState is the state of a migration in a database.
type MigrationState string

// The states of a migration.
const (
	Applied MigrationState = "applied"
	Pending MigrationState = "pending" // Open applies it
	Changed MigrationState = "changed" // the file differs from the applied one; Open rejects the database
	Newer   MigrationState = "newer"   // the migration belongs to a newer release
)

// A Migration is one file in schema/ and its state in a database.
type Migration struct {
	Number    uint32
	Name      string // name of the file, e.g. 0001_exchanges.sql
	State     MigrationState
	Checksum  string    // SHA-256 of this release's file, hex; if Newer, the checksum recorded in the database
	Was       string    // checksum of the applied file if Changed
	AppliedAt time.Time // UTC; zero if Pending

	wasName   string
	migration migration // zero if Newer
}

type appliedMigration struct {
	Number   uint32    `ch:"number"`
	Checksum string    `ch:"checksum"`
	Name     string    `ch:"name"`
	At       time.Time `ch:"at"`
}

// compare returns the states of ms, followed by applied migrations of newer releases.
func compare(ms []migration, applied []appliedMigration) []Migration {
	var out []Migration
	for _, m := range ms {
		st := Migration{Number: m.number, Name: m.name, State: Pending, Checksum: m.checksum, migration: m}
		for _, a := range applied {
			switch {
			case a.Number != m.number || st.State == Changed:
			case a.Checksum == m.checksum:
				st.State, st.AppliedAt = Applied, a.At
			default:
				st.State, st.Was, st.wasName, st.AppliedAt = Changed, a.Checksum, a.Name, a.At
			}
		}
		out = append(out, st)
	}
	for _, a := range applied {
		if !slices.ContainsFunc(ms, func(m migration) bool { return m.number == a.Number }) {
			out = append(out, Migration{Number: a.Number, Name: a.Name, State: Newer, Checksum: a.Checksum, AppliedAt: a.At})
		}
	}
	return out
}

// apply applies the pending migrations in ms. If there are none, it changes nothing and does not require the right to
// change the schema.
func (s *Sink) apply(ctx context.Context, ms []migration) error {
	applied, err := s.applied(ctx)
	if err != nil {
		return err
	}
	started := false
	for _, st := range compare(ms, applied) {
		switch st.State {
		case Changed:
			return fmt.Errorf("migration %s was changed after it was applied as %s (SHA-256 %.12s, now %.12s): restore the file, or use an empty database",
				st.Name, st.wasName, st.Was, st.Checksum)
		case Newer:
			// This release still works, because migrations only add to the schema. It happens in every rolling update.
			s.logger.Warn("database belongs to a newer release: its new columns stay empty in rows of this release; finish the update",
				"migration", st.Name, "newest_known", len(ms))
		case Pending:
			if !started {
				stmts, err := s.topology.preamble()
				if err != nil {
					return err
				}
				if err := s.runAll(ctx, "the preamble", stmts); err != nil {
					return err
				}
				started = true
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
	stmts, err := s.topology.statements(m)
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

// If several statements alter a replicated table concurrently, all except one fail with codeCannotAssignAlter and are
// retried.
const (
	codeCannotAssignAlter = 517
	alterAttempts         = 10
	alterBackoff          = time.Second
)

func (s *Sink) runAll(ctx context.Context, of string, stmts []string) error {
	for i, stmt := range stmts {
		run := func() (struct{}, error) {
			err := s.conn.Exec(ctx, stmt)
			if err != nil && code(err) != codeCannotAssignAlter {
				err = backoff.Permanent(err)
			}
			return struct{}{}, err
		}
		if _, err := backoff.Retry(ctx, run, backoff.WithBackOff(backoff.NewConstantBackOff(alterBackoff)), backoff.WithMaxTries(alterAttempts)); err != nil {
			return fmt.Errorf("run statement %d of %s: %w", i+1, of, err)
		}
	}
	return nil
}

// compressMerged lets an engine that is configured for it (package chdb, engine_config.go) compress bodies when it merges them for the
// first time, and not when they are inserted. A server compresses both, because it may send new parts to replicas or to a remote disk.
func (s *Sink) compressMerged(ctx context.Context) error {
	if s.topology.cluster != "" {
		return nil
	}
	const pending = `SELECT count() FROM system.columns
		WHERE database = currentDatabase() AND table = 'messages' AND name = 'body' AND compression_codec != 'CODEC(Default)'
			AND 'llmtap_codec' IN (SELECT macro FROM system.macros)`
	var n uint64
	switch err := s.conn.QueryRow(ctx, pending).Scan(&n); {
	case code(err) == proto.ErrAccessDenied: // a server, which need not let its users read macros
		return nil
	case err != nil || n == 0:
		return err
	}
	return s.conn.Exec(ctx, "ALTER TABLE messages MODIFY COLUMN body CODEC(Default), MODIFY SETTING default_compression_codec = ''")
}

// applied returns the migrations recorded in the database. If a number has several checksums, two releases with
// different files have started concurrently.
func (s *Sink) applied(ctx context.Context) (applied []appliedMigration, err error) {
	err = s.conn.Select(ctx, &applied, "SELECT number, checksum, name, min(applied_at) AS at FROM "+migrationsTable+" GROUP BY number, checksum, name ORDER BY number, checksum")
	if err != nil && code(err) != proto.ErrUnknownTable {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return applied, nil
}

// Script returns a script for clickhouse-client that creates the whole schema of this release. If cluster is empty, the
// database is on a single server, otherwise on that cluster.
func Script(cluster, database string) (string, error) {
	ms, err := embedded()
	if err != nil {
		return "", err
	}
	return topology{cluster, database}.script(ms)
}

func (t topology) script(ms []migration) (string, error) {
	stmts, err := t.preamble()
	if err != nil {
		return "", err
	}
	if t.cluster == "" {
		stmts = append([]string{"CREATE DATABASE IF NOT EXISTS " + sqltext.QuoteName(t.database)}, stmts...)
	}
	stmts = slices.Insert(stmts, 1, "USE "+sqltext.QuoteName(t.database))
	var b strings.Builder
	write := func(stmts []string) {
		for _, s := range stmts {
			b.WriteString(s + ";\n\n")
		}
	}
	write(stmts)
	for _, m := range ms {
		stmts, err := t.statements(m)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "-- %s\n\n", m.name)
		write(append(stmts, m.record()))
	}
	return b.String(), nil
}
