package web

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// trendRows are two bars with a gap between them.
func trendRows() map[string]*Table {
	rows := table("time", testNow.Add(-20*time.Minute), "calls", uint64(60), "failed", uint64(3), "median", 1.5, "slow", 4.5, "slow_first_token", 0.7, "many_input", 3200.0,
		"many_output", 150.0, "many_messages", 12.0, "cost", 0.02, "unpriced", int64(7))
	rows.Rows = append(rows.Rows, []any{testNow.Add(-10 * time.Minute), uint64(30), uint64(0), 1.25, 9.5, 0.8, 8000.0, 160.0, 30.0, nil, int64(30)})
	return map[string]*Table{"what do they cost, over time?": rows}
}

func fakeUsual(_ context.Context, _, _, stage string, at []time.Time, names ...string) (map[string][]Band, error) {
	out := map[string][]Band{}
	for _, name := range names {
		for range at {
			switch {
			case name == "calls":
				out[name] = append(out[name], Band{40, 80})
			case name == "duration" && stage != "":
				out[name] = append(out[name], Band{3, 5})
			case strings.HasPrefix(name, "answer_"):
				out[name] = append(out[name], Band{0.01, 0.02})
			}
		}
	}
	return out, nil
}

func TestTrends(t *testing.T) {
	page := func(path string, usual Usual) string {
		t.Helper()
		o := fakeSource{rows: trendRows()}.options()
		o.Usual = usual
		_, body := get(handler(t, o), path)
		_, body, _ = strings.Cut(body, `<section id="trends">`)
		body, _, _ = strings.Cut(body, "</section>")
		return body
	}
	body := page("/?service=shop&stage=planner", fakeUsual)
	wantAll(t, body, "<h3>Latency, seconds</h3>", "09:10:00 UTC: Calls a minute 60, usual 40 to 80", "09:10:00 UTC: Failed calls 5%", "09:10:00 UTC: Latency 4.5 s, half of them 1.5 s, usual 3 s to 5 s",
		"Input tokens of a call 3,200 tokens", "Cost an hour $1.20", `<path class="usual" d="M`, `<path class="line c3" d="M`, "37 calls not in the cost", "The band is what is usual at that hour", `tabindex="-1"`)
	if strings.Contains(body, "choose one below") || strings.Contains(body, "NaN") {
		t.Error(body)
	}
	wantAll(t, page("/?service=shop", fakeUsual), "usual 40 to 80", "For latency and tokens, it is only known per stage")
	wantAll(t, page("/?service=shop&stage=planner&version=1", fakeUsual), "so it is not shown with this filter")
	wantAll(t, page("/?service=shop&stage=planner", nil), "this process does not know it")
	wantAll(t, page("/?service=shop&stage=planner", func(context.Context, string, string, string, []time.Time, ...string) (map[string][]Band, error) {
		return nil, nil
	}), "not known yet")
	wantAll(t, page("/?service=shop&stage=planner&range=7d", fakeUsual), "usual 40 to 80") // a bar of several hours
}

// The page of a problem about a measure shows it, and speaks of nothing that failed.
func TestMeasure(t *testing.T) {
	page := func(measure, direction string, rows map[string]*Table) string {
		t.Helper()
		p := aProblem("p1", "words")
		p.Cause, p.Kind, p.Measure, p.Direction, p.FirstBad, p.LastClean, p.Severity = measure+"_"+direction, "signal", measure, direction, "", "", "warning"
		all := problemRows("rows")
		maps.Copy(all, trendRows())
		maps.Copy(all, rows)
		o := fakeSource{rows: all}.options()
		o.Incidents, o.Problems, o.Controls, o.Usual = fakeIncidents{"words"}, &fakeProblems{list: []Problem{p}}, &fakeControls{}, fakeUsual
		resp, body := get(handler(t, o), "/problem/p1")
		must.Equal(t, resp.StatusCode, http.StatusOK, "status")
		harmless(t, body)
		_, text, _ := strings.Cut(body, `<div id="sections">`) // after the filters
		text, _, _ = strings.Cut(text, "<h3>SQL")
		for _, bad := range []string{"failed", "Failing", "Root cause", "recovered", "the broken message"} {
			must.Equal(t, strings.Contains(text, bad), false, "the page of %s speaks of %q", measure, bad)
		}
		return body
	}
	calls := table("exchange_id", "x1", "conversation_id", "c1", "started_at", testNow, "model", "m", "version", "2", "finish_reason", "stop", "duration", 9.5, "first_byte", 0.5, "input", int64(8000), "output", int64(160), "messages", int64(30))
	body := page("duration", "high", map[string]*Table{"Which calls have the most of a measure?": calls})
	wantAll(t, body, "<h3>Latency, seconds</h3>", "usual 3 s to 5 s", "<h2>What changed?</h2>", "Since 08:30:00 UTC, 6 of <a", ">10 calls</a> (60%) took more than 5 s", `<h2>Calls that took more than 5 s, by version</h2>`,
		`<a href="/exchange/x1">c1</a>`, "9.5 s", "8,000", "<h2>Who is hit?</h2>", "Open such a call", `class="span"`)
	body = page("calls", "low", nil)
	wantAll(t, body, "<h3>Calls a minute</h3>", "usual 40 to 80", "Calls before it")
	wantAll(t, page("answer_limit", "high", nil), "<h3>Answers that were cut off at the token limit, percent</h3>", "usual 1% to 2%")
	wantAll(t, page("answer_empty", "high", nil), "<h3>Answers that are empty, percent</h3>")
	wantAll(t, page("tool_errors", "high", nil), "<h3>Replies of tools that are errors, percent</h3>")
	wantAll(t, page("cost", "high", nil), "<h3>Cost an hour, dollars</h3>")
}
