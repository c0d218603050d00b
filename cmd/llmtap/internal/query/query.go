// Package query selects a stored query or an SQL statement from the command line of llmtap query.
package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/user"
	"github.com/llmtap/llmtap/dashboards/differs"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Times is the help text for time parameters.
const Times = "A time is a duration before now (15 minutes, 2h, 7d), a local time (2026-11-20, '2026-11-20 09:30'; UTC with --utc), or a time with a zone (2026-11-20T09:30:00Z)."

// A Query is the query selected by a command line. If no query is selected, SQL is empty.
type Query struct {
	queries.Query
	values queries.Values
	names  func(ctx context.Context, key func(context.Context) (string, error)) error // as AddFilters returns it; nil without filters
}

// New selects the query named in c.Args, adds its parameters to c and adapts the help. Without a name, it adds --sql. The
// flags of c must be defined before.
func New(c *command.Call) (*Query, error) {
	q := &Query{values: queries.Values{}}
	name := firstArg(c)
	if name == "" {
		c.Parameters.StringVar(&q.SQL, "sql", "", "SQL `statement` to run instead of a stored query")
		return q, nil
	}
	var err error
	if q.Query, err = queries.Get(name); err != nil {
		return nil, command.BadInput(err)
	}
	c.Command.Args, c.Command.Short, c.Command.Long, c.Command.Examples = q.Name, q.Question, "", q.examples()
	q.names = AddFilters(c, q.Parameters, q.values)
	for _, p := range q.Parameters {
		value, help := "`text`: ", p.Doc
		switch {
		case p.Filter:
			continue
		case p.Name == "limit":
			value = "`rows`: "
		case p.Time:
			value, c.Command.Long = "`time`: ", Times
		}
		switch {
		case p.Required:
			help += " (required)"
		case p.Default != "":
			help += " (default " + p.Default + ")"
		}
		c.Parameters.Func(p.Name, value+help, func(v string) error {
			q.values[p.Name] = append(q.values[p.Name], v)
			return nil
		})
	}
	return q, nil
}

// AddFilters adds the filters among params to c and appends their values to values. Names of users become values when resolve is called
// after the flags are parsed, as that of user.Flags.
func AddFilters(c *command.Call, params []queries.Parameter, values queries.Values) (resolve func(ctx context.Context, key func(context.Context) (string, error)) error) {
	resolve = func(context.Context, func(context.Context) (string, error)) error { return nil }
	for _, p := range params {
		if !p.Filter {
			continue
		}
		if p.Name == "user" {
			resolve = user.Flags(c, "only this user", func(label string) { values["user"] = append(values["user"], label) })
			continue
		}
		c.Parameters.Func(p.Name, "`text`: "+p.Doc, func(v string) error {
			values[p.Name] = append(values[p.Name], v)
			_, err := queries.Filter("{filter exchanges ONLY "+p.Name+"}", queries.Values{p.Name: {v}}, map[string]string{})
			return errors.Unwrap(err) // without the name of the filter
		})
	}
	return resolve
}

// firstArg returns the first argument that is neither a flag nor the value of a flag. Parameters of queries have values.
func firstArg(c *command.Call) string {
	for i := 0; i < len(c.Args); i++ {
		arg := c.Args[i]
		name := strings.TrimLeft(arg, "-")
		f := c.Flags.Lookup(name)
		switch {
		case arg == "" || arg[0] != '-':
			return arg
		case name != "help" && name != "h" && !strings.Contains(name, "=") && (f == nil || !command.IsBool(f)):
			i++
		}
	}
	return ""
}

// Named returns a stored query with these parameter values.
func Named(name string, values queries.Values) (*Query, error) {
	q, err := queries.Get(name)
	return &Query{Query: q, values: values}, err
}

// Servers provides the configuration and the stored data. It is implemented by *connect.Servers.
type Servers interface {
	Config() (*config.Effective, error)
	ShapeKey(ctx context.Context) (string, error)
	WithStore(ctx context.Context, f func(rows.Querier) error) error
}

// Run runs q on the ClickHouse of servers and writes the result in one of table.Formats.
func (q *Query) Run(ctx context.Context, c *command.Call, servers Servers, format string, style *terminal.Style) error {
	cfg, err := servers.Config()
	if err != nil {
		return err
	}
	if q.names != nil {
		if err := q.names(ctx, servers.ShapeKey); err != nil {
			return err
		}
	}
	now := style.In(time.Now())
	sql, params, err := q.Statement(cfg.Prices, now)
	if err != nil {
		return err
	}
	named := ctx
	if q.Name != "" {
		named = rows.WithStored(ctx, rows.Stored{Name: q.Name, Values: q.values, At: now})
	}
	return servers.WithStore(ctx, func(store rows.Querier) error {
		res, err := store.Query(named, sql, params)
		if err != nil {
			return err
		}
		res, sentence := q.Answer(res)
		if q.Name != "" && format == command.Text {
			for _, text := range []string{q.Question, sentence} {
				if text != "" {
					fmt.Fprintf(c.Stdout, "%s\n\n", strings.Join(terminal.Wrap(terminal.Line(text), style.Width, ""), "\n"))
				}
			}
		}
		if len(res.Rows) == 0 && sentence != "" && format == command.Text {
			return nil
		}
		if len(res.Rows) == 0 && q.Name != "" {
			err := q.knownNames(ctx, store)
			if err == nil && format == command.Text {
				if err = q.WriteNoRows(ctx, c.Stdout, store, params, style); err == nil {
					return nil
				}
			}
			if _, refused := errors.AsType[*rows.RefusedError](err); err != nil && !refused {
				return err
			}
		}
		return table.Write(c.Stdout, res, format, style)
	})
}

// Answer returns what a person wants to know of the result of q, and a sentence about it, which may be empty.
func (q *Query) Answer(res *clickhouse.Result) (*clickhouse.Result, string) {
	if q.Name != differs.Query {
		return res, ""
	}
	found := differs.Of(rows.Of(res))
	columns, list := found.Table()
	if limit := q.values["limit"]; len(limit) > 0 {
		n, _ := strconv.Atoi(limit[len(limit)-1]) // Bind has checked it
		list = list[:min(len(list), n)]
	}
	out := &clickhouse.Result{Rows: list}
	for _, c := range columns {
		out.Columns = append(out.Columns, clickhouse.Column(c))
	}
	switch {
	case len(res.Rows) == 0 || found.Sentence != "":
		return out, found.Sentence
	case found.Others == 0:
		return out, "There are no other calls to compare them with: choose a longer time range, or fewer filters."
	}
	return out, fmt.Sprintf("Nothing, beyond chance: %s are like %s.", quantity.Plural(int(found.Hits), "call"), quantity.Plural(int(found.Others), "other call"))
}

// Statement returns the statement and the values of all parameters.
func (q *Query) Statement(prices price.Table, now time.Time) (sql string, params map[string]string, err error) {
	sql, params, err = q.Bind(q.values, now)
	if err != nil {
		return "", nil, command.BadInput(err)
	}
	if slices.Contains(q.Bound, "prices") {
		params["prices"] = prices.Bound()
	}
	return sql, params, nil
}

// examples returns example command lines for q.
func (q *Query) examples() string {
	base := "  llmtap query " + q.Name
	lines := []string{base}
	for _, p := range q.Parameters {
		switch {
		case p.Name == "text":
			lines[0] += " --text refund"
		case p.Name == "tool" && p.Required:
			lines[0] += " --tool search"
		case p.Required:
			lines[0] += " --" + p.Name + " conv-7"
		case p.Name == "since":
			lines = append(lines, lines[0]+" --since '15 minutes'", lines[0]+" --since 2026-11-20 --until 2026-11-21")
		case p.Name == "attr" && !slices.ContainsFunc(q.Parameters, func(p queries.Parameter) bool { return p.Required }):
			lines = append(lines, base+" --attr tenant=acme --format csv")
		}
	}
	return strings.Join(lines, "\n")
}

// filterHelp describes the common filters in the list of queries.
const filterHelp = "Most queries have --since, --until, --service, --stage, --environment, --version, --provider, --model, --status, --user, " +
	"--user-name and --attr (repeatable), and all have --limit. They may be before or after the name."

// List writes the queries as WriteNames, and how to run one.
func List(w io.Writer, width int) error {
	if err := WriteNames(w, width); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("\nFilters\n")
	for _, line := range terminal.Wrap(filterHelp, max(30, width-2), "") {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	b.WriteString("\nRun one:         llmtap query causes --since '15 minutes'\nIts parameters:  llmtap query causes --help\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteNames writes the names and questions of all queries by group, in lines of at most width columns.
func WriteNames(w io.Writer, width int) error {
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
	for i, group := range queries.Groups() {
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("\n", min(i, 1)), group)
		for _, q := range byGroup[group] {
			name := q.Name
			for _, line := range terminal.Wrap(q.Question, max(30, width-longest-4), "") {
				fmt.Fprintf(&b, "  %-*s  %s\n", longest, name, line)
				name = ""
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
