package query

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/nearest"
)

// WriteNoRows writes why a query has no rows, as far as that is known: its time range, the newest call, and that only
// shapes of bodies are stored.
func (q *Query) WriteNoRows(ctx context.Context, w io.Writer, store rows.Querier, params map[string]string, style *terminal.Style) error {
	if err := q.knownService(ctx, store); err != nil {
		return err
	}
	var text []string
	since, hasRange := params["since"]
	if hasRange {
		text = append(text, fmt.Sprintf("(no rows from %s to %s)", timeText(since, style), timeText(params["until"], style)))
	} else {
		text = append(text, "(no rows)")
	}
	if hasRange {
		all, err := rows.Read(ctx, store, "newest call", "SELECT toBool(count() > 0) AS stored, max(started_at) AS newest FROM exchanges", nil)
		if err != nil {
			return err
		}
		switch r := all[0]; {
		case !r.Bool("stored"):
			text = append(text, "No calls are stored.")
		case rows.TimeParam(r.Time("newest")) < since:
			text = append(text, fmt.Sprintf("The newest stored call began at %s: choose an earlier --since.", style.Time(r.Time("newest"))))
		}
	}
	if q.Texts || len(q.values["text"]) > 0 {
		all, err := rows.Read(ctx, store, "newest bodies", `SELECT count() AS n, countIf(match(body, '"~[0-9]+:[0-9a-f]{16}')) AS shapes
			FROM (SELECT body FROM messages WHERE kind = 'message' ORDER BY id DESC LIMIT 100)`, nil)
		if err != nil {
			return err
		}
		switch all[0].Int("n") {
		case 0:
			text = append(text, "No bodies are stored.")
		case all[0].Int("shapes"):
			text = append(text, "Only the shapes of bodies are stored, without their texts. To store texts, set the capture mode of the hooks to full.")
		}
	}
	_, err := io.WriteString(w, strings.Join(terminal.Wrap(strings.Join(text, " "), style.Width, ""), "\n")+"\n")
	return err
}

// knownService returns an error if no call of a service of the command line is stored.
func (q *Query) knownService(ctx context.Context, store rows.Querier) error {
	for _, name := range q.values["service"] {
		all, err := rows.Read(ctx, store, "services", "SELECT toString(service) AS service FROM exchanges GROUP BY service ORDER BY service = {name:String} DESC, service LIMIT 1000", map[string]string{"name": name})
		if err != nil {
			return err
		}
		if len(all) == 0 || all[0].Text("service") == name {
			continue
		}
		var names []string
		for _, r := range all {
			names = append(names, r.Text("service"))
		}
		if near := nearest.Name(name, names); near != "" {
			return fmt.Errorf("no call of a service %q is stored; did you mean %s?", name, near)
		}
		return fmt.Errorf("no call of a service %q is stored; stored are calls of %s", name, strings.Join(names[:min(len(names), 10)], ", "))
	}
	return nil
}

// timeText formats the value of a time parameter.
func timeText(param string, style *terminal.Style) string {
	t, err := time.Parse("2006-01-02 15:04:05", param)
	if err != nil || t.After(time.Now()) {
		return "now"
	}
	return style.Time(t)
}
