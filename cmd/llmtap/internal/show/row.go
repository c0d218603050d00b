package show

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A Querier asks ClickHouse; *clickhouse.Sink is one.
type Querier interface {
	Query(ctx context.Context, sql string, params map[string]string) (*clickhouse.Result, error)
}

// row is a row by column. A column of another type than asked for is that type's zero.
type row map[string]any

func rows(res *clickhouse.Result) []row {
	all := make([]row, len(res.Rows))
	for i, values := range res.Rows {
		r := make(row, len(values))
		for j, v := range values {
			r[res.Columns[j].Name] = v
		}
		all[i] = r
	}
	return all
}

func (r row) text(name string) string {
	s, _ := r[name].(string)
	return s
}

func (r row) number(name string) int {
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

func (r row) seconds(name string) float64 {
	f, _ := r[name].(float64)
	return f
}

func (r row) time(name string) time.Time {
	t, _ := r[name].(time.Time)
	return t
}

func (r row) texts(name string) []string {
	s, _ := r[name].([]string)
	return s
}

// ask returns the rows of a query with the parameters given as name, value, name, value.
func ask(ctx context.Context, q Querier, what, sql string, params ...string) ([]row, error) {
	bound := make(map[string]string, len(params)/2)
	for i := 0; i+1 < len(params); i += 2 {
		bound[params[i]] = params[i+1]
	}
	res, err := q.Query(ctx, sql, bound)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if res.Truncated {
		return nil, fmt.Errorf("read %s: there are more than %d", what, len(res.Rows))
	}
	return rows(res), nil
}

// list is a parameter of type Array(String).
func list(values []string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'")
	}
	b.WriteByte(']')
	return b.String()
}
