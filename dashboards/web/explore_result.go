package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	shownRows = 500 // of a result; CSV has all
	shownText = 400 // characters of a value
)

// A result is the result of a query as a page shows it.
type result struct {
	*exploration
	Statement string // to copy
	Missing   string // required parameter
	Failed    string // message of ClickHouse
	Took      time.Duration
	Count     int
	Truncated bool
	Empty     string // why there are no rows
	Head      []resultColumn
	Rows      [][]cell
	Chart     *Chart
	Charted   string // column of the chart or of the bars
}

// A resultColumn is a column of a result.
type resultColumn struct {
	Name   string
	Number bool
	URL    string // shows this column as bars
	Bar    bool   // shown as bars
}

// A cell is a value of a result.
type cell struct {
	Time  Time
	Parts []cellPart // elements of a list, or one value
	Full  string     // if it is shortened
	Bar   string     // width of the bar in percent; empty: none
}

// A cellPart is a text and its link.
type cellPart struct{ Text, URL string }

// result runs the query of e. A statement that ClickHouse refuses is not an error of llmtap.
func (s explorePage) result(ctx context.Context, e *exploration) (*result, error) {
	out := &result{exploration: e, Missing: e.Missing(), Failed: e.Problem}
	if out.Missing != "" || out.Failed != "" {
		return out, nil
	}
	began := time.Now()
	t, sql, err := s.table(ctx, e)
	out.Statement, out.Took = sql, time.Since(began)
	switch {
	case errors.Is(err, ErrUnavailable) || ctx.Err() != nil:
		return nil, err
	case err != nil:
		out.Failed = readable(err)
		return out, nil
	}
	out.Count, out.Truncated = len(t.Rows), t.Truncated
	out.fill(t)
	if len(t.Rows) == 0 && hasRange(e.Query) && !e.Own {
		out.Empty, err = s.whyEmpty(ctx, e.View, e.Query.Texts)
	}
	return out, err
}

// fill sets the table and the chart of out.
func (out *result) fill(t *Table) {
	numbers := numberColumns(t)
	charted := chartColumn(t, numbers, out.View.Get("bar"))
	highest := 0.0
	if charted >= 0 {
		out.Charted = t.Columns[charted].Name
		for _, r := range t.Rows {
			highest = max(highest, floatOf(r[charted]))
		}
		out.Chart = out.View.resultChart(t, charted)
	}
	bars := out.Chart == nil && len(t.Rows) > 1 && highest > 0 && !math.IsInf(highest, 0)
	for i, c := range t.Columns {
		h := resultColumn{Name: strings.ReplaceAll(c.Name, "_", " "), Number: numbers[i], Bar: bars && i == charted}
		if numbers[i] && i != charted && (bars || out.Chart != nil) {
			h.URL = out.View.Here("bar", c.Name)
		}
		out.Head = append(out.Head, h)
	}
	for _, r := range t.Rows[:min(len(t.Rows), shownRows)] {
		row := make([]cell, len(r))
		for i, v := range r {
			row[i] = out.cell(t.Columns[i], v)
			if bars && i == charted {
				row[i].Bar = strconv.FormatFloat(max(0, 100*floatOf(v)/highest), 'f', 1, 64)
			}
		}
		out.Rows = append(out.Rows, row)
	}
}

// numberColumns reports which columns of t contain numbers.
func numberColumns(t *Table) []bool {
	out := make([]bool, len(t.Columns))
	for i, c := range t.Columns {
		kind := strings.TrimPrefix(strings.TrimPrefix(c.Type, "LowCardinality("), "Nullable(")
		out[i] = slices.ContainsFunc([]string{"Int", "UInt", "Float", "Decimal"}, func(prefix string) bool { return strings.HasPrefix(kind, prefix) })
	}
	return out
}

// chartColumn returns the index of the column to draw, or -1: the chosen one, or else the first count of failures, or the first
// number.
func chartColumn(t *Table, numbers []bool, chosen string) int {
	first := -1
	for i, c := range t.Columns {
		switch {
		case !numbers[i]:
		case c.Name == chosen:
			return i
		case first < 0 || strings.HasPrefix(c.Name, "failed_") && !strings.HasPrefix(t.Columns[first].Name, "failed_"):
			first = i
		}
	}
	return first
}

// floatOf returns a number, or 0.
func floatOf(v any) float64 {
	f := stored.Row{"": v}.Float("")
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// resultChart returns a chart of a result with a column "time", or nil. The names of its series are in the columns before it.
func (v *View) resultChart(t *Table, charted int) *Chart {
	at := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == "time" && strings.Contains(c.Type, "Date") })
	if at < 0 || strings.Contains(t.Columns[charted].Name, "percent") { // shares cannot be added up
		return nil
	}
	var times []time.Time
	for _, r := range t.Rows {
		if x, ok := r[at].(time.Time); ok {
			times = append(times, x)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	name := strings.ReplaceAll(t.Columns[charted].Name, "_", " ")
	c := v.newChart(name+" over time", strings.TrimSuffix(name, "s"))
	if len(times) > 1 { // bars as wide as the steps of the result
		c.Step = times[1].Sub(times[0])
		for i := range times[1:] {
			c.Step = min(c.Step, times[i+1].Sub(times[i]))
		}
		first := times[0]
		if steps := first.Sub(v.From) / c.Step; steps > 0 {
			first = first.Add(-steps * c.Step)
		}
		const most = 400
		if times[len(times)-1].Sub(first)/c.Step > most {
			return nil // not a series of steps
		}
		c.Starts = nil
		for x := first; !x.After(times[len(times)-1]) || x.Before(v.To) && len(c.Starts) < most; x = x.Add(c.Step) {
			c.Starts = append(c.Starts, x)
		}
	}
	rows := make([]stored.Row, len(t.Rows))
	for i, r := range t.Rows {
		var names []string
		for j := range at {
			if text, ok := r[j].(string); ok && text != "" {
				names = append(names, text)
			}
		}
		rows[i] = stored.Row{"time": r[at], "name": strings.Join(names, "/"), "value": r[charted]}
	}
	all := c.collect(rows, "name", "value")
	c.addSeries(slices.DeleteFunc(all, func(s ChartSeries) bool { return slices.Max(s.Values) <= 0 }))
	return c
}

// cell returns how a page shows a value.
func (out *result) cell(c Column, v any) cell {
	if at, ok := v.(time.Time); ok {
		return cell{Time: out.View.At(at)}
	}
	var all cell
	add := func(text string) {
		short := short(shownText, text)
		if short != text {
			all.Full = text
		}
		all.Parts = append(all.Parts, cellPart{short, out.link(c.Name, text)})
	}
	switch v := v.(type) {
	case nil:
		return cell{}
	case []string:
		for _, text := range v {
			add(text)
		}
		return all
	case string:
		add(v)
		return all
	case float64:
		return cell{Parts: []cellPart{{Text: strconv.FormatFloat(v, 'f', -1, 64)}}}
	case bool:
		return cell{Parts: []cellPart{{Text: map[bool]string{true: "yes", false: "no"}[v]}}}
	}
	if text, err := json.Marshal(v); err == nil {
		add(string(text))
	} else {
		add(fmt.Sprint(v))
	}
	return all
}

// link returns the page of an id, or this page for only a value of a filter.
func (out *result) link(column, value string) string {
	for suffix, kind := range map[string]string{"conversation_id": "conversation", "exchange_id": "exchange", "alert_id": "alert", "example": "exchange", "examples": "exchange"} {
		if column == suffix || strings.HasSuffix(column, "_"+suffix) {
			return idURL(kind, value)
		}
	}
	if column == "service_version" {
		column = "version"
	}
	if value != "" && !out.Own && slices.Contains([]string{"service", "stage", "environment", "version", "provider", "model", "status", "cause", "user"}, column) && out.hasFilter(column) {
		return out.View.Here(column, value, "format", "")
	}
	return ""
}

// hasFilter reports whether the query has a filter that is not set.
func (out *result) hasFilter(name string) bool {
	for _, p := range out.Query.Parameters {
		if p.Name == name && p.Filter {
			return out.View.Get(name) == ""
		}
	}
	return false
}

// Milliseconds returns the time that the query took.
func (out *result) Milliseconds() string { return quantity.Latency(out.Took.Seconds()) }

// CSV returns the URL of the result as a file.
func (out *result) CSV() string { return out.View.Here("format", "csv") }

// Edit returns the URL of the statement as own SQL, or "" if it is too long for a URL.
func (out *result) Edit() string {
	if out.Own || len(out.Statement) > maxOwnSQL/2 {
		return ""
	}
	return out.View.With(explorePath+"/"+ownSQL, "sql", out.Statement)
}
