package clickhouse

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// maxResultRows bounds what Query keeps in memory.
const maxResultRows = 100_000

// A Result is the answer to a query.
type Result struct {
	Columns []Column
	// Rows hold one value per column: nil for NULL, time.Time in UTC for times, else the Go type nearest to the
	// column's. All can be encoded as JSON but for infinite floats.
	Rows      [][]any
	Truncated bool // there were more than 100,000 rows
}

// A Column of a Result.
type Column struct {
	Name string
	Type string // ClickHouse's, e.g. LowCardinality(String)
}

// querySettings hold for every question.
var querySettings = clickhouse.Settings{
	// 2, not 1: the statement may hold settings of its own.
	"readonly": 2,
	// On a cluster a subquery is about all shards, as it is on one server.
	"distributed_product_mode": "global",
}

// Query runs one reading statement. Values get into it only as bound parameters: {name:Type} in sql takes params[name],
// in ClickHouse's text form. The statement cannot change data or the server.
func (s *Sink) Query(ctx context.Context, sql string, params map[string]string) (*Result, error) {
	args := make([]any, 0, len(params))
	for name, value := range params {
		// A statement without any {name:Type} would send the client to its own, textual way of binding.
		if strings.Contains(sql, "{"+name+":") {
			args = append(args, clickhouse.Named(name, value))
		}
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(querySettings))
	rows, err := s.conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("run query: %w", err)
	}
	defer func() { _ = rows.Close() }() // what went wrong is in rows.Err

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

// plain returns what v holds without the pointers of Nullable columns.
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
