package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

const (
	trafficPath   = "/traffic/"
	exportRows    = 5000             // of one statement of an export
	exportTimeout = 10 * time.Minute // of a whole export
)

// A traffic is a list of calls, or of what they have in common: a stored query, its columns, and the orders by column.
type traffic struct {
	kind, title, query, by string
	order                  string   // unless the URL says another one; empty: time
	shown, more            []string // columns
	sorts                  map[string]string
}

var groupedBy = traffic{
	query: "calls_by",
	more:  []string{"unpriced", "p95", "longest", "output_tokens", "first_call"},
	sorts: map[string]string{"last_call": "time", "calls": "calls", "failed_calls": "failed", "seconds": "seconds", "input_tokens": "tokens", "cost": "cost"},
}

var traffics = []traffic{
	{
		kind: "calls", title: "Calls", query: "calls",
		shown: []string{"started_at", "status", "cause", "service", "stage", "model", "seconds", "input_tokens", "cost", "service_version", "conversation_id"},
		more:  []string{"output_tokens", "messages", "tool_calls", "finish_reason", "environment", "provider", "user", "retry", "exchange_id"},
		sorts: map[string]string{"started_at": "time", "seconds": "seconds", "input_tokens": "tokens", "cost": "cost", "messages": "messages"},
	},
	groupedBy.of("conversations", "Conversations", "conversation", "of_stage"),
	groupedBy.of("runs", "Runs", "run", "of_stage"),
	groupedBy.of("users", "Users", "user", "conversations"),
}

// of returns the list of calls that have a property in common.
func (t traffic) of(kind, title, by, column string) traffic {
	t.kind, t.title, t.by = kind, title, by
	t.shown = []string{"group", "calls", "failed_calls", "main_reason", "of_service", column, "input_tokens", "cost", "seconds", "last_call"}
	return t
}

// A trafficPage lists calls, conversations, runs or users, a page at a time.
type trafficPage struct {
	*site
	store
	write     func(w io.Writer, t *Table, format string) error
	noUserKey string // as in Options
}

// ServeHTTP serves a list, or all of its rows as a file.
func (s trafficPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(traffics, func(t traffic) bool { return t.kind == r.PathValue("kind") })
	if i < 0 {
		s.notFound(w, r)
		return
	}
	t := traffics[i]
	p := s.page(r, t.title, trafficPath+"calls")
	p.Still = p.Get("after") != "" // what follows a row does not change when rows are added before it
	p.Tail = p.Get("follow") == "yes" && p.Live() && !p.Still
	q, err := queries.Get(t.query)
	if err != nil {
		s.notFound(w, r)
		return
	}
	l := &trafficList{traffic: t, exploration: &exploration{Query: q, View: p.View}}
	if t.by == "user" {
		l.NoKey = s.noUserKey
	}
	if s.exported(w, r, p, l) {
		return
	}
	s.serve(w, r, p, section{id: "list", template: "traffic", title: t.title, load: func(ctx context.Context) (any, error) { return s.list(ctx, l) }})
}

// exported answers a request for a file, and reports whether this is one.
func (s trafficPage) exported(w http.ResponseWriter, r *http.Request, p *page, l *trafficList) bool {
	format := p.Get("format")
	switch {
	case format != "csv" && format != "jsonl":
		return false
	case p.Problem != "":
		http.Error(w, p.Problem, http.StatusBadRequest)
	default:
		s.export(w, r, l, format)
	}
	return true
}

// A trafficList is one page of a list.
type trafficList struct {
	traffic
	*exploration
	Head  []trafficColumn
	Rows  [][]cell
	NoKey string   // what is missing if hashes of users have no key
	Empty string   // why there are no rows
	Next  string   // URL of the next page, if there is one
	First string   // URL of the first page, unless this is it
	Chart *Chart   // of the first groups
	Note  string   // on the chart
	names []string // of the groups
	at    []int    // index of each column of Head in the result
}

// A trafficColumn is a column of the list.
type trafficColumn struct {
	Name           string
	Number, Sorted bool
	URL            string // sorts by this column
}

// Lists are the lists that there are.
func (l *trafficList) Lists() []Link {
	var out []Link
	if l.kind == "explore" {
		return nil
	}
	for _, t := range traffics {
		out = append(out, Link{t.title, l.View.With(trafficPath + t.kind), t.kind == l.kind})
	}
	return out
}

// Follow returns the link that begins or ends following new calls, or nil where there are none: in a time that is over, after the first
// page, or in another order.
func (l *trafficList) Follow() *Link {
	switch v := l.View; {
	case !v.Live() || v.Get("after") != "" || l.sort() != "time":
		return nil
	case v.Get("follow") == "yes":
		return &Link{Text: "Stop following", URL: v.Here("follow", "")}
	}
	return &Link{Text: "Follow new calls", URL: l.View.Here("follow", "yes")}
}

// A choice is a column that a reader can show or hide.
type choice struct {
	Name, Label string
	Chosen      bool
}

// Columns returns all columns, with those that are shown.
func (l *trafficList) Columns() []choice {
	var out []choice
	for _, name := range append(slices.Clone(l.shown), l.more...) {
		out = append(out, choice{name, label(name), slices.Contains(l.chosen(), name)})
	}
	return out
}

func (l *trafficList) chosen() []string {
	if all := l.View.params["col"]; len(all) > 0 {
		return all
	}
	return l.shown
}

// read returns the columns to read: those that are shown, those that links and texts need, and next.
func (l *trafficList) read() []string {
	all := []string{"exchange_id"}
	if l.by != "" {
		all = []string{"group", "calls", "unpriced"}
	}
	for _, name := range l.chosen() {
		if !slices.Contains(all, name) && (slices.Contains(l.shown, name) || slices.Contains(l.more, name)) {
			all = append(all, name)
		}
	}
	return append(all, "next")
}

// labels are the headings of columns whose names are not clear without their query.
var labels = map[string]string{
	"started_at": "time", "service_version": "version", "seconds": "took", "of_service": "service", "of_stage": "stage", "failed_calls": "failed",
	"main_reason": "why, most often", "p50": "median latency", "p95": "95% latency", "first_token": "95% first token", "failed_percent": "failed share", "longest": "longest history", "unpriced": "calls without a price",
}

// label returns the heading of a column.
func label(column string) string {
	return cmp.Or(labels[column], strings.ReplaceAll(strings.TrimSuffix(column, "_id"), "_", " "))
}

// values are the parameters of the query.
func (l *trafficList) values(limit int) queries.Values {
	out := l.exploration.values()
	if l.by != "" { // whatever the URL says
		out["by"] = []string{l.by}
	}
	out["sort"], out["limit"] = []string{l.sort()}, []string{fmt.Sprint(limit)}
	return out
}

const trafficRows = 50

func (s trafficPage) list(ctx context.Context, l *trafficList) (*trafficList, error) {
	t, err := s.rows(ctx, l)
	if err != nil {
		return nil, err
	}
	if len(t.Rows) == 0 {
		l.Empty, err = s.whyEmpty(ctx, l.View, l.View.Get("text") != "")
		return l, err
	}
	if len(t.Rows) > trafficRows {
		t.Rows = t.Rows[:trafficRows]
		l.Next = l.View.Here("after", next(t))
	}
	if l.View.Get("after") != "" {
		l.First = l.View.Here("after", "")
	}
	l.fill(t)
	return l, nil
}

// rows returns one row more than the list shows, if there is one. Lists of the newest calls mostly end within an hour; ClickHouse reads
// the hours that are asked for, and not those before. If the whole time range is too much, rows returns what is known of its end, and
// sets the note that says so.
func (s trafficPage) rows(ctx context.Context, l *trafficList) (*Table, error) {
	values, end, window := l.values(trafficRows+1), l.View.To, time.Hour
	if l.by != "" || l.sort() != "time" {
		window = l.View.To.Sub(l.View.From)
	} else if nanos, _, _ := strings.Cut(l.View.Get("after"), " "); nanos != "" {
		n, _ := strconv.ParseInt(nanos, 10, 64) // 0 if it is invalid: then no row comes after it
		end = time.Unix(0, n)
	}
	var found *Table // since foundSince
	var foundSince time.Time
	for tooMuch := false; ; window *= 8 {
		since := end.Add(-window)
		whole := !since.After(l.View.From)
		if whole {
			since = l.View.From
		}
		values["since"] = []string{since.UTC().Format(time.RFC3339Nano)}
		t, err := s.run(ctx, l.Query.Only(l.read()...), values, l.View.Now.In(l.View.Zone))
		switch {
		case found != nil && (errors.Is(err, ErrTooMuch) || errors.Is(err, context.DeadlineExceeded)):
			l.Note = l.partly(foundSince)
			return found, nil
		case errors.Is(err, ErrTooMuch) && window > time.Minute:
			tooMuch, window = true, window/64 // then an eighth of what was too much
			continue
		case err == nil && tooMuch:
			l.Note = l.partly(since)
			return t, nil
		case err != nil || whole || len(t.Rows) > trafficRows:
			return t, err
		}
		found, foundSince = t, since
	}
}

// partly says that a list has only what is known since a time.
func (l *trafficList) partly(since time.Time) string {
	return "Only since " + l.View.At(since).Absolute() + ": the whole time range needs more memory or time than a page has. There may be more; add a filter, or choose a shorter time range."
}

// next returns the value of the last column in the last row, after which the next page begins.
func next(t *Table) string {
	last := t.Rows[len(t.Rows)-1]
	text, _ := last[len(last)-1].(string)
	return text
}

// fill sets the heading and the rows.
func (l *trafficList) fill(t *Table) {
	numbers := numberColumns(t)
	for _, name := range l.chosen() {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		h := trafficColumn{Name: label(name), Number: numbers[i]}
		if name == "group" {
			h.Name = strings.TrimPrefix(l.by, "attr.")
		}
		if sort, ok := l.sorts[name]; ok {
			h.URL, h.Sorted = l.View.Here("sort", sort, "after", ""), sort == l.sort()
		}
		l.Head, l.at = append(l.Head, h), append(l.at, i)
	}
	out := &result{exploration: l.exploration}
	for at, r := range rowsOf(t) {
		row := make([]cell, len(l.at))
		for j, i := range l.at {
			row[j] = out.cell(t.Columns[i], t.Rows[at][i])
			if numbers[i] && t.Rows[at][i] == nil {
				row[j].Parts = []cellPart{{Text: "–"}} // not known
			} else if name := t.Columns[i].Name; len(row[j].Parts) > 0 || !row[j].Time.IsZero() {
				l.write(&row[j], r, name, numbers[i])
				l.link(&row[j].Parts[0], r, name)
			}
		}
		l.Rows, l.names = append(l.Rows, row), append(l.names, r.Text("group"))
	}
}

func (l *trafficList) sort() string {
	return cmp.Or(l.View.Get("sort"), l.order, "time")
}

// write shortens the text of a column of a row.
func (l *trafficList) write(c *cell, r stored.Row, name string, isNumber bool) {
	if !c.Time.IsZero() {
		*c = cell{Parts: []cellPart{{Text: c.Time.Absolute()}}}
		return
	}
	first := &c.Parts[0]
	switch {
	case name == "cost" && l.by != "" && r.Int64("unpriced") >= r.Int64("calls"), name == "input_tokens" && r.Int64(name) == 0:
		first.Text = "–" // not known
	case name == "cost":
		first.Text = cents(r.Float(name))
	case name == "main_reason" || name == "group" && l.by == "cause":
		first.Text = parseReason(first.Text).short()
	case name == "failed_percent":
		first.Text += "%"
	case slices.Contains([]string{"seconds", "p50", "p95", "first_token"}, name):
		first.Text = latency(r.Float(name))
	case isNumber && name != "status":
		first.Text = number(r[name])
	case strings.HasSuffix(name, "_id") || name == "user" || name == "group" && l.by == "user":
		first.Text = short(13, first.Text)
	}
}

// link sets where a column of a row leads to: the call, what the calls have in common, or these calls.
func (l *trafficList) link(p *cellPart, r stored.Row, name string) {
	group := r.Text("group")
	switch {
	case l.by == "" && name == "started_at":
		p.URL = idURL("exchange", r.Text("exchange_id"))
	case l.by == "":
	case name == "group" && (l.by == "conversation" || l.by == "run"):
		p.URL = l.View.With(timelinePath, l.by, group)
	case name == "group" || name == "calls":
		p.URL = l.behind(group)
	case name == "failed_calls" || name == "failed_percent":
		p.URL = l.behind(group, "failed", "yes")
	case slices.Contains([]string{"p50", "p95", "first_token", "seconds"}, name):
		p.URL = l.behind(group, "sort", "seconds")
	case strings.HasSuffix(name, "_tokens"):
		p.URL = l.behind(group, "sort", "tokens")
	case name == "cost":
		p.URL = l.behind(group, "sort", "cost")
	}
}

// cents returns an amount of money; a small one with two digits.
func cents(usd float64) string {
	if usd == 0 || usd >= 0.01 {
		return quantity.Money(usd)
	}
	digits := 1 - int(math.Floor(math.Log10(usd)))
	return "$" + strconv.FormatFloat(usd, 'f', min(digits, 9), 64)
}

// Export returns the URL of all rows as a file.
func (l *trafficList) Export(format string) string {
	return l.View.Here("format", format, "after", "")
}

// export writes all rows of a list, one statement after the other.
func (s trafficPage) export(w http.ResponseWriter, r *http.Request, l *trafficList, format string) {
	if s.write == nil {
		http.Error(w, "files are not available in this process", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), exportTimeout)
	defer cancel()
	access.Note(ctx, access.Export, l.kind, l.View.Here())
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(exportTimeout)) // not every writer has one
	values := l.values(exportRows)
	for begun := false; ; {
		t, err := s.run(ctx, l.Query, values, l.View.Now.In(l.View.Zone))
		switch {
		case err != nil && !begun:
			http.Error(w, readable(err), http.StatusServiceUnavailable)
			return
		case err != nil:
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
		if !begun {
			w.Header().Set("Content-Type", map[string]string{"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}[format])
			w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(l.kind+l.View.Now.Format("-20060102-150405"))+"."+format+`"`)
		}
		var out io.Writer = w
		if format == "csv" && begun {
			out = &withoutHead{to: w}
		}
		if s.write(out, t, format) != nil || len(t.Rows) < exportRows {
			return
		}
		begun = true
		values["after"] = []string{next(t)}
	}
}

// withoutHead drops the first line that is written.
type withoutHead struct {
	to      io.Writer
	dropped bool
}

func (w *withoutHead) Write(b []byte) (int, error) {
	n := len(b)
	if !w.dropped {
		_, rest, ok := strings.Cut(string(b), "\n")
		if w.dropped = ok; !ok {
			return n, nil
		}
		b = []byte(rest)
	}
	_, err := w.to.Write(b)
	return n, err
}

// A suggester answers which values a filter may have, the most frequent first, with the number of their calls.
type suggester struct {
	*site
	store
}

// A suggestion is a value, and the number of its calls.
type suggestion [2]any

// suggested are the filters whose values are suggested.
var suggested = []string{"service", "stage", "environment", "version", "provider", "model", "status", "cause", "tool", "user", "attr", "conversation", "run"}

// ServeHTTP answers with a JSON array of pairs of a value and a number of calls, within the time range and the other filters.
func (s suggester) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := newView(r, s.now())
	name := r.PathValue("filter")
	if err != nil || !slices.Contains(suggested, name) {
		http.Error(w, "there is no such filter", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), sectionTimeout)
	defer cancel()
	list, err := s.suggestions(ctx, v, name, 50)
	if err != nil {
		http.Error(w, readable(err), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the client has left
}

// suggestions returns at most limit values of a filter within the time range and the other filters, those with the most calls first.
func (s store) suggestions(ctx context.Context, v *View, name string, limit int) ([]suggestion, error) {
	q, err := queries.Get("calls_by")
	if err != nil {
		return nil, err
	}
	values := (&exploration{Query: q, View: v}).values()
	maps.Copy(values, queries.Values{"by": {name}, "sort": {"calls"}, "limit": {strconv.Itoa(limit)}})
	if name != "attr" { // all of them must match
		delete(values, name)
	}
	delete(values, "after")
	t, err := s.run(ctx, q.Only("group", "of_service", "calls"), values, v.Now)
	if err != nil {
		return nil, err
	}
	list := []suggestion{}
	for _, row := range rowsOf(t) {
		value := row.Text("group")
		switch name {
		case "cause":
			value = parseReason(value).ID
		case "stage", "version": // of which each service has its own
			value = strings.TrimPrefix(value, row.Text("of_service"))
			if value = strings.TrimLeft(value, "/ "); value == "" {
				continue
			}
		}
		if i := slices.IndexFunc(list, func(s suggestion) bool { return s[0] == value }); i >= 0 {
			list[i][1] = list[i][1].(int64) + row.Int64("calls")
			continue
		}
		list = append(list, suggestion{value, row.Int64("calls")})
	}
	slices.SortStableFunc(list, func(a, b suggestion) int { return cmp.Compare(b[1].(int64), a[1].(int64)) })
	return list, nil
}
