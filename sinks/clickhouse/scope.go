package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// A Scope has the condition of the rows that a query reads, by table. A query reads all rows of other tables, and none of a table
// whose condition is Nothing.
type Scope map[string]string

// Nothing is the condition of a table that seems to be empty.
const Nothing = "0"

type scopeKey struct{}

// WithScope returns a context in whose queries the tables have only the rows of s, also through views, joins and subqueries.
func WithScope(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

func scopeOf(ctx context.Context) Scope {
	s, _ := ctx.Value(scopeKey{}).(Scope)
	return s
}

// apply returns settings with the conditions of s.
func (s Scope) apply(settings clickhouse.Settings, t topology) clickhouse.Settings {
	if len(s) == 0 {
		return settings
	}
	var filters []string
	for _, table := range slices.Sorted(maps.Keys(s)) {
		for _, name := range slices.Compact([]string{table, t.local(table)}) {
			filters = append(filters, sqltext.QuoteString(name)+":"+sqltext.QuoteString(s[table]))
		}
	}
	out := maps.Clone(settings)
	out["additional_table_filters"] = "{" + strings.Join(filters, ",") + "}"
	return out
}

// unscoped are the table functions, by prefix, that read a table past the conditions of a scope.
var unscoped = []string{"merge", "cluster", "loop", "fuzzquery"}

// check returns an error if sql reads past s.
func (s Scope) check(sql string) error {
	if len(s) == 0 {
		return nil
	}
	scanner := sqltext.Scanner{SQL: sql}
	for token := scanner.Next(); token.Kind != sqltext.End; token = scanner.Next() {
		if token.Kind != sqltext.Word && token.Kind != sqltext.QuotedName {
			continue
		}
		name := strings.TrimSuffix(strings.TrimSuffix(strings.Trim(token.Text, "`\""), "_final"), localSuffix)
		if s[name] == Nothing {
			return fmt.Errorf("the table %s needs the role admin", name)
		}
	}
	if name := function(sql, func(name string) bool {
		return slices.ContainsFunc(unscoped, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}); name != "" {
		return fmt.Errorf("the function %s needs the role admin: it reads tables past what you may see", name)
	}
	return nil
}
