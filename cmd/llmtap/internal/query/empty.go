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

// knownNames returns an error if no call has a name that a filter of the command line requires.
func (q *Query) knownNames(ctx context.Context, store rows.Querier) error {
	for _, filter := range []string{"service", "stage", "environment", "version", "provider", "model"} {
		column := strings.Replace(filter, "version", "service_version", 1)
		for _, name := range q.values[filter] {
			all, err := rows.Read(ctx, store, "known names", "SELECT toString("+column+") AS name FROM exchanges GROUP BY name ORDER BY name = {name:String} DESC, name = '', name LIMIT 1000", map[string]string{"name": name})
			if err != nil {
				return err
			}
			var names []string
			for _, r := range all {
				names = append(names, r.Text("name"))
			}
			if len(names) == 0 || names[0] == name {
				continue
			}
			unknown := fmt.Sprintf("no call of %s %q is stored", filter, name)
			if near := nearest.Name(name, names); near != "" {
				return fmt.Errorf("%s; did you mean %s?", unknown, near)
			}
			return fmt.Errorf("%s; stored are calls of %s", unknown, strings.Join(names[:min(len(names), 10)], ", "))
		}
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
