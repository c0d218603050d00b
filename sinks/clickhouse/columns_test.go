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

// Every field of a row is stored: setting it changes the value of a column.
func TestEveryFieldIsStored(t *testing.T) {
	t.Parallel()
	checkFields(t, exchangeColumns, "Labels.Conversation") // Conversation contains given ids, too
	checkFields(t, findingColumns, "Labels.Conversation")
	checkFields(t, toolCallColumns, "Labels.Conversation")
	checkFields(t, runColumns)
	checkFields[sinks.Alert](t, alertColumns)
}

// checkFields clears each field of a full row in turn, which must change the stored values except for fields in unstored.
func checkFields[R any](t *testing.T, columns []column[R], unstored ...string) {
	t.Helper()
	stored := func(r R) []any {
		var vs []any
		for _, c := range columns {
			vs = append(vs, c.values([]R{r}))
		}
		return vs
	}
	// All fields are set and all strings differ, so that a value that replaces an empty one is detected.
	full := reflect.New(reflect.TypeFor[R]()).Elem()
	leaves(full, "", func(name string, v reflect.Value) { v.Set(sampleValue(v.Type(), name)) })
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

// leaves calls f for each field of v that is not a struct with fields of its own.
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

func sampleValue(t reflect.Type, text string) reflect.Value {
	switch t.Kind() {
	case reflect.String:
		return reflect.ValueOf(text).Convert(t)
	case reflect.Bool:
		return reflect.ValueOf(true)
	case reflect.Struct:
		return reflect.ValueOf(time.Unix(1700000000, 0))
	case reflect.Slice:
		return reflect.Append(reflect.MakeSlice(t, 0, 1), sampleValue(t.Elem(), text))
	case reflect.Map:
		m := reflect.MakeMap(t)
		m.SetMapIndex(sampleValue(t.Key(), text), sampleValue(t.Elem(), text))
		return m
	default:
		return reflect.ValueOf(7).Convert(t)
	}
}

func TestClamp(t *testing.T) {
	t.Parallel()
	f := func(in, want time.Time) {
		t.Helper()
		if got := clamp(in); !got.Equal(want) {
			t.Errorf("clamp(%v) = %v, want %v", in, got, want)
		}
	}
	now := time.Date(2026, 11, 20, 1, 2, 3, 4, time.UTC)
	f(now, now)
	f(time.Time{}, minTime)
	f(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), maxTime)
}

// Write fills all of sinks.Tables, in their order.
func TestTables(t *testing.T) {
	t.Parallel()
	for i, want := range sinks.Tables {
		if i >= len(tables) || tables[i].Table != want {
			t.Errorf("tables[%d] is not %s", i, want.Name())
		}
	}
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	for _, t := range tables {
		m.received.WithLabelValues(t.Name())
		m.written.WithLabelValues(t.Name())
		m.duration.WithLabelValues(t.Name())
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}
