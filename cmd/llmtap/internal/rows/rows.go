// Package rows reads query results of ClickHouse by column name.
package rows

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A Querier runs queries. It is implemented by *clickhouse.Sink.
type Querier interface {
	Query(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error)
}

// A Row maps column names to the values of a row. Its methods return the zero value for a column of another type.
type Row map[string]any

// Of returns the rows of res.
func Of(res *clickhouse.Result) []Row {
	all := make([]Row, len(res.Rows))
	for i, values := range res.Rows {
		r := make(Row, len(values))
		for j, v := range values {
			r[res.Columns[j].Name] = v
		}
		all[i] = r
	}
	return all
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

// Text returns a column of type String.
func (r Row) Text(name string) string {
	s, _ := r[name].(string)
	return s
}

// Int returns a column of an integer type.
func (r Row) Int(name string) int {
	switch n := r[name].(type) {
	case uint16:
		return int(n)
	case uint32:
		return int(n)
	case uint64:
		return int(n)
	case int32:
		return int(n)
	case int64:
		return int(n)
	default:
		return 0
	}
}

// Float returns a column of type Float64.
func (r Row) Float(name string) float64 {
	f, _ := r[name].(float64)
	return f
}

// Bool returns a column of type Bool.
func (r Row) Bool(name string) bool {
	b, _ := r[name].(bool)
	return b
}

// Time returns a column of type DateTime64.
func (r Row) Time(name string) time.Time {
	t, _ := r[name].(time.Time)
	return t
}

// Texts returns a column of type Array(String).
func (r Row) Texts(name string) []string {
	s, _ := r[name].([]string)
	return s
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
