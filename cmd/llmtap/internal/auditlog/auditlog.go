// Package auditlog writes records of the audit: those of commands to ClickHouse, and all of them to a terminal.
package auditlog

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// recordTimeout bounds the time to store the record of a command.
const recordTimeout = 10 * time.Second

// Record stores what a command does, also if ctx has ended. Its person is the user of the operating system.
func Record(ctx context.Context, sink *clickhouse.Sink, getenv func(string) string, r access.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	r.Person, r.Role, r.Via = silences.Author(getenv), access.Admin, "command"
	if err := sink.Write(ctx, &sinks.Batch{Audit: []sinks.AuditEntry{collector.AuditRow(r.Complete(time.Now()))}}); err != nil {
		return fmt.Errorf("store the record of the audit: %w", err)
	}
	return nil
}

// List writes the records that values select, the newest first.
func List(ctx context.Context, q rows.Querier, values queries.Values, w io.Writer, format string, style *terminal.Style) error {
	statement, err := web.Statement("audit")
	if err != nil {
		return err
	}
	if what := values["what"]; len(what) > 0 && !slices.Contains(access.Actions, access.Action(what[0])) {
		return command.BadInputf("--what: %.50q is not one of %s", what[0], Actions())
	}
	sql, params, err := statement.Bind(values, style.In(time.Now()))
	if err != nil {
		return command.BadInput(err)
	}
	res, err := q.Query(ctx, sql, params)
	if err != nil {
		return err
	}
	if format != command.Text {
		return table.Write(w, res, format, style)
	}
	if len(res.Rows) == 0 {
		fmt.Fprintln(w, "no records; --since chooses a longer time, 7 days without it")
	}
	for _, r := range rows.Of(res) {
		text(w, r, style)
	}
	return nil
}

// Actions returns the names of the actions.
func Actions() string {
	var names []string
	for _, a := range access.Actions {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}

// text writes one record.
func text(w io.Writer, r rows.Row, style *terminal.Style) {
	outcome := r.Text("outcome")
	if outcome == access.Refused || outcome == access.Failed {
		outcome = style.Red(outcome)
	}
	fmt.Fprintf(w, "%s  %s  %s\n", style.Time(r.Time("at")), style.Bold(r.Text("action")), outcome)
	who := terminal.Line(r.Text("person"))
	if !r.Bool("verified") && r.Text("via") != "command" && r.Text("via") != "collector" {
		who += " (not logged in)"
	}
	if target := r.Text("target"); target != "" {
		who += ", on " + terminal.Line(target)
	}
	fmt.Fprintln(w, style.Wrap("  ", who, "  "))
	if detail := r.Text("detail"); detail != "" {
		fmt.Fprintln(w, style.Wrap("  ", terminal.Middle(terminal.Line(detail), 300), "  "))
	}
	how := strings.TrimSpace(r.Text("via") + ": " + terminal.Line(r.Text("route")))
	if from := r.Text("address"); from != "" {
		how += " from " + terminal.Line(from)
	}
	fmt.Fprintln(w, style.Wrap("  ", style.Dim(how), "  "))
}
