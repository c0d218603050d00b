package clickhouse

import (
	"fmt"
	"slices"
	"strings"
)

// shardKeys say on which shard a row goes. Rows that replace each other must meet on one, so a key holds columns of the
// sort key only. What is asked of one conversation lies on one shard where a row's conversation never changes; the first
// 8 digits of a content's id stand for it.
var shardKeys = map[string]shardKey{
	"exchanges":  {"exchange_id", "cityHash64(exchange_id)"}, // the conversation of an exchange may be known late
	"findings":   {"conversation_id", "cityHash64(conversation_id)"},
	"tool_calls": {"id", "cityHash64(id)"},
	"messages":   {"id", "cityHash64(substring(id, 1, 8))"},
	"history":    {"conversation_id", "cityHash64(conversation_id)"},
	"runs":       {"id", "cityHash64(id)"},
	"alerts":     {"alert_id", "cityHash64(alert_id)"},
}

type shardKey struct{ column, expression string }

const (
	migrationsTable = "migrations"
	localSuffix     = "_local" // of the table of one server; the name without it is the Distributed table's
)

// A layout says where tables lie: on one server, or on all of a cluster.
type layout struct {
	cluster  string // "" for one server
	database string // of the tables; a cluster's statements name it
}

// on is what follows a table's name in DDL.
func (l layout) on() string {
	if l.cluster == "" {
		return ""
	}
	return " ON CLUSTER " + quoteString(l.cluster)
}

// local is the name of the table that holds the rows of table on a server.
func (l layout) local(table string) string {
	if l.cluster == "" {
		return table
	}
	return table + localSuffix
}

// stored is what ALTER TABLE goes on with to change the rows of table or their TTL, on all servers.
func (l layout) stored(table string) string { return l.local(table) + l.on() }

// rewrite returns what a statement of schema/ is in this layout: itself on one server. On a cluster a table becomes a
// replicated one on each server, named *_local, and a Distributed one with the name that readers and writers know; views
// stay as they are. A form that has no rule here is an error.
func (l layout) rewrite(stmt string) ([]string, error) {
	if l.cluster == "" {
		return []string{stmt}, nil
	}
	toks, ok := tokens(stmt)
	if !ok {
		return nil, fmt.Errorf("a string or comment has no end: %.80s", stmt)
	}
	r := &sqlReader{stmt, toks}
	switch {
	case r.accept("CREATE TABLE IF NOT EXISTS"):
		return l.createTable(r)
	case r.accept("CREATE VIEW IF NOT EXISTS"), r.accept("CREATE OR REPLACE VIEW"):
		name := r.next()
		if !r.accept("AS SELECT") {
			return nil, fmt.Errorf("view %s does not go on with AS SELECT", name.text)
		}
		return []string{stmt[:name.end] + l.on() + stmt[name.end:]}, nil
	case r.accept("ALTER TABLE"):
		return l.alterTable(r)
	}
	return nil, fmt.Errorf("statement has no form for a cluster: %.80s", stmt)
}

// createTable reads from the table's name on.
func (l layout) createTable(r *sqlReader) ([]string, error) {
	name := r.next()
	if !r.until("ENGINE") || !r.accept("ENGINE =") {
		return nil, fmt.Errorf("table %s has no engine", name.text)
	}
	engine := r.next()
	if engine.text != "ReplacingMergeTree" {
		return nil, fmt.Errorf("table %s: engine %s has no form for a cluster", name.text, engine.text)
	}
	rest, version := engine.end, ""
	if r.accept("(") {
		version = ", " + r.next().text
		end := r.next()
		if end.text != ")" {
			return nil, fmt.Errorf("table %s: engine has more than a version", name.text)
		}
		rest = end.end
	}
	// The path holds names, not the table's UUID, so that a server that joins later can have the same.
	head, between, tail := r.sql[:name.pos], r.sql[name.end:engine.pos], r.sql[rest:]
	if name.text == migrationsTable { // one on all servers, each a replica
		return []string{head + name.text + l.on() + between +
			"ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}', '{shard}-{replica}'" + version + ")" + tail}, nil
	}
	key, ok := shardKeys[name.text]
	if !ok {
		return nil, fmt.Errorf("table %s has no sharding key", name.text)
	}
	if !r.until("ORDER") || !slices.ContainsFunc(r.toks, func(t token) bool { return t.text == key.column }) {
		return nil, fmt.Errorf("table %s: sharding key %s is not in the sort key", name.text, key.column)
	}
	local := name.text + localSuffix
	return []string{
		head + local + l.on() + between +
			"ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/{table}/{shard}', '{replica}'" + version + ")" + tail,
		"CREATE TABLE IF NOT EXISTS " + name.text + l.on() + " AS " + quoteName(l.database) + "." + local +
			"\nENGINE = Distributed(" + quoteString(l.cluster) + ", " + quoteString(l.database) + ", " + quoteString(local) + ", " + key.expression + ")",
	}, nil
}

// alterTable reads from the table's name on. The local tables get a column first: the Distributed one reads it there.
func (l layout) alterTable(r *sqlReader) ([]string, error) {
	name := r.next()
	if _, ok := shardKeys[name.text]; !ok {
		return nil, fmt.Errorf("ALTER TABLE %s has no form for a cluster", name.text)
	}
	columns, others := false, false
	for {
		switch {
		case r.accept("ADD COLUMN"), r.accept("MODIFY COLUMN"):
			columns = true
		case r.accept("ADD INDEX"), r.accept("DROP INDEX"), r.accept("MODIFY SETTING"): // of the local tables only
			others = true
		default:
			return nil, fmt.Errorf("ALTER TABLE %s: %s has no form for a cluster", name.text, r.next().text)
		}
		if !r.until(",") {
			break
		}
		r.next()
	}
	if columns && others {
		return nil, fmt.Errorf("ALTER TABLE %s changes columns and more: that is two statements on a cluster", name.text)
	}
	head, tail := r.sql[:name.pos], r.sql[name.end:]
	out := []string{head + name.text + localSuffix + l.on() + tail}
	if columns {
		out = append(out, "ALTER TABLE "+name.text+l.on()+tail)
	}
	return out, nil
}

// quoteName quotes an identifier.
func quoteName(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(s) + "`"
}

// quoteString quotes a string.
func quoteString(s string) string {
	return "'" + strings.NewReplacer("\\", "\\\\", "'", "\\'").Replace(s) + "'"
}
