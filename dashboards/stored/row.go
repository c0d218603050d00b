package stored

import (
	"reflect"
	"time"
)

// A Row maps column names to the values of a row. Its methods return the zero value for a column of another type.
type Row map[string]any

// Rows returns rows whose columns have these names.
func Rows(rows [][]any, name func(column int) string) []Row {
	all := make([]Row, len(rows))
	for i, values := range rows {
		all[i] = make(Row, len(values))
		for j, v := range values {
			all[i][name(j)] = v
		}
	}
	return all
}

// Text returns a column of type String.
func (r Row) Text(name string) string {
	s, _ := r[name].(string)
	return s
}

// Int returns a column of an integer type.
func (r Row) Int(name string) int { return int(r.Int64(name)) }

// Int64 is Int for large numbers.
func (r Row) Int64(name string) int64 {
	n := reflect.ValueOf(r[name])
	switch {
	case n.CanInt():
		return n.Int()
	case n.CanUint():
		return int64(n.Uint())
	}
	return 0
}

// Float returns a column of a number.
func (r Row) Float(name string) float64 {
	switch n := r[name].(type) {
	case float64:
		return n
	case float32:
		return float64(n)
	}
	return float64(r.Int64(name))
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
