// Package rows reads query results of ClickHouse by column name.
package rows

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A Querier runs queries. It is implemented by *clickhouse.Sink.
type Querier interface {
	Query(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error)
}

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
