package clickhouse

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// maxResultRows is the maximum number of rows that Query returns. It bounds memory.
const maxResultRows = 100_000

// A Result is the result of a query.
type Result struct {
	Columns []Column
	// Rows contain one value per column: nil for NULL, time.Time in UTC for times, and otherwise a value of the Go type
	// closest to the column's type. All values except infinite floats can be encoded as JSON.
	Rows      [][]any
	Truncated bool // the query returned more than 100,000 rows
}

// A Column is a column of a Result.
type Column struct {
	Name string
	Type string // ClickHouse type, for example LowCardinality(String)
}

// querySettings apply to every query.
var querySettings = clickhouse.Settings{
	// Unlike the value 1, the value 2 allows settings in the statement.
	"readonly": 2,
	// On a cluster, subqueries must read all shards to return the same result as on one server.
	"distributed_product_mode": "global",
}

// Query runs one read-only statement, which cannot change data or the server. Values are only passed as bound
// parameters: the value of {name:Type} in sql is params[name], in ClickHouse's text format.
func (s *Sink) Query(ctx context.Context, sql string, params map[string]string) (*Result, error) {
	args := make([]any, 0, len(params))
	for name, value := range params {
		// In a statement without any {name:Type}, the client would substitute the parameters as text.
		if strings.Contains(sql, "{"+name+":") {
			args = append(args, clickhouse.Named(name, value))
		}
	}
	rows, err := s.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(querySettings)), sql, args...)
	if err != nil {
		return nil, fmt.Errorf("run query: %w", err)
	}
	defer func() { _ = rows.Close() }() // errors are in rows.Err

	res := &Result{}
	types := rows.ColumnTypes()
	for _, t := range types {
		res.Columns = append(res.Columns, Column{Name: t.Name(), Type: t.DatabaseTypeName()})
	}
	dest := make([]any, len(types))
	for rows.Next() {
		if len(res.Rows) == maxResultRows {
			res.Truncated = true
			return res, nil
		}
		for i, t := range types {
			dest[i] = reflect.New(t.ScanType()).Interface()
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, fmt.Errorf("read row %d: %w", len(res.Rows)+1, err)
		}
		row := make([]any, len(dest))
		for i := range dest {
			row[i] = plain(reflect.ValueOf(dest[i]).Elem())
		}
		res.Rows = append(res.Rows, row)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	return res, nil
}

// plain returns the value of v, with the pointers of Nullable columns dereferenced and times in UTC.
func plain(v reflect.Value) any {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	x := v.Interface()
	if t, ok := x.(time.Time); ok {
		return t.UTC()
	}
	return x
}
