// Package query selects a stored query, or a SQL statement, by the command line of llmtap query.
package query

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
)

// Times explains parameters that are times.
const Times = "A time is a duration before now, such as 15 minutes, 2h or 7d, or a time in UTC, such as 2026-11-20 or 2026-11-20T09:30:00Z."

// A Query is the query of one command line. Without SQL none is selected.
type Query struct {
	queries.Query
	values map[string]string
}

// New selects the query whose name c.Args contain, adds its parameters to c and adapts the help. Without a name it adds --sql.
func New(c *command.Call) (*Query, error) {
	q := &Query{values: map[string]string{}}
	name := firstArg(c.Args)
	if name == "" {
		c.Parameters.StringVar(&q.SQL, "sql", "", "SQL `statement` to run instead of a stored query")
		return q, nil
	}
	var err error
	if q.Query, err = queries.Get(name); err != nil {
		return nil, command.BadInput(err)
	}
	c.Command.Args, c.Command.Short, c.Command.Long, c.Command.Examples = q.Name, q.Question, "", q.examples()
	for _, p := range q.Parameters {
		value, help := "`text`: ", p.Doc
		if p.Time {
			value, c.Command.Long = "`time`: ", Times
		}
		switch {
		case p.Required:
			help += " (required)"
		case p.Default != "":
			help += " (default " + p.Default + ")"
		}
		c.Parameters.Func(p.Name, value+help, func(v string) error {
			q.values[p.Name] = v
			return nil
		})
	}
	return q, nil
}

// firstArg returns the first argument that is neither a flag nor its value. All flags but --help have one.
func firstArg(args []string) string {
	for i := 0; i < len(args); i++ {
		switch name := strings.TrimLeft(args[i], "-"); {
		case args[i] == "" || args[i][0] != '-':
			return args[i]
		case name != "help" && name != "h" && !strings.Contains(name, "="):
			i++
		}
	}
	return ""
}

// Bind returns the values of all parameters.
func (q *Query) Bind(prices queries.Prices) (map[string]string, error) {
	params, err := q.Query.Bind(q.values)
	if err != nil {
		return nil, command.BadInput(err)
	}
	if slices.Contains(q.Bound, "prices") {
		params["prices"] = prices.Bound()
	}
	return params, nil
}

// examples returns command lines with q.
func (q *Query) examples() string {
	base := "  llmtap query " + q.Name
	lines := []string{base}
	for _, p := range q.Parameters {
		switch {
		case p.Name == "text":
			lines[0] += " --text 'connection refused'"
		case p.Required:
			lines[0] += " --" + p.Name + " conv-7"
		case p.Name == "since":
			lines = append(lines, lines[0]+" --since '15 minutes'", lines[0]+" --since 2026-11-20 --until 2026-11-21T09:30:00Z")
		case p.Name == "service":
			lines = append(lines, lines[0]+" --since 7d --service planner-api --format csv")
		}
	}
	return strings.Join(lines, "\n")
}

// List writes the names and questions of all queries by group, in lines of at most width columns.
func List(w io.Writer, width int) error {
	byGroup := map[string][]queries.Query{}
	longest := 0
	for _, name := range queries.Names() {
		q, err := queries.Get(name)
		if err != nil {
			return err
		}
		byGroup[q.Group] = append(byGroup[q.Group], q)
		longest = max(longest, len(name))
	}
	var b strings.Builder
	for _, group := range queries.Groups() {
		fmt.Fprintf(&b, "%s\n", group)
		for _, q := range byGroup[group] {
			name := q.Name
			for _, line := range terminal.Wrap(q.Question, max(30, width-longest-4), "") {
				fmt.Fprintf(&b, "  %-*s  %s\n", longest, name, line)
				name = ""
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("Run one:         llmtap query causes --since '15 minutes'\nIts parameters:  llmtap query causes --help\n")
	_, err := io.WriteString(w, b.String())
	return err
}
