package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestFinite(t *testing.T) {
	if finite(math.Inf(1)) != math.MaxFloat64 || finite(math.NaN()) != 0 {
		t.Error("a value remains that JSON cannot represent")
	}
}

// Texts that are expanded together are those that are expanded one by one, whatever the templates and the labels contain.
func TestExpandTogether(t *testing.T) {
	query := func(_ context.Context, expr string, _ time.Time) (promql.Vector, error) {
		if expr == "fails" {
			return nil, errors.New("it fails")
		}
		return promql.Vector{{F: 7, Metric: labels.FromStrings("a", "of the query")}}, nil
	}
	f := func(together bool, values []string, texts ...string) {
		t.Helper()
		e := &expansion{ctx: t.Context(), rule: &Rule{Name: "R"}, ts: time.Unix(1000, 0), query: query, texts: texts}
		for i, v := range values {
			s := promql.Sample{F: float64(i) / 3}
			e.data = append(e.data, template.AlertTemplateData(map[string]string{"a": v, "i": fmt.Sprint(i)}, nil, "", s))
		}
		must.Equal(t, e.together() != nil, together, "%q: expanded together", texts)
		if got, want := e.all(), e.each(); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\ngot  %q\nwant %q", texts, got, want)
		}
	}
	plain := []string{"plain", "", "{{ $labels.a }}", "{{end}}", "\n"}
	f(true, plain, "{{ $labels.a }} {{ $value | humanizePercentage }}", "{{ .Labels.a }}: {{ .Value }}")
	f(true, plain, "{{ $x := $value }}{{ $x }}", "{{ $x := 1 }}{{ $x }}", "{{- $labels.i -}}", " {{ $labels.i -}} ")
	f(true, plain, "{{ if gt $value 0.5 }}many{{ else }}few{{ end }}", "{{ range query `up` }}{{ .Labels.a }}{{ .Value }}{{ end }}")
	f(true, plain, "{{ $labels.missing }}", "{{ index $labels `a` }}", "{{/* comment */}}")
	// templates of their own
	f(false, plain, "{{ $.Labels.a }}", "{{ $labels.a }}")
	f(false, plain, `{{ define "x" }}[{{ . }}]{{ end }}{{ template "x" $value }}`, "{{ $labels.a }}")
	f(false, plain, "{{ $x := 1 }}", "{{ $x }}")
	f(false, plain, "{{ break }}", "{{ $labels.a }}")
	// failures
	f(false, plain, "{{ query `fails` | first }}", "{{ $labels.a }}")
	f(false, plain, "{{ if gt $value 0.5 }}{{ query `fails` | first }}{{ end }}ok", "{{ $labels.a }}")
	// separators
	f(false, plain, "{{ if gt $value 0.5 }}\x00{{ end }}", "{{ $labels.a }}")
	f(false, []string{"nul \x00 here", "\x00\x00"}, "{{ $labels.a }}")
}
