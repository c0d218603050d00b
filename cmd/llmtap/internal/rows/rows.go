// Package rows reads query results of ClickHouse by column name.
package rows

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A Querier runs queries. It is implemented by *clickhouse.Sink.
type Querier interface {
	Query(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error)
}

// A Stored is a stored query with the values of its parameters, or a Statement with those of its filters.
type Stored struct {
	Name   string         `json:"name"` // of the query, or the text of the Statement
	Values queries.Values `json:"values"`
	At     time.Time      `json:"at"` // to which its times are relative
}

type storedKey struct{}

// WithStored returns a context for the statement of q. A collector runs q for those who may not run statements of their own.
func WithStored(ctx context.Context, q Stored) context.Context {
	return context.WithValue(ctx, storedKey{}, &q)
}

// StoredOf returns the stored query of a statement, or nil.
func StoredOf(ctx context.Context) *Stored {
	q, _ := ctx.Value(storedKey{}).(*Stored)
	return q
}

// statements are those of commands, by their texts.
var statements = map[string]bool{}

// Statement declares a statement of commands, which must be a function of its parameters, and returns it. A collector that has the same one
// runs it for those who may not run statements of their own: whatever its parameters, it returns of rows that they may see, or contents by ids,
// which are hashes that only these rows have.
func Statement(sql string) string {
	statements[sql] = true
	return sql
}

// IsStatement reports whether sql is declared as a Statement.
func IsStatement(sql string) bool { return statements[sql] }

// Statements returns the declared statements, in order.
func Statements() []string { return slices.Sorted(maps.Keys(statements)) }

// A RefusedError means that somebody may not run a statement.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// A Row is a row of a result.
type Row = stored.Row

// Of returns the rows of res.
func Of(res *clickhouse.Result) []Row {
	return stored.Rows(res.Rows, func(column int) string { return res.Columns[column].Name })
}

// Read returns all rows of a query; what names the rows in errors.
func Read(ctx context.Context, q Querier, what, sql string, params map[string]string) ([]Row, error) {
	res, err := q.Query(ctx, sql, params)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if res.Truncated {
		return nil, fmt.Errorf("read %s: there are more than %d rows", what, len(res.Rows))
	}
	return Of(res), nil
}

// TimeParam returns t as a parameter of type DateTime64(9, 'UTC').
func TimeParam(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000000") }

// TextsParam returns values as a parameter of type Array(String).
func TextsParam(values []string) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'")
	}
	return "[" + b.String() + "]"
}
