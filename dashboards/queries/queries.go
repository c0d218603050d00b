/*
Package queries contains the queries for incidents, one .sql file each. To add a query, add a file.

	-- Which stages fail, and in which version?        the question the query answers: the first line
	-- group Failures                                  its group in the list of queries
	-- since 1 hour                                    default start of the time range; adds the parameters since and until
	-- param cause = : only this cause                 a parameter with its default and description
	-- param sort = time | calls: of the rows          a parameter with its choices, the default first
	-- param conversation_id: as in the alert          a required parameter
	-- bound prices: of the configuration              a parameter set by the program, not by the user
	-- texts                                           the query reads texts of bodies
	SELECT …
	FROM exchanges FINAL                               each row once; planning takes half as long again through the view exchanges_final
	WHERE {filter exchanges}                           the time range and the common filters
	…
	LIMIT 50                                           default of the parameter limit

{filter TABLE} is replaced by the conditions of the filters that the user sets: service, version, attr and so on, as far as
the table has them. See filter.go for AS, EXCEPT and ONLY, and fragments.go for {counted}, {latency 0.95} and others.

An if whose condition depends on a parameter alone, such as if({by:String} = 'user', user, stage), is replaced by the branch
that the parameter chooses (fold.go).

Parameters are only passed as bound parameters of ClickHouse, {name:Type}. A parameter of type DateTime64 is parsed by
ParseTime. If it is empty, the time range has no end, because agents' clocks may be fast and their newest calls must not
be missed.
*/
package queries

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/ingest/nearest"
)

//go:embed *.sql
var files embed.FS

// A Query is a stored query.
type Query struct {
	Name       string // name of the file, e.g. failures_by_stage
	Question   string
	Group      string // group in the list of queries, e.g. Failures
	Parameters []Parameter
	Texts      bool     // the query reads texts of bodies, which a shape does not contain
	Bound      []string // parameters that Bind does not set: prices, whose value is price.Table.Bound
	SQL        string   // the whole file; Bind replaces {filter …}
}

// A Parameter is a parameter of a Query.
type Parameter struct {
	Name     string
	Default  string
	Required bool     // true if there is no default
	Time     bool     // true if the value is parsed by ParseTime
	Filter   bool     // one of the common filters; it may have several values
	Choices  []string // the values that there are, the default first; attr.KEY stands for each attribute. Empty: any value
	Doc      string
}

// Values are the values of parameters by name.
type Values map[string][]string

var all = sync.OnceValues(func() (map[string]Query, error) { return Load(files) })

// Load reads the .sql files of dir, for pages with statements of their own.
func Load(dir fs.FS) (map[string]Query, error) {
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list queries: %w", err)
	}
	queries := make(map[string]Query, len(names))
	for _, file := range names {
		text, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, fmt.Errorf("read query: %w", err)
		}
		q, err := parse(strings.TrimSuffix(file, ".sql"), string(text))
		if err != nil {
			return nil, fmt.Errorf("read query %s: %w", file, err)
		}
		queries[q.Name] = q
	}
	return queries, nil
}

var finalLimit = regexp.MustCompile(`\nLIMIT (\d+)\n$`)

// parse returns the query in a file, whose properties are in the comments at the top.
func parse(name, text string) (Query, error) {
	text = Expand(text)
	first, rest, _ := strings.Cut(text, "\n")
	question, ok := strings.CutPrefix(first, "-- ")
	if !ok {
		return Query{}, errors.New("the first line must be a comment with a question")
	}
	q := Query{Name: name, Question: question, Group: "More", SQL: text}
	for line := range strings.Lines(rest) {
		comment, ok := strings.CutPrefix(line, "-- ")
		if !ok {
			break
		}
		kind, decl, _ := strings.Cut(strings.TrimSpace(comment), " ")
		head, doc, hasDoc := strings.Cut(decl, ":")
		switch kind {
		case "group":
			q.Group = decl
		case "since":
			q.Parameters = append(q.Parameters, Parameter{Name: "since", Default: decl, Time: true, Doc: "start of the time range"},
				Parameter{Name: "until", Time: true, Doc: "end of the time range"})
		case "texts":
			q.Texts = true
		case "bound":
			q.Bound = append(q.Bound, strings.TrimSpace(head))
		case "param":
			if !hasDoc {
				return Query{}, fmt.Errorf("parameter %q has no colon: the format is NAME = DEFAULT: DESCRIPTION, or NAME = DEFAULT | CHOICE | …: DESCRIPTION", decl)
			}
			name, def, optional := strings.Cut(head, "=")
			name = strings.TrimSpace(name)
			p := Parameter{
				Name: name, Default: strings.TrimSpace(def), Required: !optional, Doc: strings.TrimSpace(doc),
				Time: strings.Contains(text, "{"+name+":DateTime64("),
			}
			if all := strings.Split(p.Default, " | "); len(all) > 1 {
				p.Default, p.Choices, p.Doc = all[0], all, p.Doc+": "+strings.Join(all, ", ")
			}
			q.Parameters = append(q.Parameters, p)
		}
	}
	used, err := filtersIn(text)
	if err != nil {
		return Query{}, err
	}
	q.Parameters = append(q.Parameters, used...)
	if limit := finalLimit.FindStringSubmatch(text); limit != nil {
		q.SQL = strings.TrimSuffix(text, limit[0]) + "\nLIMIT {limit:UInt32}\n"
		q.Parameters = append(q.Parameters, Parameter{Name: "limit", Default: limit[1], Doc: "maximum number of rows"})
	}
	return q, nil
}

// Names returns the names of all queries, sorted.
func Names() []string {
	queries, _ := all() // Get and a test report invalid files
	return slices.Sorted(maps.Keys(queries))
}

// groups lists the known groups in display order, which follows the course of an incident.
var groups = []string{"Failures", "Whose change", "Calls", "Conversations", "Tools", "Providers", "Usage and latency", "Capture"}

// Groups returns the groups of all queries in display order.
func Groups() []string {
	queries, _ := all() // Get and a test report invalid files
	found := slices.Clone(groups)
	for _, n := range Names() {
		if g := queries[n].Group; !slices.Contains(found, g) {
			found = append(found, g)
		}
	}
	return found
}

// renamed are queries of older releases, with those that answer their question now.
var renamed = map[string]string{"first_bad_version": "whose_change", "first_occurrence": "whose_change"}

// Get returns the query with this name. For an unknown name, the error suggests a similar one.
func Get(name string) (Query, error) {
	queries, err := all()
	if err != nil {
		return Query{}, err
	}
	q, ok := queries[name]
	if now, was := renamed[name]; was {
		return Query{}, fmt.Errorf("the query %s is part of %s now", name, now)
	}
	if !ok {
		return Query{}, fmt.Errorf("no query %q; %s", name, suggest(name, Names()))
	}
	return q, nil
}

// maxTime is a time later than any row, but within ClickHouse's range.
const maxTime = "2200-01-01 00:00:00"

// Bind returns the statement of q and the values of its parameters except for Bound: the given value, or else the default.
// Durations are relative to now, into the past, and times without a zone are in the zone of now. Unknown parameters, missing
// required parameters and invalid values are errors.
func (q Query) Bind(given Values, now time.Time) (sql string, params map[string]string, err error) {
	params = make(map[string]string, len(q.Parameters))
	names := make([]string, 0, len(q.Parameters))
	for _, p := range q.Parameters {
		names = append(names, p.Name)
		if p.Filter {
			continue
		}
		v, ok := p.Default, !p.Required
		if values := given[p.Name]; len(values) > 0 {
			v, ok = values[len(values)-1], true
		}
		switch {
		case !ok:
			return "", nil, fmt.Errorf("query %s requires %s: %s", q.Name, p.Name, p.Doc)
		case p.Time:
			v, err = formatTime(v, now)
		case p.Name == "limit":
			err = checkLimit(v)
		case len(p.Choices) > 0:
			err = p.check(v)
		case strings.Contains(q.SQL, "{"+p.Name+":Float64}"):
			if _, err = strconv.ParseFloat(v, 64); err != nil {
				err = fmt.Errorf("%q is not a number", v)
			}
		}
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		params[p.Name] = v
	}
	for n := range given {
		if !slices.Contains(names, n) {
			return "", nil, fmt.Errorf("query %s has no parameter %q; %s", q.Name, n, suggest(n, names))
		}
	}
	sql, err = Filter(fold(q.SQL, params), given, params)
	return sql, params, err
}

// Only returns q with only these columns of its result. ClickHouse does not compute the others.
func (q Query) Only(columns ...string) Query {
	q.SQL = "SELECT " + strings.Join(columns, ", ") + " FROM (\n" + q.SQL + ")"
	return q
}

// check returns an error if v is none of the choices.
func (p Parameter) check(v string) error {
	if slices.Contains(p.Choices, v) || slices.Contains(p.Choices, "attr.KEY") && len(v) > len("attr.") && strings.HasPrefix(v, "attr.") {
		return nil
	}
	return fmt.Errorf("there is no %q; %s", v, suggest(v, p.Choices))
}

// maxLimit is the maximum of the parameter limit.
const maxLimit = 100_000

// Sample binds the query called name with a value for each required parameter, for checks whether it runs.
func Sample(name string, now time.Time) (sql string, params map[string]string, err error) {
	q, err := Get(name)
	if err != nil {
		return "", nil, err
	}
	given := Values{}
	for _, p := range q.Parameters {
		if p.Required {
			given[p.Name] = []string{"x"}
		}
	}
	sql, params, err = q.Bind(given, now)
	if err == nil {
		params["prices"] = price.Default().Bound()
	}
	return sql, params, err
}

func checkLimit(text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n > maxLimit {
		return fmt.Errorf("%q is not a number from 1 to %d", text, maxLimit)
	}
	return nil
}

// formatTime parses text as a time and formats the time for ClickHouse.
func formatTime(text string, now time.Time) (string, error) {
	if text == "" {
		return maxTime, nil
	}
	t, err := ParseTime(text, now)
	if err != nil {
		return "", err
	}
	if t.Year() < 1970 || t.Year() > 2200 {
		return "", fmt.Errorf("%q is out of range", text)
	}
	return t.UTC().Format("2006-01-02 15:04:05.000000000"), nil
}

// suggest returns a hint for an unknown name: a similar name, or all names.
func suggest(name string, names []string) string {
	best := nearest.Name(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, name) }); best == "" && i >= 0 {
		best = names[i]
	}
	switch {
	case len(names) == 0:
		return "it has none"
	case name != "" && best != "":
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known: " + strings.Join(names, ", ")
}
