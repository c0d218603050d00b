package backtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const originImport = event.OriginImport

// A row reads the values of a row by name; the first that is not of the asked type makes err.
type row struct {
	res    *clickhouse.Result
	values []any
	err    error
}

func (r *row) value(name string) any {
	i := slices.IndexFunc(r.res.Columns, func(c clickhouse.Column) bool { return c.Name == name })
	if i < 0 {
		r.wrong(name, nil)
		return nil
	}
	return r.values[i]
}

func (r *row) wrong(name string, v any) {
	if r.err == nil {
		r.err = fmt.Errorf("read rows: column %s is a %T", name, v)
	}
}

func (r *row) text(name string) string {
	v, ok := r.value(name).(string)
	if !ok {
		r.wrong(name, r.value(name))
	}
	return v
}

func (r *row) list(name string) []string {
	v, ok := r.value(name).([]string)
	if !ok {
		r.wrong(name, r.value(name))
	}
	return v
}

func (r *row) time(name string) time.Time {
	v, ok := r.value(name).(time.Time)
	if !ok {
		r.wrong(name, r.value(name))
	}
	return v
}

func (r *row) int(name string) int64 {
	switch v := r.value(name).(type) {
	case uint64:
		return int64(v)
	case uint32:
		return int64(v)
	case uint16:
		return int64(v)
	case int32:
		return int64(v)
	case int64:
		return v
	default:
		r.wrong(name, v)
		return 0
	}
}

// labels are those that all counts of calls have.
func (r *row) labels() map[string]string {
	kv := make(map[string]string, 12)
	for _, l := range []string{"service", "service_version", "environment", "agent", "stage", "provider", "model"} {
		set(kv, l, r.text(l))
	}
	return kv
}

// set adds names and values; an empty label is an absent one.
func set(kv map[string]string, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			kv[pairs[i]] = pairs[i+1]
		}
	}
}
