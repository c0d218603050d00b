package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks/sqltext"
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
	// As in the views: a row stays in its partition in all writes.
	"do_not_merge_across_partitions_select_final": 1,
}

// Limits of QueryBounded.
const (
	maxBoundedTime  = time.Minute
	maxBoundedBytes = 64 << 20
)

// boundedSettings apply to every query of QueryBounded.
var boundedSettings = clickhouse.Settings{
	// The value 1 forbids settings in the statement, which could lift the limits, and most table functions.
	"readonly":                 1,
	"distributed_product_mode": "global",
	"do_not_merge_across_partitions_select_final": 1,
	"max_execution_time":                          int(maxBoundedTime.Seconds()),
	// The client decodes whole blocks: without this limit, one block may take gigabytes before its size is known.
	"max_result_bytes":     maxBoundedBytes,
	"result_overflow_mode": "throw",
}

// Errors of Query and QueryBounded.
var (
	ErrNotReadOnly = errors.New("only read-only statements are allowed: SELECT, WITH, SHOW, DESCRIBE, EXPLAIN, EXISTS")
	ErrTooLarge    = fmt.Errorf("the result is larger than %d MiB; select fewer rows or columns", maxBoundedBytes>>20)
)

// readOnly reports whether sql is a read-only statement. ClickHouse's setting readonly permits some others, such as
// KILL QUERY.
func readOnly(sql string) bool {
	scanner := sqltext.Scanner{SQL: sql}
	first := scanner.Next()
	for first.Is("(") {
		first = scanner.Next()
	}
	return slices.ContainsFunc([]string{"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS"}, first.Is)
}

// sources lists the table functions, without a suffix Cluster, that read from files, other servers or programs. The setting
// readonly forbids them only after ClickHouse has read the source to find its columns.
var sources = strings.Fields(`arrowflight arrowstream azureblobstorage cosn deltalake deltalakeazure deltalakelocal deltalakes3 dictionary
	executable file filesystem gcs hdfs hive hudi iceberg icebergazure iceberghdfs iceberglocal icebergs3 jdbc mongodb mysql odbc oss paimon
	paimonazure paimonhdfs paimonlocal paimons3 postgresql redis remote remotesecure s3 sqlite url ytsaurus`)

// source returns the name of a function in sql that reads from elsewhere, or "".
func source(sql string) string {
	return function(sql, func(name string) bool { return slices.Contains(sources, strings.TrimSuffix(name, "cluster")) })
}

// function returns the name of a function in sql that is forbidden, as it is written, or "".
func function(sql string, forbidden func(name string) bool) string {
	scanner := sqltext.Scanner{SQL: sql}
	for name, next := scanner.Next(), scanner.Next(); name.Kind != sqltext.End; name, next = next, scanner.Next() {
		if !next.Is("(") || name.Kind != sqltext.Word && name.Kind != sqltext.QuotedName {
			continue
		}
		text := strings.ToLower(strings.Trim(name.Text, "`\"“”"))
		// An escape sequence in a quoted name may encode any character.
		if forbidden(text) || strings.Contains(text, `\`) {
			return name.Text
		}
	}
	return ""
}

// Query runs one read-only statement, which cannot change data or the server. Values are only passed as bound
// parameters: the value of {name:Type} in sql is params[name], in ClickHouse's text format.
func (s *Sink) Query(ctx context.Context, sql string, params map[string]string) (*Result, error) {
	return s.query(ctx, querySettings, math.MaxInt, sql, params)
}

// QueryBounded is Query for statements from other hosts: it also forbids settings and functions that read from elsewhere,
// and limits the time to a minute and the result to 64 MiB.
func (s *Sink) QueryBounded(ctx context.Context, sql string, params map[string]string) (*Result, error) {
	if name := source(sql); name != "" {
		return nil, fmt.Errorf("the function %s is not allowed: it reads from files or other servers", name)
	}
	if err := scopeOf(ctx).check(sql); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxBoundedTime)
	defer cancel()
	return s.query(ctx, boundedSettings, maxBoundedBytes, sql, params)
}

func (s *Sink) query(ctx context.Context, settings clickhouse.Settings, maxBytes int, sql string, params map[string]string) (*Result, error) {
	if !readOnly(sql) {
		return nil, ErrNotReadOnly
	}
	args := make([]any, 0, len(params))
	for name, value := range params {
		// In a statement without any {name:Type}, the client would substitute the parameters as text.
		if strings.Contains(sql, "{"+name+":") {
			args = append(args, clickhouse.Named(name, value))
		}
	}
	rows, err := s.conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(scopeOf(ctx).apply(settings, s.topology))), sql, args...)
	if err != nil {
		return nil, queryError("run query", err)
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
			v := reflect.ValueOf(dest[i]).Elem()
			row[i] = plain(v)
			maxBytes -= size(v)
		}
		if maxBytes < 0 {
			return nil, ErrTooLarge
		}
		res.Rows = append(res.Rows, row)
	}
	if err := rows.Err(); err != nil {
		return nil, queryError("read rows", err)
	}
	return res, nil
}

// queryError returns ErrTooLarge if err means that the result exceeds max_result_bytes, and otherwise err with its context.
func queryError(context string, err error) error {
	if code(err) == proto.ErrTooManyRowsOrBytes {
		return ErrTooLarge
	}
	return fmt.Errorf("%s: %w", context, err)
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

// size returns the approximate memory of v, in bytes.
func size(v reflect.Value) int {
	n := 16
	switch v.Kind() {
	case reflect.String:
		n += v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			n += size(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			n += size(v.Index(i))
		}
	case reflect.Map:
		for k, e := range v.Seq2() {
			n += size(k) + size(e)
		}
	default: // a number or a small struct
	}
	return n
}
