package clickhouse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

const (
	migrationsTable = "migrations"
	localSuffix     = "_local" // suffix of the table on one server; the name without it is the Distributed table
)

// A topology is the server or the cluster that stores the tables.
type topology struct {
	cluster  string // name of the cluster; empty for a single server
	database string // database of the tables; statements for a cluster contain its name
}

// on returns the ON CLUSTER clause for DDL, which follows the name of the table; "" for a single server.
func (t topology) on() string {
	if t.cluster == "" {
		return ""
	}
	return " ON CLUSTER " + sqltext.QuoteString(t.cluster)
}

// local returns the name of the table that stores the rows of table on a server.
func (t topology) local(table string) string {
	if t.cluster == "" {
		return table
	}
	return table + localSuffix
}

// alterTarget returns the target of an ALTER TABLE that changes rows of table, or their TTL, on all servers.
func (t topology) alterTarget(table string) string { return t.local(table) + t.on() }

// rewrite returns the statements for stmt, a statement in schema/, in this topology. On a single server, stmt is
// unchanged. On a cluster, a table becomes a replicated table on each server, named *_local, and a Distributed table
// with the name that readers and writers use; views do not change except for ON CLUSTER. Any other form of statement is
// an error.
func (t topology) rewrite(stmt string) ([]string, error) {
	if t.cluster == "" {
		return []string{stmt}, nil
	}
	r := newSQLReader(stmt)
	switch {
	case r.accept("CREATE TABLE IF NOT EXISTS"):
		return t.createTable(r)
	case r.accept("CREATE VIEW IF NOT EXISTS"), r.accept("CREATE OR REPLACE VIEW"):
		name := r.next()
		if !r.accept("AS SELECT") {
			return nil, fmt.Errorf("view %s: AS SELECT must follow the name", name.Text)
		}
		return []string{stmt[:name.End()] + t.on() + stmt[name.End():]}, nil
	case r.accept("ALTER TABLE"):
		return t.alterTable(r)
	}
	return nil, fmt.Errorf("statement is not supported on a cluster: %.80s", stmt)
}

// createTable rewrites a CREATE TABLE. r is at the name of the table.
func (t topology) createTable(r *sqlReader) ([]string, error) {
	name := r.next()
	if !r.until("ENGINE") || !r.accept("ENGINE =") {
		return nil, fmt.Errorf("table %s has no engine", name.Text)
	}
	engine := r.next()
	if engine.Text != "ReplacingMergeTree" {
		return nil, fmt.Errorf("table %s: engine %s is not supported on a cluster", name.Text, engine.Text)
	}
	rest, version := engine.End(), ""
	if r.accept("(") {
		version = ", " + r.next().Text
		end := r.next()
		if end.Text != ")" {
			return nil, fmt.Errorf("table %s: engine has more arguments than a version", name.Text)
		}
		rest = end.End()
	}
	// The path contains names instead of the table's UUID, so that a server that joins later uses the same path.
	head, between, tail := r.sql[:name.Pos], r.sql[name.End():engine.Pos], r.sql[rest:]
	if name.Text == migrationsTable { // not sharded: every server is a replica
		return []string{head + name.Text + t.on() + between +
			"ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}'" + version + ")" + tail}, nil
	}
	table := tableNamed(name.Text)
	if table == nil {
		return nil, fmt.Errorf("table %s has no sharding key", name.Text)
	}
	if !r.until("ORDER") || !r.contains(table.shardColumn) {
		return nil, fmt.Errorf("table %s: sharding key %s is not in the sort key", name.Text, table.shardColumn)
	}
	local := name.Text + localSuffix
	return []string{
		head + local + t.on() + between +
			"ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}'" + version + ")" + tail,
		"CREATE TABLE IF NOT EXISTS " + name.Text + t.on() + " AS " + sqltext.QuoteName(t.database) + "." + local +
			"\nENGINE = Distributed(" + sqltext.QuoteString(t.cluster) + ", " + sqltext.QuoteString(t.database) + ", " +
			sqltext.QuoteString(local) + ", cityHash64(" + table.shardKey + "))",
	}, nil
}

// alterTable rewrites an ALTER TABLE. r is at the name of the table. A column is added to the local tables first,
// because the Distributed table reads it from them.
func (t topology) alterTable(r *sqlReader) ([]string, error) {
	name := r.next()
	if tableNamed(name.Text) == nil {
		return nil, fmt.Errorf("ALTER TABLE %s is not supported on a cluster", name.Text)
	}
	columns, others := false, false
	for {
		switch {
		case r.accept("ADD COLUMN"), r.accept("MODIFY COLUMN"):
			columns = true
		case r.accept("ADD INDEX"), r.accept("DROP INDEX"), r.accept("MATERIALIZE INDEX"), r.accept("MODIFY SETTING"): // only the local tables have these
			others = true
		default:
			return nil, fmt.Errorf("ALTER TABLE %s: %s is not supported on a cluster", name.Text, r.next().Text)
		}
		if !r.until(",") {
			break
		}
		r.next()
	}
	if columns && others {
		return nil, fmt.Errorf("ALTER TABLE %s changes columns and other properties: a cluster requires two statements", name.Text)
	}
	head, tail := r.sql[:name.Pos], r.sql[name.End():]
	out := []string{head + name.Text + localSuffix + t.on() + tail}
	if columns {
		out = append(out, "ALTER TABLE "+name.Text+t.on()+tail)
	}
	return out, nil
}

// An sqlReader reads the tokens of a statement.
type sqlReader struct {
	sql  string
	toks []sqltext.Token // tokens not read yet
}

func newSQLReader(sql string) *sqlReader {
	r := &sqlReader{sql: sql}
	s := sqltext.Scanner{SQL: sql}
	for tok := s.Next(); tok.Kind != sqltext.End; tok = s.Next() {
		r.toks = append(r.toks, tok)
	}
	return r
}

// accept reads the given words if they come next, and reports whether they did.
func (r *sqlReader) accept(words string) bool {
	ws := strings.Fields(words)
	if len(r.toks) < len(ws) {
		return false
	}
	for i, w := range ws {
		if !r.toks[i].Is(w) {
			return false
		}
	}
	r.toks = r.toks[len(ws):]
	return true
}

// next reads and returns one token. At the end, it returns an empty token.
func (r *sqlReader) next() sqltext.Token {
	if len(r.toks) == 0 {
		return sqltext.Token{Pos: len(r.sql)}
	}
	t := r.toks[0]
	r.toks = r.toks[1:]
	return t
}

// until skips to the first token with this text outside of parentheses, and reports whether there is one.
func (r *sqlReader) until(text string) bool {
	depth := 0
	for i, t := range r.toks {
		switch {
		case depth == 0 && t.Is(text):
			r.toks = r.toks[i:]
			return true
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		}
	}
	return false
}

// contains reports whether the unread tokens include one with this text.
func (r *sqlReader) contains(text string) bool {
	return slices.ContainsFunc(r.toks, func(t sqltext.Token) bool { return t.Text == text })
}
