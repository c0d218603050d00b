package slack

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var t0 = time.Date(2026, 11, 21, 9, 21, 5, 0, time.UTC)

// incident is DESIGN.md's incident 0 while it fires.
func incident() alerts.Alert {
	return alerts.Alert{
		Name: "StageFailureRate", State: alerts.Firing, Value: 43.0 / 98, Peak: 43.0 / 98,
		Labels: map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "severity": "critical"},
		Annotations: map[string]string{
			"summary":     "checkout-agent/planner: 43.88% of calls are failing",
			"description": "More than 30% of the model calls of checkout-agent/planner failed in the last 10 minutes.",
		},
		StartsAt: t0, UpdatedAt: t0,
		Evidence: alerts.Evidence{
			Window: 10 * time.Minute, Failed: 43, Calls: 98,
			Shares: []alerts.Share{
				{
					Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 41,
					Fix:          "When the agent saves an assistant message, keep its tool_calls together with its content.",
					FirstVersion: "2.4.0", FirstAt: t0.Add(-8 * time.Minute), LastClean: "2.3.9",
				},
				{Cause: "rate_limit", Failed: 2, FirstVersion: "1.0.0", FirstAt: t0.Add(-900 * time.Hour)},
			},
			Versions: []alerts.VersionCount{
				{Version: "2.3.9", Calls: 48, FirstSeen: t0.Add(-72 * time.Hour)},
				{Version: "2.4.0", Failed: 43, Calls: 50, FirstSeen: t0.Add(-9 * time.Minute)},
			},
			Example: &analyzer.Example{
				Exchange: "0193-1", Conversation: "order-7781", Status: 400, Rule: "orphan_tool_reply", Message: 4, ToolCallID: "call_9",
				ErrorText: "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
				Summary:   "messages[4] is a tool message for call_9, but messages[3] is an assistant message without tool_calls",
				Evidence:  "The previous answer called read_file (call_9); this request sends that assistant message back without tool_calls.",
			},
			More: []*analyzer.Example{
				{Exchange: "0193-7", Conversation: "order-7790", Status: 400, Rule: "orphan_tool_reply", Message: 6, ToolCallID: "call_2", Summary: "messages[6] is a tool message"},
				{Exchange: "0193-8", Conversation: "order-7793", Status: 429, Message: -1, ErrorText: "Rate limit reached <!here>"},
			},
		},
	}
}

func group(as ...alerts.Alert) alerts.Group {
	return alerts.Group{Key: `StageFailureRate{service="checkout-agent",environment="prod",stage="planner"}`, Alerts: as}
}

// later is incident a quarter of an hour later.
func later() alerts.Alert {
	a := incident()
	a.UpdatedAt = t0.Add(14 * time.Minute)
	a.Evidence.Failed, a.Evidence.Calls = 412, 1030
	a.Evidence.Shares = []alerts.Share{
		a.Evidence.Shares[0],
		{Cause: "missing_tool_reply", RootCause: "unknown_no_history", Failed: 30, FirstVersion: "2.1.0", FirstAt: t0.Add(-500 * time.Hour), LastClean: "2.0.7"},
		{Cause: "rate_limit", Failed: 2},
	}
	a.Evidence.Shares[0].Failed = 380
	a.Evidence.Versions = []alerts.VersionCount{
		{Version: "2.3.9", Calls: 500, FirstSeen: t0.Add(-72 * time.Hour)},
		{Version: "2.4.0", Failed: 400, Calls: 510, FirstSeen: t0.Add(-9 * time.Minute)},
		{Version: "2.4.1", Failed: 12, Calls: 20, FirstSeen: t0.Add(10 * time.Minute), LastFailed: t0.Add(11 * time.Minute), CallsSince: 8},
		{Version: "2.4.2", Calls: 80, FirstSeen: t0.Add(12*time.Minute + 10*time.Second), CallsSince: 80},
	}
	a.Evidence.LastFailed, a.Evidence.CallsSince = t0.Add(12*time.Minute+40*time.Second), 80
	return a
}

func resolved() alerts.Alert {
	a := later()
	a.State, a.EndsAt, a.UpdatedAt = alerts.Resolved, t0.Add(65*time.Minute), t0.Add(65*time.Minute)
	return a
}

// silent ended because the stage made no calls any more.
func silent() alerts.Alert {
	a := resolved()
	a.Evidence.CallsSince, a.Evidence.Versions = 0, a.Evidence.Versions[:2]
	return a
}

// second is another alert of a group of several stages; its stage has a Chinese name and no version.
func second() alerts.Alert {
	a := incident()
	a.Labels = map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "总结 <!channel> *x*", "severity": "warning"}
	a.StartsAt, a.UpdatedAt, a.FoundLate = t0.Add(time.Minute), t0.Add(2*time.Minute), true
	a.Unavailable = "ClickHouse has not answered since 09:20:00 UTC."
	a.Evidence = alerts.Evidence{
		Window: 10 * time.Minute, Failed: 6, Calls: 50,
		Shares:   []alerts.Share{{Cause: "server_error", Failed: 6}},
		Versions: []alerts.VersionCount{{Failed: 6, Calls: 50, FirstSeen: t0}},
		Example: &analyzer.Example{
			Conversation: "a'b & <c>", Exchange: "0193-2", Status: 503, Message: -1,
			ErrorText: "<html>\n<b>503</b> `Service` Unavailable & more</html>",
		},
	}
	return a
}

// bare is an alert without any evidence.
func bare() alerts.Alert {
	return alerts.Alert{
		Name: "Watchdog", State: alerts.Firing, Value: 1, Labels: map[string]string{"severity": "info"},
		Annotations: map[string]string{"summary": "llmtap evaluates alerts", "description": "This alert always fires."}, StartsAt: t0, UpdatedAt: t0,
	}
}

// groupLabels are the labels by which groups are formed.
var groupLabels = []string{"service", "environment", "stage"}

// states returns groups in all the states that a message shows, by name of the golden file.
func states() map[string]alerts.Group {
	acked := group(later())
	acked.Ack = &alerts.Ack{By: "U00000BOB", ByName: "bob", At: t0.Add(2 * time.Minute)}
	quiet := later()
	quiet.Silence = &silence.Silence{ID: "1", Matchers: group(quiet).Matchers(groupLabels), CreatedBy: "anna", Comment: "rollback of 2.4.0", EndsAt: t0.Add(4 * time.Hour)}
	part := later()
	part.Inhibitor = &alerts.Inhibitor{ID: "x", Name: "ProviderOutage", Summary: "openai: 10 services fail", URL: "https://example.slack.com/archives/C1/p1"}
	warning := second()
	warning.FoundLate, warning.Unavailable, warning.Labels["stage"] = false, "", "summarizer"
	late := incident()
	late.FoundLate = true
	whole := incident()
	whole.Name, whole.Labels = "ProviderOutage", map[string]string{"provider": "openai", "severity": "critical"}
	whole.Annotations = map[string]string{"summary": "openai: calls of 10 services fail", "runbook": "Check the provider's status page."}
	whole.Evidence = alerts.Evidence{Window: 10 * time.Minute, Failed: 620, Calls: 1400, Shares: []alerts.Share{{Cause: "server_error", Failed: 620}}}
	whole.Hides = &alerts.Hidden{Alerts: 10, Worst: []alerts.Part{{Name: "StageFailureRate", Labels: map[string]string{"service": "shop", "stage": "planner", "severity": "critical"}, Failed: 90, Calls: 100}}}
	// All calls in the window are of the failing version, and the ledger has an entry for each of two causes.
	alone := incident()
	alone.Evidence.Versions, alone.Evidence.More = alone.Evidence.Versions[1:], nil
	described := bare()
	described.Labels = map[string]string{"service": "checkout-agent", "stage": "planner", "severity": "info"}
	described.Annotations["runbook"] = "List the defects."
	var stages []alerts.Alert
	for i := range 9 {
		a := incident()
		a.Labels = map[string]string{"service": "checkout-agent", "environment": "prod", "stage": fmt.Sprint("stage-", i), "severity": "warning"}
		a.Evidence.Failed -= uint64(i)
		stages = append(stages, a)
	}
	problem := group(warning)
	problem.Alerts[0].Problem = "server_error"
	problem.Known = &alerts.Problem{Assignee: anna.id, Regressed: &alerts.Regression{Version: "2.4.0", Fixed: alerts.Resolution{Decision: alerts.Decision{By: "bob"}, Version: "2.4.0"}}}
	back := group(incident())
	back.Alerts[0].Problem, back.Known = "tool_calls_dropped_on_save", problem.Known
	crowd := group(incident(), incident(), incident())
	for i, name := range []string{"StageFailureRate", "MaskedFailures", "RetryStorm"} {
		crowd.Alerts[i].Name, crowd.Alerts[i].Problem = name, "tool_calls_dropped_on_save"
	}
	crowd.Known, crowd.Ack = problem.Known, acked.Ack
	pair := crowd
	pair.Alerts = crowd.Alerts[:2]
	where := incident()
	where.Evidence.Differs = "only environment production and model gpt-5-mini-2026-08-07: 96 of 98 calls; 2 of 402 others"
	lost := incident()
	lost.Evidence.Example, lost.Evidence.Shares = nil, nil
	return map[string]alerts.Group{
		"firing": group(incident()), "updated": group(later()), "resolved": group(resolved()), "silent": group(silent()),
		"group": group(incident(), second()), "no_evidence": group(bare()), "one_version": group(alone), "runbook": group(described),
		"no_example": group(lost), "acknowledged": acked, "silenced": group(quiet), "part": group(part), "warning": group(warning),
		"late": group(late), "parts": group(whole), "no_content": wording.Permitted(group(incident()), false),
		"many": group(stages...), "problem": problem, "regressed": back, "regressed_pair": pair, "regressed_crowd": crowd, "where": group(where),
	}
}

// messages returns the messages about states, and summaries, by name of the golden file.
func messages() map[string]message {
	out := map[string]message{}
	for name, g := range states() {
		out[name] = shown(g)
	}
	summarize := func(name string, groups []alerts.Group) {
		s := &summary{}
		for _, g := range groups {
			s.put(g)
		}
		out[name] = s.render(phoneAccess)
	}
	groups := append(storm(100, "critical"), storm(400, "warning")...)
	summarize("summary", groups)
	changed := after(groups, 9*time.Minute, func(a *alerts.Alert) { a.Evidence.Failed++ })
	for i := range changed[:40] {
		changed[i].Ack = &alerts.Ack{By: "U00000BOB", At: t0}
		changed[60+i].Alerts[0].Silence = &silence.Silence{ID: "1", EndsAt: t0.Add(time.Hour)}
	}
	copy(changed[300:], after(changed[300:], 10*time.Minute, resolve))
	summarize("summary_changed", changed)
	summarize("summary_resolved", after(groups, 20*time.Minute, resolve))
	long := storm(20, "critical")
	for i := range long {
		a := &long[i].Alerts[0]
		a.Labels["service"], a.Labels["stage"] = fmt.Sprint("a-service-with-a-long-name-of-a-team-", i), "a-stage-with-a-long-name-of-its-own"
	}
	summarize("summary_long", long)
	return out
}

// phoneAccess is how the readers of messages reach llmtap.
// The form of a new issue is one click away, if a template is configured.
// The summary says in which calls something failed, if that is known.
func TestWhere(t *testing.T) {
	a := incident()
	a.Evidence.Differs = "only model <b>: 96 of 98 calls; 0 of 294 others"
	for short, want := range map[bool]bool{false: true, true: false} {
		lines := strings.Join(answers(alerts.Group{}, a, short, false), "\n")
		must.Equal(t, strings.Contains(lines, "*Where:* only model &lt;b&gt;: 96 of 98 calls\n"), want, "short %v: line\n%s", short, lines)
	}
	text := string(must.Get(json.Marshal(details(a, alerts.Access{})))(t))
	must.Contain(t, text, "*Where* only model \\u0026lt;b\\u0026gt;: 96 of 98 calls; 0 of 294 others")
}

func TestNewIssue(t *testing.T) {
	access := phoneAccess
	access.IssueURL = "https://github.com/acme/agents/issues/new?title={title}&body={body}"
	line := links(group(incident()), access)
	_, link, ok := strings.Cut(line, "<https://github.com/acme/agents/issues/new?title=checkout-agent%2Fplanner%3A%20assistant%20message%20saved%20without%20its%20tool_calls&amp;body=-%20%2A%2AWhat")
	if !ok || !strings.HasSuffix(link, "|New issue>") || len(line) > maxContext {
		t.Errorf("%d bytes: %s", len(line), line)
	}
}

var phoneAccess = alerts.Access{ExternalURL: "https://llmtap.example.com", URL: "https://llmtap.example.com"}

// shown returns the message of g with buttons.
func shown(g alerts.Group) message {
	m := render(g, phoneAccess)
	m.controls(g, groupLabels)
	return m
}

// The golden files are the JSON that is sent and the text that people see.
func TestGolden(t *testing.T) {
	for name, m := range messages() {
		raw := must.Get(json.MarshalIndent(m.all(), "", "  "))(t)
		checkLimits(t, m)
		alertstest.Golden(t, name+".json", string(raw)+"\n")
		alertstest.Golden(t, name+".txt", "notification: "+m.text+"\n\n"+plainBlocks(t, raw))
	}
}

// tokens matches what Slack interprets in a text: mentions, links and dates.
var tokens = regexp.MustCompile("<[^>]*>?")

// Names and texts of 5 MB that contain all that Slack interprets produce messages, summaries, threads, buttons and replies within Slack's
// limits, and without mentions.
func TestHostileContent(t *testing.T) {
	const hostile = "<!channel> & `<@U123>` \n```*_~ <https://evil.example|x> \u202e\u200b\x00\x1b[1m\xff $(rm -rf ~)"
	size := 5 << 20
	if testing.Short() {
		size = 200_000
	}
	long := strings.Repeat(hostile, size/len(hostile))
	short := long[:50_000]
	labels := func(stage string) map[string]string {
		return map[string]string{"service": short, "environment": short, "stage": stage, "severity": short, "provider": short, "model": short}
	}
	a := incident()
	a.Name, a.Labels = long, labels(long)
	a.Annotations = map[string]string{"summary": long, "description": long, "runbook": long}
	a.Evidence.Shares, a.Evidence.Versions = nil, nil
	for i := range 20 {
		name := long
		if i > 0 {
			name = fmt.Sprint(i) + short
		}
		a.Evidence.Shares = append(a.Evidence.Shares, alerts.Share{Cause: name, RootCause: name, Failed: 1, Fix: name, FirstVersion: name, LastClean: name})
		a.Evidence.Versions = append(a.Evidence.Versions, alerts.VersionCount{Version: name, Failed: 1, Calls: 2})
	}
	a.Evidence.Example = &analyzer.Example{Conversation: long, Exchange: long, Rule: long, ToolCallID: long, Summary: long, Evidence: long, ErrorText: `{"error":{"message":"` + long, Status: 400, Full: true}
	x := *a.Evidence.Example
	x.Summary = ""
	a.Evidence.More = []*analyzer.Example{&x, &x}
	bare := a // counts nothing, so that its summary is its headline
	bare.Name, bare.Labels, bare.Evidence = short, labels(short), alerts.Evidence{}
	matchers := must.Get(silence.ParseMatchers([]string{`stage=~".*"`, fmt.Sprintf("service=%q", strings.Repeat("<!channel>`", 50))}))(t)
	quiet := bare
	quiet.Silence = &silence.Silence{ID: long, Matchers: matchers, CreatedBy: long, Comment: long}
	hidden := bare
	hidden.Inhibitor = &alerts.Inhibitor{ID: long, Name: long, Summary: long, URL: "https://llmtap.example.com/<!channel>"}
	whole := bare
	whole.Hides = &alerts.Hidden{Alerts: 9, Worst: []alerts.Part{{Name: long, Labels: labels(long), Failed: 1, Calls: 2}}}
	var all []alerts.Alert
	for i := range 30 {
		b := a
		b.Name, b.Labels = "A", map[string]string{"service": short[:5000], "stage": fmt.Sprint(i), "severity": "critical"}
		all = append(all, b)
	}
	access := alerts.Access{ExternalURL: "https://llmtap.example.com/", Host: long, IssueURL: "https://llmtap.example.com/new?title={title}&body={body}"}
	acked := group(bare)
	acked.Ack = &alerts.Ack{By: long, ByName: long, At: t0}
	var texts []string // that Slack interprets, besides those of blocks
	for i, g := range []alerts.Group{group(a), group(bare), group(all...), group(quiet), group(hidden), group(whole), acked, {Key: long}} {
		m := render(g, access)
		m.controls(g, groupLabels)
		s := &summary{record: record{NoticeID: "1"}}
		s.put(g)
		end := after([]alerts.Group{g}, time.Hour, resolve)[0]
		for _, m := range []message{m, s.render(access), render(end, access)} {
			checkLimits(t, m)
			checkEscaped(t, m)
			texts = append(texts, m.text)
		}
		texts = append(texts, markup.StatusNews(g, wording.Told{Sent: markup.Tell(group(a), wording.Told{}).Sent})...)
		texts = append(texts, markup.News(g, nil)...)
		texts = append(texts, markup.News(end, markup.Tell(g, wording.Told{}).Sent)...)
		texts = append(texts, markup.Reminder(g)...)
		if i < 2 {
			texts = append(texts, queryText(g, access, func(*alerts.Alert) string { return long }))
		}
	}
	for _, text := range texts {
		if n := utf8.RuneCountInString(text); n > 40_000 {
			t.Errorf("text of %d characters: %.100s", n, text)
		}
		escaped(t, text)
	}
}

// checkEscaped fails the test if a text of m contains what Slack interprets, apart from dates and links to llmtap.
func checkEscaped(t *testing.T, m message) {
	t.Helper()
	raw := must.Get(json.Marshal(m.all()))(t)
	decoded := must.JSON[any](t, raw)
	for _, text := range mrkdwnTexts(decoded) {
		escaped(t, text)
	}
}

func escaped(t *testing.T, text string) {
	t.Helper()
	for _, token := range tokens.FindAllString(text, -1) {
		if !strings.HasPrefix(token, "<!date^") && !strings.HasPrefix(token, "<https://llmtap.example.com/") {
			t.Errorf("%q is not escaped in %.80s", token, text)
		}
	}
	must.Equal(t, strings.Count(text, "```")%2, 0, "a block of code ends early: %.200s", text)
}

// What a person copies from the message is what llmtap is called with, whatever the names: each command is one line.
func TestCommandsInAShell(t *testing.T) {
	for _, name := range []string{"plan", `it's "a"`, "$(touch x) ${HOME} $HOME", `a\b\'c' # ; & | > x < y * ? ~ !1`, "<!channel> &amp;", "--help", "`touch x`", "two\nlines", "gpj\u202e.exe", "总结", "a=b", ""} {
		a := incident()
		a.Labels = map[string]string{"service": name, "stage": name, "environment": "prod"}
		a.Evidence.Example.Conversation = name
		block := strings.Join(commands(a, alerts.Access{URL: "http://tap:8088"}), "\n")
		script := html.UnescapeString(strings.ReplaceAll(block, "```", "")) // as Slack shows it
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "llmtap() { for x; do printf '%s|' \"$x\"; done; echo; }\n"+script)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		must.Do(t, err, name, string(out))
		want := "show|0193-1|--url|http://tap:8088|\n"
		if name != "" && !strings.ContainsAny(name, "`\n\u202e") && name[0] != '-' {
			want += "show|" + name + "|--url|http://tap:8088|\nquery|causes|--service|" + name + "|--stage|" + name + "|--environment|prod|--since|2026-11-21T09:11:05Z|--url|http://tap:8088|\n"
		}
		must.Equal(t, string(out), want, "calls of a shell with %q", name)
		if files, err := os.ReadDir(cmd.Dir); err != nil || len(files) > 0 {
			t.Errorf("%q: files %v, %v", name, files, err)
		}
	}
}

func TestIcon(t *testing.T) {
	for severity, want := range map[string]string{"critical": "red", "page": "red", "error": "orange", "warning": "orange", "info": "blue", "": "blue"} {
		a := incident()
		a.Labels["severity"] = severity
		must.Contain(t, wording.Icon(a), want, "severity", severity)
	}
}

func TestText(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(wording.Truncate("阶段规划", 3), "阶段…")
	f(wording.OneLine(" a\n\tb\x00\xff ", 10), "a b\ufffd")
	f(wording.OneLine("gpt\u202e\u2066cba\u200b\x1b[1m", 20), "gptcba[1m")
	f(code("\u200b\u202e"), "(none)")
}
