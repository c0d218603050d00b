package query

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/ruledoc"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/nearest"
)

var newest = rows.Statement("SELECT toBool(count() > 0) AS stored, max(started_at) AS newest FROM exchanges")

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
		all, err := rows.Read(ctx, store, "newest call", newest, nil)
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

// stored are the statements that list the stored names of filters.
var stored = []struct{ filter, sql string }{
	{"service", names("SELECT toString(service) AS name FROM exchanges")},
	{"stage", names("SELECT toString(stage) AS name FROM exchanges")},
	{"environment", names("SELECT toString(environment) AS name FROM exchanges")},
	{"version", names("SELECT toString(service_version) AS name FROM exchanges")},
	{"provider", names("SELECT toString(provider) AS name FROM exchanges")},
	{"model", names("SELECT toString(model) AS name FROM exchanges")},
	{"tool", names("SELECT toString(arrayJoin(tools)) AS name FROM exchanges UNION ALL SELECT toString(tool_name) FROM tool_calls")},
	{"attr", names("SELECT toString(arrayJoin(mapKeys(attributes))) AS name FROM exchanges")},
	{"cause", names("SELECT toString(arrayJoin([cause, root_cause])) AS name FROM exchanges WHERE failed")},
}

func names(sql string) string {
	return rows.Statement("SELECT name FROM (" + sql + ") GROUP BY name ORDER BY name = {name:String} DESC, name = '', name LIMIT 1000")
}

// knownNames returns an error if no call has a name that a filter of the command line requires. A cause that llmtap knows needs no call.
func (q *Query) knownNames(ctx context.Context, store rows.Querier) error {
	for _, s := range stored {
		for _, name := range q.values[s.filter] {
			if s.filter == "attr" {
				name, _, _ = strings.Cut(name, "=")
			}
			if name == "" || s.filter == "cause" && slices.Contains(ruledoc.IDs(), name) {
				continue
			}
			all, err := rows.Read(ctx, store, "known names", s.sql, map[string]string{"name": name})
			if err != nil {
				return err
			}
			var names []string
			for _, r := range all {
				if r.Text("name") != "" {
					names = append(names, r.Text("name"))
				}
			}
			if len(names) == 0 || names[0] == name {
				continue
			}
			unknown := fmt.Sprintf("no call of %s %q is stored", s.filter, name)
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
