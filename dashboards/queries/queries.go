/*
Package queries holds the post-incident questions, one .sql file each.

	-- Which stages fail, and in which version?        the question: the first line
	-- param since = 1 hour: how far back to look      a parameter, its default, what it is
	-- param conversation_id: as in the alert          a parameter without a default must be given
	SELECT …
	FROM exchanges_final                               the views that show each row once
	WHERE started_at > now() - toIntervalSecond(toUInt32(parseTimeDelta({since:String})))
	…
	LIMIT 50

Parameters reach the statement only as ClickHouse's bound parameters, {name:Type}. A length of time is text such as
"90 minutes" or "7 days" and is read by ClickHouse's parseTimeDelta.
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
)

//go:embed *.sql
var files embed.FS

// A Query is one question as SQL.
type Query struct {
	Name     string // failures_by_stage
	Question string
	Params   []Param
	SQL      string // the whole file
}

// A Param is a parameter of a Query.
type Param struct {
	Name     string
	Default  string
	Required bool // it has no default
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
	q := Query{Name: name, Question: question, SQL: text}
	for line := range strings.Lines(rest) {
		comment, ok := strings.CutPrefix(line, "-- ")
		if !ok {
			break
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
		q.Params = append(q.Params, Param{
			Name: strings.TrimSpace(pname), Default: strings.TrimSpace(def), Required: !optional, Doc: strings.TrimSpace(doc),
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

// Bind returns the values of all parameters of q: those given, else the defaults. A parameter that q does not have or
// that is missing is an error.
func (q Query) Bind(given map[string]string) (map[string]string, error) {
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
		values[p.Name] = v
	}
	for n := range given {
		if !slices.Contains(names, n) {
			return nil, fmt.Errorf("query %s has no parameter %q; %s", q.Name, n, suggest(n, names))
		}
	}
	return values, nil
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
