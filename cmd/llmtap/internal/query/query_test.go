package query

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// parse selects a query by a command line, and returns its help.
func parse(t *testing.T, args ...string) (q *Query, help string, err error) {
	t.Helper()
	var out strings.Builder
	cmd := &command.Command{Name: "query", Args: "[NAME]", Run: func(_ context.Context, c *command.Call) error {
		c.Flags.String("config", "", "")
		c.Flags.Bool("utc", false, "")
		if q, err = New(c); err != nil {
			return err
		}
		if err := c.Parse(); err != nil || q.names == nil {
			return err
		}
		return q.names(t.Context(), func(context.Context) (string, error) { return "key", nil })
	}}
	call := &command.Call{Args: append([]string{"query"}, args...), Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }}
	err = command.Run(t.Context(), &command.Command{Commands: []*command.Command{cmd}}, call)
	return q, out.String(), err
}

func TestNew(t *testing.T) {
	f := func(name string, values queries.Values, args ...string) {
		t.Helper()
		q, _, err := parse(t, args...)
		must.Do(t, err, args)
		if q.Name != name || !cmp.Equal(values, q.values) {
			t.Errorf("%q: query %q with %v, want %q with %v", args, q.Name, q.values, name, values)
		}
	}
	none := queries.Values{}
	f("", none)
	f("", none, "--sql", "SELECT 1")
	f("causes", none, "causes")
	f("causes", queries.Values{"since": {"2h"}, "stage": {"planner"}}, "causes", "--since", "2h", "--stage=planner")
	f("causes", queries.Values{"since": {"usage"}}, "--config", "x", "--since=usage", "causes")

	f("causes", queries.Values{"attr": {"tenant=acme", "vip"}}, "--utc", "--attr", "tenant=acme", "causes", "--attr=vip")
	f("causes", queries.Values{"user": {"5b1c", "0eb072f6a63163ec", event.HashUser([]byte("key"), "ann@example.com")}}, "--user", "5b1c", "causes", "--user-name", "ann@example.com")

	_, _, err := parse(t, "cause")
	must.Equal(t, command.Report(err, &strings.Builder{}), command.ExitBadInput, "unknown query: %v", err)
	if _, _, err := parse(t, "causes", "usage"); err == nil || !strings.HasPrefix(err.Error(), `unexpected argument "usage"`) {
		t.Errorf("two names: %v", err)
	}
}

// The help of every query fits into 80 columns and contains its parameters.
func TestHelp(t *testing.T) {
	for _, name := range queries.Names() {
		q, help, _ := parse(t, name, "--help")
		for line := range strings.Lines(help) {
			if len([]rune(line)) > 81 {
				t.Errorf("%s: line of %d columns: %s", name, len([]rune(line))-1, line)
			}
		}
		for _, p := range q.Parameters {
			must.Contain(t, help, "\n  --"+p.Name+" ", name)
		}
	}
}

func TestStatement(t *testing.T) {
	q := must.Get(Named("usage", nil))(t)
	_, params, err := q.Statement(price.Default(), time.Now())
	if err != nil || params["prices"] == "" || params["since"] == "" {
		t.Errorf("%v, %v", params, err)
	}
	if q, _ = Named("conversation", nil); q == nil {
		t.Fatal("no query")
	}
	if _, _, err := q.Statement(nil, time.Now()); command.Report(err, &strings.Builder{}) != command.ExitBadInput {
		t.Errorf("missing parameter: %v", err)
	}
}

// store answers every query with one row.
type store struct {
	columns []string
	row     []any
}

func (s store) Query(context.Context, string, map[string]string) (*clickhouse.Result, error) {
	res := &clickhouse.Result{Rows: [][]any{s.row}}
	for _, c := range s.columns {
		res.Columns = append(res.Columns, clickhouse.Column{Name: c})
	}
	return res, nil
}

func TestWriteNoRows(t *testing.T) {
	newest := time.Date(2024, 11, 20, 9, 30, 0, 0, time.UTC)
	params := map[string]string{"since": "2024-11-21 09:30:00.000000000", "until": "2024-11-21 10:30:00.000000000"}
	f := func(name string, params map[string]string, s store, want string) {
		t.Helper()
		q := must.Get(Named(name, nil))(t)
		var b strings.Builder
		if err := q.WriteNoRows(t.Context(), &b, s, params, &terminal.Style{Width: 200}); err != nil || b.String() != want+"\n" {
			t.Errorf("%v\n got %swant %s", err, b.String(), want)
		}
	}
	rangeText := "(no rows from 2024-11-21 09:30:00 UTC to 2024-11-21 10:30:00 UTC)"
	columns := []string{"stored", "newest", "n", "shapes"}
	f("causes", params, store{columns, []any{true, newest, uint64(0), uint64(0)}}, rangeText+" The newest stored call began at 2024-11-20 09:30:00 UTC: choose an earlier --since.")
	f("causes", params, store{columns, []any{true, newest.AddDate(0, 0, 2), uint64(0), uint64(0)}}, rangeText)
	f("causes", params, store{columns, []any{false, time.Time{}, uint64(0), uint64(0)}}, rangeText+" No calls are stored.")
	f("messages_with", params, store{columns, []any{true, newest.AddDate(0, 0, 2), uint64(9), uint64(9)}},
		rangeText+" Only the shapes of bodies are stored, without their texts. To store texts, set the capture mode of the hooks to full.")
	f("messages_with", params, store{columns, []any{true, newest.AddDate(0, 0, 2), uint64(9), uint64(8)}}, rangeText)
	f("conversation", nil, store{}, "(no rows)")
}

func TestKnownNames(t *testing.T) {
	f := func(filter, value, stored, want string) {
		t.Helper()
		q := must.Get(Named("calls", queries.Values{filter: {value}}))(t)
		err := q.knownNames(t.Context(), store{[]string{"name"}, []any{stored}})
		must.Equal(t, fmt.Sprint(err), want, "%s %s", filter, value)
	}
	f("service", "shop", "shop", "<nil>")
	f("service", "shopp", "shop", `no call of service "shopp" is stored; did you mean shop?`)
	f("tool", "read_crt", "read_cart", `no call of tool "read_crt" is stored; did you mean read_cart?`)
	f("attr", "tenat=acme", "tenant", `no call of attr "tenat" is stored; did you mean tenant?`)
	f("attr", "tenant=acme", "tenant", "<nil>")
	f("cause", "rate_limit", "orphan_tool_reply", "<nil>") // known, although no call has it
	f("cause", "orphan", "orphan_tool_reply", `no call of cause "orphan" is stored; stored are calls of orphan_tool_reply`)
	f("user", "ann", "bob", "<nil>")
}
