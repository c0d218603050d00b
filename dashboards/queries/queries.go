/*
Package queries holds the post-incident questions, one .sql file each.

	-- Which stages fail, and in which version?        the question: the first line
	-- group Failures                                  where a list of questions shows it
	-- param since = 1 hour: from when on              a parameter, its default, what it is
	-- param conversation_id: as in the alert          a parameter without a default must be given
	-- bound prices: of the configuration              a parameter that the program gives, not its user
	SELECT …
	FROM exchanges_final                               the views that show each row once
	WHERE started_at >= {since:DateTime64(9, 'UTC')}
	    AND started_at < {until:DateTime64(9, 'UTC')}
	…
	LIMIT 50

Parameters reach the statement only as ClickHouse's bound parameters, {name:Type}. One of type DateTime64 is what ParseTime
reads, and no bound when it is empty: clocks of agents may be ahead, and their newest calls are not to be missed.
*/
package queries

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed *.sql
var files embed.FS

// A Query is one question as SQL.
type Query struct {
	Name     string // failures_by_stage
	Question string
	Group    string // Failures
	Params   []Param
	Bound    []string // parameters that Bind does not give: prices, which is Prices.Bound
	SQL      string   // the whole file
}

// A Param is a parameter of a Query.
type Param struct {
	Name     string
	Default  string
	Required bool // it has no default
	Time     bool // ParseTime reads it
	Doc      string
}

var all = sync.OnceValues(func() (map[string]Query, error) { return load(files) })

// load reads the .sql files of dir.
func load(dir fs.FS) (map[string]Query, error) {
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

// parse reads the comments at the top of a file.
func parse(name, text string) (Query, error) {
	first, rest, _ := strings.Cut(text, "\n")
	question, ok := strings.CutPrefix(first, "-- ")
	if !ok {
		return Query{}, errors.New("the first line is not a comment with the question")
	}
	q := Query{Name: name, Question: question, Group: "More", SQL: text}
	for line := range strings.Lines(rest) {
		comment, ok := strings.CutPrefix(line, "-- ")
		if !ok {
			break
		}
		if group, ok := strings.CutPrefix(comment, "group "); ok {
			q.Group = strings.TrimSpace(group)
		}
		if bound, ok := strings.CutPrefix(comment, "bound "); ok {
			bound, _, _ = strings.Cut(bound, ":")
			q.Bound = append(q.Bound, strings.TrimSpace(bound))
		}
		decl, ok := strings.CutPrefix(comment, "param ")
		if !ok {
			continue
		}
		head, doc, ok := strings.Cut(decl, ":")
		if !ok {
			return Query{}, fmt.Errorf("%q has no colon: it is NAME = DEFAULT: what it is", strings.TrimSpace(decl))
		}
		pname, def, optional := strings.Cut(head, "=")
		pname = strings.TrimSpace(pname)
		q.Params = append(q.Params, Param{
			Name: pname, Default: strings.TrimSpace(def), Required: !optional, Doc: strings.TrimSpace(doc),
			Time: strings.Contains(text, "{"+pname+":DateTime64("),
		})
	}
	return q, nil
}

// Names returns the names of all queries, sorted.
func Names() []string {
	queries, _ := all() // a file that cannot be read is reported by Get, and by a test
	names := make([]string, 0, len(queries))
	for n := range queries {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// groups are in the order of an incident: what is broken, whose change it was, what it costs.
var groups = []string{"Failures", "Whose change", "One conversation", "Tools", "Providers", "Use and speed"}

// Groups returns the groups of all queries, in the order in which they are shown.
func Groups() []string {
	queries, _ := all() // as above
	found := slices.Clone(groups)
	for _, n := range Names() {
		if g := queries[n].Group; !slices.Contains(found, g) {
			found = append(found, g)
		}
	}
	return found
}

// Get returns the query of that name. The error for an unknown one names the nearest.
func Get(name string) (Query, error) {
	queries, err := all()
	if err != nil {
		return Query{}, err
	}
	q, ok := queries[name]
	if !ok {
		return Query{}, fmt.Errorf("no query %q; %s", name, suggest(name, Names()))
	}
	return q, nil
}

// forever is later than every row, and a time that ClickHouse can hold.
const forever = "2200-01-01 00:00:00"

// Bind returns the values of all parameters of q but the Bound ones: those given, else the defaults, lengths of time counted
// back from now. A parameter that q does not have, that is missing or is no time where one is due is an error.
func (q Query) Bind(given map[string]string) (map[string]string, error) {
	return q.bindAt(given, time.Now())
}

func (q Query) bindAt(given map[string]string, now time.Time) (map[string]string, error) {
	values := make(map[string]string, len(q.Params))
	names := make([]string, 0, len(q.Params))
	for _, p := range q.Params {
		names = append(names, p.Name)
		v, ok := given[p.Name]
		if !ok && p.Required {
			return nil, fmt.Errorf("query %s needs %s: %s", q.Name, p.Name, p.Doc)
		}
		if !ok {
			v = p.Default
		}
		if p.Time {
			var err error
			if v, err = moment(v, now); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
		}
		values[p.Name] = v
	}
	for n := range given {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("query %s has no parameter %q; %s", q.Name, n, suggest(n, names))
		}
	}
	return values, nil
}

// moment is the time that text means as ClickHouse reads it.
func moment(text string, now time.Time) (string, error) {
	if text == "" {
		return forever, nil
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

// suggest says which of names is meant by name, or lists them all.
func suggest(name string, names []string) string {
	best, bestDistance := "", 1+len(name)/2
	for _, n := range names {
		d := distance(name, n)
		if strings.Contains(n, name) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = n, d
		}
	}
	switch {
	case len(names) == 0:
		return "it has none"
	case name != "" && best != "":
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "there are: " + strings.Join(names, ", ")
}

// distance is the Levenshtein distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
