package web

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/nearest"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

var statements = sync.OnceValues(func() (map[string]queries.Query, error) {
	files, err := fs.Sub(sqlFiles, "sql")
	if err != nil {
		return nil, err
	}
	return queries.Load(files)
})

// Statement returns a statement of sql/*.sql, or else a stored query.
func Statement(name string) (queries.Query, error) {
	all, err := statements()
	if err != nil {
		return queries.Query{}, err
	}
	if q, ok := all[name]; ok {
		return q, nil
	}
	return queries.Get(name)
}

// A store runs statements on ClickHouse.
type store struct {
	clickhouse Query // nil: none
	prices     price.Table
}

// query runs a statement of sql/*.sql, or a stored query.
func (s store) query(ctx context.Context, name string, values queries.Values, now time.Time) ([]stored.Row, error) {
	q, err := Statement(name)
	if err != nil {
		return nil, err
	}
	t, err := s.run(ctx, q, values, now)
	if err != nil {
		return nil, err
	}
	return rowsOf(t), nil
}

// run runs a query.
func (s store) run(ctx context.Context, q queries.Query, values queries.Values, now time.Time) (*Table, error) {
	if s.clickhouse == nil {
		return nil, fmt.Errorf("ClickHouse is %w in this process", ErrUnavailable)
	}
	sql, params, err := s.bind(ctx, q, values, now)
	if err != nil {
		return nil, err
	}
	return s.clickhouse(ctx, sql, params)
}

// bind returns the statement of q and the values of all parameters.
func (s store) bind(ctx context.Context, q queries.Query, values queries.Values, now time.Time) (sql string, params map[string]string, err error) {
	if err = access.ScopeOf(ctx).Refuses(q.Texts, values); err == nil {
		sql, params, err = q.Bind(values, now)
	}
	if err != nil {
		return "", nil, err
	}
	for _, name := range q.Bound {
		if name == "prices" {
			params[name] = s.prices.Bound()
		}
	}
	return sql, params, nil
}

// valuesOf returns the values of v for the parameters that q has, and further values as names and values.
func valuesOf(q queries.Query, v *View, pairs ...string) queries.Values {
	values := v.values()
	for i := 0; i+1 < len(pairs); i += 2 {
		values[pairs[i]] = []string{pairs[i+1]}
	}
	maps.DeleteFunc(values, func(name string, _ []string) bool {
		return !slices.ContainsFunc(q.Parameters, func(p queries.Parameter) bool { return p.Name == name })
	})
	return values
}

// whyEmpty returns why a statement has no rows, as far as that is known: everything is older than the time range, or texts are
// not stored.
func (s store) whyEmpty(ctx context.Context, v *View, texts bool) (string, error) {
	rows, err := s.query(ctx, "newest_call", nil, v.Now)
	switch {
	case err != nil:
		return "", err
	case len(rows) == 0:
		return "No calls are stored.", nil
	case rows[0].Time("newest").Before(v.From):
		at := v.At(rows[0].Time("newest"))
		return fmt.Sprintf("The newest stored call began %s, at %s.", at.Relative(), at.Absolute()), nil
	}
	for _, name := range []string{"service", "stage", "environment", "version", "provider", "model", "tool"} {
		if text, err := s.whyUnknown(ctx, v, name); text != "" || err != nil {
			return text, err
		}
	}
	if !texts || !access.ScopeOf(ctx).All() { // the statement reads bodies of all services
		return "", nil
	}
	rows, err = s.query(ctx, "bodies", nil, v.Now)
	switch {
	case err != nil || len(rows) == 0:
		return "", err
	case rows[0].Int64("bodies") == 0:
		return "No messages are stored.", nil
	case rows[0].Int64("bodies") == rows[0].Int64("shapes"):
		return "Only the shapes of messages are stored, without their texts. To store texts, set the capture mode of the hooks to full.", nil
	}
	return "", nil
}

// whyUnknown says that no call of the other filters has the value of one, although calls have others; "" if that is not so.
func (s store) whyUnknown(ctx context.Context, v *View, name string) (string, error) {
	value := v.Get(name)
	if value == "" {
		return "", nil
	}
	list, err := s.suggestions(ctx, v, name, 10_000)
	if err != nil || len(list) == 0 {
		return "", err
	}
	var known []string
	for _, one := range list {
		known = append(known, fmt.Sprint(one[0]))
	}
	text := fmt.Sprintf("No such call has the %s “%s”", name, value)
	switch near := nearest.Name(value, known); {
	case slices.Contains(known, value):
		return "", nil
	case near != "":
		return text + "; did you mean “" + near + "”?", nil
	}
	return text + "; there are " + strings.Join(known[:min(len(known), 10)], ", ") + ".", nil
}

// rowsOf returns the rows of t.
func rowsOf(t *Table) []stored.Row {
	return stored.Rows(t.Rows, func(column int) string { return t.Columns[column].Name })
}
