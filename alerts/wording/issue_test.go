package wording

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The templates of deploy/INTEGRATIONS.md.
var trackers = map[string]string{
	"GitHub": "https://github.com/acme/agents/issues/new?title={title}&body={body}&labels=llmtap",
	"GitLab": "https://gitlab.com/acme/agents/-/issues/new?issue[title]={title}&issue[description]={body}",
	"Jira":   "https://acme.atlassian.net/secure/CreateIssueDetails!init.jspa?pid=10000&issuetype=10001&summary={title}&description={body}",
	"Linear": "https://linear.app/acme/team/ENG/new?title={title}&description={body}",
}

func TestIssueURL(t *testing.T) {
	title, body := `checkout: "50 %" + more & {body} <b>ü</b> #1`, strings.Repeat("* Zeile **fett** 😀\n", 2000)
	for name, template := range trackers {
		must.Do(t, CheckIssueURL(template), name)
		for _, limit := range []int{400, 500, 900, maxIssueURL} {
			got := IssueURL(template, title, body, limit)
			q := must.Get(url.Parse(got))(t).Query()
			var values []string
			for k, v := range q {
				if strings.Contains(k, "itle") || k == "summary" || strings.Contains(k, "escription") || k == "body" {
					values = append(values, v...)
				}
			}
			if len(got) > limit || len(values) != 2 || strings.Contains(got, "+") || strings.Contains(got, "\n") {
				t.Errorf("%s: %d bytes, limit %d, %q", name, len(got), limit, values)
			}
			for _, v := range values {
				if want := strings.TrimSuffix(v, "…"); v != title && !strings.HasPrefix(body, want) || !utf8.ValidString(v) {
					t.Errorf("%s: %q", name, v)
				}
			}
			if limit == maxIssueURL && len(got) < limit-20 {
				t.Errorf("%s: only %d bytes of %d", name, len(got), limit)
			}
		}
		must.Equal(t, IssueURL(template, "a", "b", maxIssueURL), strings.NewReplacer("{title}", "a", "{body}", "b").Replace(template), "%s", name)
	}
	if got := IssueURL(trackers["GitHub"], strings.Repeat("é", 1000), body, 400); len(got) > 400 || !strings.HasSuffix(got, "&body=&labels=llmtap") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	must.Equal(t, IssueURL("", "a", "b", maxIssueURL), "", "without a template")
}

func TestCheckIssueURL(t *testing.T) {
	f := func(template, want string) {
		t.Helper()
		must.Equal(t, fmt.Sprint(CheckIssueURL(template)), want, "%s", template)
	}
	f("javascript:alert(1)?{title}", "is not an http or https URL")
	f("github.com/acme/issues/new?title={title}", "is not an http or https URL")
	f("https://x:%zz?title={title}", "is not a URL")
	f("https://me:secret@example.com/?title={title}", "contains a user name or password, which everyone who reads a message would see")
	f("https://example.com/new", "has no {title} after its question mark")
	f("https://example.com/{body}?title={title}", "has {title} or {body} outside of its parameters")
	f("https://example.com/?title={title}#{body}", "has {title} or {body} outside of its parameters")
	f("https://example.com/?title={title}&x="+strings.Repeat("x", 500), "is longer than 500 bytes")
}

// An issue names what fails, why and where, and no text of a caller becomes a link, a mention or HTML in it.
func TestIssue(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 2, 0, 0, time.UTC)
	a := alerts.Alert{
		Name: "StageFailureRate", State: alerts.Firing, StartsAt: at,
		Labels: map[string]string{"service": "checkout-agent", "stage": "planner", "severity": "critical"},
		Evidence: alerts.Evidence{
			Window: 10 * time.Minute, Failed: 52, Calls: 116, Shares: []alerts.Share{{
				Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 52, Fix: "Save @all of [it](http://x) <b>.",
			}},
			Example: &analyzer.Example{Conversation: "order`7\n", Message: 3, Rule: "orphan_tool_reply", ErrorText: "the user's secret", Summary: "secret", Evidence: "secret"},
		},
	}
	title, body := Issue(alerts.Access{ExternalURL: "https://llmtap.example.com", URL: "https://llmtap.example.com"}, &alerts.Group{}, &a)
	const want = "- **What:** 52 of 116 calls failed (45%)\n" +
		"- **Why:** assistant message saved without its tool\\_calls (root cause `tool_calls_dropped_on_save`)\n" +
		"- **Fix:** Save \\@all of \\[it\\](http://x) \\<b\\>.\n"
	if title != "checkout-agent/planner: assistant message saved without its tool_calls" || !strings.HasPrefix(body, want) {
		t.Errorf("%s\n%s\nwant\n%s", title, body, want)
	}
	for _, part := range []string{"- **Details:** https://llmtap.example.com/incident/" + a.ID(), "- **Since:** 2026-11-21 08:02 UTC", "- **Example:** `order 7 `, `messages[3]`, rule `orphan_tool_reply`", "```sh\nllmtap query causes"} {
		must.Contain(t, body, part)
	}
	if strings.Contains(body, "secret") {
		t.Error(body)
	}
	title, body = Issue(alerts.Access{}, &alerts.Group{}, &alerts.Alert{Name: "Watchdog", Annotations: map[string]string{"summary": "it works", "runbook": "Rest."}, StartsAt: at})
	if title != "Watchdog: it works" || body != "- **What:** it works\n- **Next:** Rest.\n- **Since:** 2026-11-21 08:02 UTC\n" {
		t.Errorf("%s\n%s", title, body)
	}
}
