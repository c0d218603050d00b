package clickhouse

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/sinks"
)

// Every field of a row reaches a column: setting it changes what is stored.
func TestEveryFieldIsStored(t *testing.T) {
	checkFields(t, exchangeColumns, "Labels.Conversation") // given ids are in Conversation too
	checkFields(t, findingColumns, "Labels.Conversation")
	checkFields(t, toolCallColumns, "Labels.Conversation")
	checkFields(t, runColumns)
	checkFields[sinks.Alert](t, alertColumns)
}

// checkFields empties each field of a full row in turn; only what is in unstored may make no difference.
func checkFields[R any](t *testing.T, columns []column[R], unstored ...string) {
	t.Helper()
	stored := func(r R) []any {
		var vs []any
		for _, c := range columns {
			vs = append(vs, c.values([]R{r}))
		}
		return vs
	}
	// All fields are set and strings differ, so that a value which stands in for an empty one shows.
	full := reflect.New(reflect.TypeFor[R]()).Elem()
	leaves(full, "", func(name string, v reflect.Value) { v.Set(sample(v.Type(), name)) })
	leaves(full, "", func(name string, v reflect.Value) {
		before := stored(full.Interface().(R))
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.SetZero()
		same := reflect.DeepEqual(before, stored(full.Interface().(R)))
		v.Set(old)
		if want := !slices.Contains(unstored, name); same == want {
			t.Errorf("%T.%s: stored %v, want %v", *new(R), name, !same, want)
		}
	})
}

// leaves calls f for each field of v that holds no further fields.
func leaves(v reflect.Value, prefix string, f func(name string, v reflect.Value)) {
	for i := range v.NumField() {
		field, name := v.Field(i), prefix+v.Type().Field(i).Name
		if field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[time.Time]() {
			leaves(field, name+".", f)
			continue
		}
		f(name, field)
	}
}

func sample(t reflect.Type, text string) reflect.Value {
	switch t.Kind() {
	case reflect.String:
		return reflect.ValueOf(text).Convert(t)
	case reflect.Bool:
		return reflect.ValueOf(true)
	case reflect.Struct:
		return reflect.ValueOf(time.Unix(1700000000, 0))
	case reflect.Slice:
		return reflect.Append(reflect.MakeSlice(t, 0, 1), sample(t.Elem(), text))
	case reflect.Map:
		m := reflect.MakeMap(t)
		m.SetMapIndex(sample(t.Key(), text), sample(t.Elem(), text))
		return m
	default:
		return reflect.ValueOf(7).Convert(t)
	}
}

func TestInstant(t *testing.T) {
	f := func(in, want time.Time) {
		t.Helper()
		if got := instant(in); !got.Equal(want) {
			t.Errorf("instant(%v) = %v, want %v", in, got, want)
		}
	}
	now := time.Date(2026, 11, 20, 1, 2, 3, 4, time.UTC)
	f(now, now)
	f(time.Time{}, minInstant)
	f(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), maxInstant)
}

func TestMetricsLint(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	for _, table := range tableNames {
		m.in.WithLabelValues(table)
		m.out.WithLabelValues(table)
		m.seconds.WithLabelValues(table)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}
