package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/differs"
	"github.com/llmtap/llmtap/dashboards/queries"
)

const (
	explorePath = "/explore"
	listPath    = "queries" // in place of the name of a query: all of them
	ownSQL      = "sql"     // in place of the name of a query: a statement of the viewer
	maxOwnSQL   = 16 << 10
	csvTimeout  = time.Minute
)

// exampleSQL is shown until the viewer writes a statement.
const exampleSQL = `SELECT service, stage, count() AS calls, countIf(failed) AS failed_calls
FROM exchanges_final
WHERE {filter exchanges}
GROUP BY service, stage
ORDER BY failed_calls DESC
LIMIT 50`

// views are the views that own statements read, with what a row is.
var views = []Field{
	{"exchanges_final", "a call of a model"},
	{"findings_final", "a violation, or a signal"},
	{"tool_calls_final", "a tool call"},
	{"runs_final", "a run of an agent"},
	{"messages_final", "the body of a message"},
	{"history_final", "the place of a message in a conversation"},
	{"alerts_final", "an alert"},
	{"alert_actions_final", "what people did to alerts"},
}

// A queryGroup is a group of the list of queries.
type queryGroup struct {
	Name    string
	Queries []queries.Query
}

// An explorePage runs stored queries and statements of the viewer.
type explorePage struct {
	*site
	store
	explorer Query // of own SQL
	write    func(w io.Writer, t *Table, format string) error
}

// ServeHTTP serves the builder of a query, the list of all stored queries, the one that the URL names, or a statement of the viewer.
func (s explorePage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("query")
	if name == "" {
		s.serveBuilder(w, r)
		return
	}
	if name == listPath {
		p := s.page(r, "Stored queries", explorePath)
		p.Static, p.Still = true, true
		s.serve(w, r, p, section{id: "queries", template: "explore-list", load: func(context.Context) (any, error) { return queryGroups() }})
		return
	}
	q, err := storedQuery(name, r.URL.Query().Get("sql"))
	if err != nil {
		s.notFound(w, r)
		return
	}
	p := s.pageSince(r, "Explore", explorePath, sinceOf(q, s.now()))
	p.Still, p.Static, p.Own = true, !hasRange(q), true
	e := &exploration{Query: q, View: p.View, Own: name == ownSQL}
	p.Title = q.Question
	if e.Own && len(q.SQL) > maxOwnSQL {
		e.Problem = fmt.Sprintf("The statement is longer than %d KiB.", maxOwnSQL>>10)
	}
	if p.Get("format") == "csv" && p.Problem == "" && e.Missing() == "" && e.Problem == "" {
		s.csv(w, r, e)
		return
	}
	s.serve(w, r, p,
		section{id: "form", template: "explore-form", title: "Parameters", load: func(context.Context) (any, error) { return e, nil }},
		section{id: "result", template: "explore-result", title: "Result", load: func(ctx context.Context) (any, error) { return s.result(ctx, e) }},
	)
}

// queryGroups returns all stored queries.
func queryGroups() ([]queryGroup, error) {
	var out []queryGroup
	for _, group := range queries.Groups() {
		g := queryGroup{Name: group}
		for _, name := range queries.Names() {
			q, err := queries.Get(name)
			if err != nil {
				return nil, err
			}
			if q.Group == group {
				g.Queries = append(g.Queries, q)
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// storedQuery returns a stored query, or the statement sql of the viewer as a query with the time range and all filters.
func storedQuery(name, sql string) (queries.Query, error) {
	if name != ownSQL {
		return queries.Get(name)
	}
	q := queries.Query{Name: ownSQL, Question: "Own SQL", SQL: strings.TrimSpace(sql)}
	q.Parameters = append(q.Parameters, queries.Parameter{Name: "since", Default: defaultRange, Time: true}, queries.Parameter{Name: "until", Time: true})
	q.Parameters = append(q.Parameters, queries.Filters("exchanges")...)
	return q, nil
}

func hasRange(q queries.Query) bool {
	return slices.ContainsFunc(q.Parameters, func(p queries.Parameter) bool { return p.Name == "since" })
}

// sinceOf returns the default time range of q, if possible as one of ranges.
func sinceOf(q queries.Query, now time.Time) string {
	i := slices.IndexFunc(q.Parameters, func(p queries.Parameter) bool { return p.Name == "since" })
	if i < 0 {
		return defaultRange
	}
	since := q.Parameters[i].Default
	at, err := queries.ParseTime(since, now)
	for _, r := range ranges {
		if same, _ := queries.ParseTime(r, now); err == nil && same.Equal(at) { // a test parses all ranges
			return r
		}
	}
	return since
}

// An exploration is a query with the parameters of a URL.
type exploration struct {
	Query   queries.Query
	View    *View
	Own     bool
	Problem string
}

// A formField is a parameter of a query in its form.
type formField struct {
	queries.Parameter
	Values  []string // one input each
	Label   string
	Numeric bool
}

// Fields returns the parameters of the query, without filters and the time range.
func (e *exploration) Fields() []formField {
	return e.fields(func(p queries.Parameter) bool { return !p.Filter && p.Name != "since" && p.Name != "until" })
}

// Filters returns the common filters of the query.
func (e *exploration) Filters() []formField {
	return e.fields(func(p queries.Parameter) bool { return p.Filter })
}

func (e *exploration) fields(want func(queries.Parameter) bool) []formField {
	var out []formField
	for _, p := range e.Query.Parameters {
		if !want(p) {
			continue
		}
		f := formField{Parameter: p, Label: strings.ReplaceAll(p.Name, "_", " "), Numeric: p.Name == "limit"}
		for _, v := range e.View.params[p.Name] {
			if v != "" {
				f.Values = append(f.Values, v)
			}
		}
		if len(f.Values) == 0 || p.Name == "attr" { // attributes must all match: there is room for one more
			f.Values = append(f.Values, "")
		}
		out = append(out, f)
	}
	return out
}

// Given returns the parameters that are set, without the time range, such as "by=stage".
func (e *exploration) Given() string {
	var given []string
	for _, f := range slices.Concat(e.Fields(), e.Filters()) {
		for _, v := range f.Values {
			if v != "" {
				given = append(given, f.Name+"="+v)
			}
		}
	}
	return strings.Join(given, ", ")
}

// Filtered reports whether a filter is set.
func (e *exploration) Filtered() bool { return len(e.View.Filters()) > 0 }

// Hidden returns the parameters of the URL that the form does not contain.
func (e *exploration) Hidden() []Field {
	except := []string{"format", "bar", "sql"}
	for _, p := range e.Query.Parameters {
		except = append(except, p.Name)
	}
	return e.View.Fields(except...)
}

// Missing returns the first required parameter that has no value, in words, or "".
func (e *exploration) Missing() string {
	if e.Own && e.Query.SQL == "" {
		return "a statement"
	}
	for _, p := range e.Query.Parameters {
		if p.Required && e.View.Get(p.Name) == "" {
			return strings.ReplaceAll(p.Name, "_", " ") + ": " + p.Doc
		}
	}
	return ""
}

// SQL returns the statement in the form.
func (e *exploration) SQL() string {
	if e.Query.SQL == "" {
		return exampleSQL
	}
	return e.Query.SQL
}

// Lines returns the height of the form's text area.
func (e *exploration) Lines() int { return min(max(4, strings.Count(e.SQL(), "\n")+2), 24) }

// Views returns the views that own statements read, with the URL of their columns.
func (e *exploration) Views() []Link {
	var out []Link
	for _, f := range views {
		out = append(out, Link{Text: f.Name + ": " + f.Value, URL: e.View.Here("sql", "DESCRIBE "+f.Name, "bar", "")})
	}
	return out
}

// values returns the values of the parameters. A parameter that is empty in the URL has its default.
func (e *exploration) values() queries.Values {
	values := e.View.values()
	out := queries.Values{}
	for _, p := range e.Query.Parameters {
		switch {
		case p.Filter || p.Name == "since" || p.Name == "until":
			if v, ok := values[p.Name]; ok {
				out[p.Name] = v
			} else if v := e.View.params[p.Name]; p.Filter && strings.Join(v, "") != "" { // one of callFilters
				out[p.Name] = v
			}
		case e.View.Get(p.Name) != "":
			out[p.Name] = []string{e.View.Get(p.Name)}
		}
	}
	return out
}

// Command returns the command that runs the query in a terminal.
func (e *exploration) Command() string {
	words := []string{"llmtap", "query"}
	if e.Own {
		sql, params, err := e.Query.Bind(e.values(), e.View.Now)
		if err != nil {
			return ""
		}
		return strings.Join(append(words, "--sql", quoteShell(inline(sql, params))), " ")
	}
	words = append(words, e.Query.Name)
	values := e.values()
	if e.View.Live() && values["since"] != nil {
		values["since"] = []string{e.View.Range}
	}
	for _, p := range e.Query.Parameters {
		for _, v := range values[p.Name] {
			words = append(words, "--"+p.Name, quoteShell(v))
		}
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,][A-Za-z0-9_./:=@%+,-]*$`)

// quoteShell returns text as one word of a POSIX shell.
func quoteShell(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var (
	boundParameter = regexp.MustCompile(`\{(\w+):([^{}]+)\}`)
	queryProperty  = regexp.MustCompile(`^-- (group|since|param|bound|texts)\b`)
)

// inline returns a statement with the values of its parameters as literals, to copy, and without the properties in its comments.
func inline(sql string, params map[string]string) string {
	var lines []string
	header := true
	for line := range strings.Lines(sql) {
		header = header && strings.HasPrefix(line, "--")
		if !header || !queryProperty.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return boundParameter.ReplaceAllStringFunc(strings.Join(lines, ""), func(text string) string {
		m := boundParameter.FindStringSubmatch(text)
		value, ok := params[m[1]]
		if !ok {
			return text
		}
		if _, err := strconv.ParseInt(value, 10, 64); err == nil && strings.Contains(m[2], "Int") {
			return value // LIMIT takes no expression
		}
		literal := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
		if m[2] == "String" {
			return literal
		}
		return "CAST(" + literal + ", '" + strings.ReplaceAll(m[2], "'", `\'`) + "')"
	})
}

// table runs the query of e, and returns the statement as text to copy.
func (s explorePage) table(ctx context.Context, e *exploration) (t *Table, sql string, err error) {
	query, scope := s.clickhouse, access.ScopeOf(ctx)
	switch {
	case e.Own && scope.OwnSQL() != nil:
		access.Fail(ctx)
		return nil, "", scope.OwnSQL()
	case e.Own:
		query = s.explorer
		access.Note(ctx, access.RunSQL, "", e.Query.SQL)
	case e.Query.Texts:
		access.Note(ctx, access.ReadTexts, "", e.View.Here())
	}
	if query == nil {
		return nil, "", fmt.Errorf("ClickHouse is %w in this process", ErrUnavailable)
	}
	text, params, err := s.bind(ctx, e.Query, e.values(), e.View.Now.In(e.View.Zone))
	if err != nil {
		return nil, "", err
	}
	t, err = query(ctx, text, params)
	if err != nil {
		access.Fail(ctx)
	}
	if err == nil && e.Query.Name == differs.Query {
		t = combined(t)
	}
	return t, inline(text, params), err
}

// combined returns what the row of the query differs says.
func combined(t *Table) *Table {
	columns, rows := differs.Of(rowsOf(t)).Table()
	out := &Table{Rows: rows}
	for _, c := range columns {
		out.Columns = append(out.Columns, Column(c))
	}
	return out
}

// csv writes the result as a file.
func (s explorePage) csv(w http.ResponseWriter, r *http.Request, e *exploration) {
	if s.explorer == nil {
		http.Error(w, "CSV is not available in this process", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), csvTimeout)
	defer cancel()
	access.Note(ctx, access.Export, e.Query.Name, e.View.Here())
	t, _, err := s.table(ctx, e)
	switch {
	case errors.Is(err, ErrUnavailable):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, readable(err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	name := e.Query.Name + e.View.Now.Format("-20060102-150405")
	if t.Truncated { // a line about it would be a row for the programs that read CSV
		name += fmt.Sprintf("-only-first-%d-rows", len(t.Rows))
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+url.PathEscape(name)+`.csv"`)
	_ = s.write(w, t, "csv") // the client has left
}

var serverMessage = regexp.MustCompile(`(?s)\bcode: \d+, message: (.*?)(?: \(version [^)]*\)\)?)?$`)

// readable returns the message of ClickHouse in err, or else all of err.
func readable(err error) string {
	if m := serverMessage.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return err.Error()
}
