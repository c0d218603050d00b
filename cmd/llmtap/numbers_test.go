package main

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A counted is a row of a query. The fields are those of all queries below.
type counted struct {
	Version string  `json:"service_version"`
	Root    string  `json:"root_cause"`
	Calls   int     `json:"calls"`
	Failed  int     `json:"failed_calls"`
	Percent float64 `json:"failed_percent"`
	P50     float64 `json:"p50_seconds"`
	P95     float64 `json:"p95_seconds"`
	Tokens  float64 `json:"tokens_per_call"`
}

// testNumbers compares what pages, Slack, commands and MCP say about the planner of the demo. All calls of the demo are in the 15
// minutes of the pages and queries, and in the 10 minutes of the alert rule, which counts the stream instead of the rows. The engine
// evaluates its rules and Slack edits its message a few seconds later, so these are awaited. The numbers of a firing alert are those of
// the last evaluation with a new failure, without the calls that ended later. The row of an alert has the numbers of the time when
// it began, escalated or ended.
func testNumbers(t *testing.T, d *pagesDemo) {
	const stage = "service=checkout-agent&stage=planner"
	query := func(name string, args ...string) []counted {
		t.Helper()
		var rows []counted
		must.Do(t, json.Unmarshal([]byte(d.llmtap(t, append([]string{"query", name, "--since", "15 minutes", "--service", "checkout-agent", "--stage", "planner", "--format", "json"}, args...)...)), &rows))
		return rows
	}
	agent := newAgent(t, &mcp.StreamableClientTransport{Endpoint: d.fleet + "mcp", DisableStandaloneSSE: true})
	filter := map[string]any{"since": "15 minutes", "service": "checkout-agent", "stage": "planner"}

	// The queries are the measure.
	versions := query("failures_by_stage")
	var all counted
	for _, v := range versions {
		all.Calls, all.Failed = all.Calls+v.Calls, all.Failed+v.Failed
	}
	usage := query("usage")
	if len(versions) != 2 || len(usage) != 1 || all.Failed == 0 {
		t.Fatalf("%+v, %+v; want two versions and one model", versions, usage)
	}
	must.Equal(t, usage[0].Calls, all.Calls, "calls of usage")
	must.Equal(t, usage[0].Failed, all.Failed, "failed calls of usage")
	share := quantity.Share(all.Failed, all.Calls)
	var after []struct{ Calls int }
	must.Do(t, json.Unmarshal([]byte(d.llmtap(t, "query", "--format", "json", "--sql", `WITH (SELECT max(started_at) FROM exchanges_final WHERE service = 'checkout-agent' AND stage = 'planner' AND failed) AS last
SELECT count() AS calls FROM exchanges_final WHERE service = 'checkout-agent' AND stage = 'planner' AND started_at + toIntervalMillisecond(1000 * duration) >= last`)), &after))
	var counts []string // one for each number of calls at the last evaluation with a new failure
	for calls := all.Calls; calls >= all.Calls-after[0].Calls; calls-- {
		counts = append(counts, quantity.Count(all.Failed)+" of "+quantity.Count(calls)+" calls failed ("+quantity.Share(all.Failed, calls)+")")
	}
	var hit counted
	for _, c := range query("causes") {
		if c.Root == "tool_calls_dropped_on_save" {
			hit.Failed += c.Failed
		}
	}
	hits := quantity.Count(hit.Failed) + " of " + quantity.Count(all.Calls) + " calls (" + quantity.Share(hit.Failed, all.Calls) + ")"
	var problems []struct{ ID, Cause, Kind, Summary string }
	must.Do(t, json.Unmarshal([]byte(d.llmtap(t, "problems", "list", "--all", "--service", "checkout-agent", "--stage", "planner", "--format", "json")), &problems))
	if len(problems) != 1 || problems[0].Cause != "tool_calls_dropped_on_save" || problems[0].Kind != "root cause" {
		t.Fatalf("problems %+v", problems)
	}
	id := problems[0].ID

	p50, p95 := quantity.Latency(usage[0].P50), quantity.Latency(usage[0].P95)
	fleet := d.text(t, "?range=15m&"+stage)
	must.Contain(t, fleet, "Calls "+quantity.Count(all.Calls), "fleet")
	must.Contain(t, fleet, "Failed "+share+" "+quantity.Plural(all.Failed, "call"), "fleet")
	must.Contain(t, fleet, "Latency, median "+p50+" 95%: "+p95, "fleet")
	row := regexp.MustCompile(`checkout-agent/planner demo (\S+) (\S+) (\S+) (root cause|cause) (\S+) (\S+) .* ([\d.]+ s) Collector`).FindStringSubmatch(fleet)
	if row == nil {
		t.Fatalf("the fleet has no row of the stage:\n%s", fleet)
	}
	must.Equal(t, strings.Join(row[1:], " "), strings.Join([]string{
		quantity.Count(all.Calls), share, quantity.Count(all.Failed), "root cause", "tool_calls_dropped_on_save",
		quantity.Count(hit.Failed), p95,
	}, " "), "row of the stage")

	page := d.text(t, "versions?range=15m&"+stage)
	problem := d.text(t, "problem/"+id+"?range=15m")
	for _, v := range versions {
		of := query("usage", "--version", v.Version)[0]
		failed := "0"
		if v.Failed > 0 {
			failed = quantity.Share(v.Failed, v.Calls) + " " + quantity.Count(v.Failed)
		}
		cells := regexp.MustCompile(regexp.QuoteMeta(v.Version+" "+quantity.Count(v.Calls)+" "+failed) + ` (?:root cause|cause|\S+_\S+|\d+| )*` +
			regexp.QuoteMeta(quantity.Count(of.Tokens)+" "+quantity.Latency(of.P50)+" "+quantity.Latency(of.P95)))
		if !cells.MatchString(page) {
			t.Errorf("version %s: no %s in\n%s", v.Version, cells, page)
		}
		must.Equal(t, strconv.FormatFloat(v.Percent, 'f', -1, 64)+"%", quantity.Share(v.Failed, v.Calls), "failed_percent of %s", v.Version)
	}
	must.Contain(t, problem, hits+" failed for this reason", "problem page")
	must.Contain(t, problem, "root cause tool_calls_dropped_on_save", "problem page")

	// MCP
	must.Contain(t, agent.call("whats_wrong", filter, nil), quantity.Count(hit.Failed)+" of "+quantity.Count(all.Calls)+" calls failed ("+quantity.Share(hit.Failed, all.Calls)+")", "whats_wrong")
	filter["why"] = "tool_calls_dropped_on_save"
	must.Contain(t, agent.call("incident", filter, nil), hits+" since ", "incident")
	must.Contain(t, agent.call("query", map[string]any{"name": "usage", "parameters": map[string]any{"since": "15 minutes", "service": "checkout-agent", "stage": "planner"}}, nil),
		","+strings.TrimSuffix(p50, " s")+","+strings.TrimSuffix(p95, " s")+",", "usage by MCP")

	// The stream
	for name, read := range map[string]func() string{
		"problem page":  func() string { return d.text(t, "problem/"+id+"?range=15m") },
		"problems show": func() string { return d.llmtap(t, "problems", "show", id) },
		"problems, MCP": func() string { return agent.call("problems", map[string]any{"id": id}, nil) },
		"Slack":         func() string { return d.text(t, d.slack) },
	} {
		got := ""
		in := func(count string) bool { return strings.Contains(got, count) }
		must.Wait(t, fmt.Sprintf("%s: one of %q", name, counts), func() bool {
			got = strings.Join(strings.Fields(read()), " ")
			return slices.ContainsFunc(counts, in)
		}, func() any { return got })
	}
	var alerts []struct {
		Name          string
		Failed, Calls int
		Summary       string
	}
	must.Do(t, json.Unmarshal([]byte(d.llmtap(t, "query", "alerts", "--since", "15 minutes", "--service", "checkout-agent", "--format", "json")), &alerts))
	for _, a := range alerts {
		must.Equal(t, a.Summary, "checkout-agent/planner: "+quantity.Count(a.Failed)+" of "+quantity.Plural(a.Calls, "call")+" failed ("+quantity.Share(a.Failed, a.Calls)+")", "%s", a.Name)
	}
	must.Contain(t, d.body(t, d.slack), "/problem/"+id, "Slack")
	must.Contain(t, d.body(t, ""), "/problem/"+id, "fleet")
}

// llmtap returns what a command prints.
func (d *pagesDemo) llmtap(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := runCommand(t, "", append(args, "--data-dir", d.dir)...)
	if code != command.ExitOK {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
	}
	return out
}

// body returns the HTML of a page. A relative URL is one of the pages.
func (d *pagesDemo) body(t *testing.T, u string) string {
	t.Helper()
	if !strings.HasPrefix(u, "http") {
		u = d.fleet + u
	}
	_, body := fetch(t, u, "")
	return body
}

var tags = regexp.MustCompile(`<svg(?s:.*?)</svg>|<title>.*?</title>|<[^>]*>`)

// text returns the text of a page on one line.
func (d *pagesDemo) text(t *testing.T, u string) string {
	t.Helper()
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(d.body(t, u), " "))), " ")
}
