package wording

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestDescription(t *testing.T) {
	f := func(s alerts.Share, want string) {
		t.Helper()
		must.Equal(t, Failure(s), want, "%+v", s)
	}
	f(alerts.Share{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save"}, "assistant message saved without its tool_calls")
	f(alerts.Share{Cause: "orphan_tool_reply", RootCause: "unknown_no_history"}, "the history contains a tool result without its tool call")
	f(alerts.Share{Cause: "auth"}, "the provider refused the credentials")
	f(alerts.Share{Cause: "auth", RootCause: "brand_new"}, "brand new")
	f(alerts.Share{Cause: "brand_new"}, "brand new")
	f(alerts.Share{Cause: "reply_never_arrived"}, "a tool call was never answered")
	f(alerts.Share{Cause: "late_tool_reply"}, "tool reply after its call's turn was closed by another message") // only a rule
	f(alerts.Share{}, "unknown cause")
}

// A root cause is never called a cause, nor a rule.
func TestKind(t *testing.T) {
	f := func(s alerts.Share, want string, rules ...string) {
		t.Helper()
		must.Equal(t, Kind(&alerts.Evidence{Rules: rules}, s), want, "%+v", s)
	}
	f(alerts.Share{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save"}, "root cause")
	f(alerts.Share{Cause: "missing_tool_reply", RootCause: "tool_skipped"}, "root cause", "missing_tool_reply")
	f(alerts.Share{Cause: "orphan_tool_reply", RootCause: "unknown_no_history"}, "cause")
	f(alerts.Share{Cause: "rate_limit"}, "cause", "masked_failure")
	f(alerts.Share{Cause: "missing_tool_reply"}, "rule", "missing_tool_reply")
	f(alerts.Share{Cause: "reply_never_arrived"}, "signal", "reply_never_arrived")
}

// The page of an alert about a problem is that of the problem, which stays when the alert ends.
func TestAlertURL(t *testing.T) {
	a := alerts.Alert{Name: "Burst", Problem: "dropped"}
	g := alerts.Group{Key: `problem{service="shop",problem="dropped"}`}
	must.Equal(t, AlertURL("https://llmtap.example.com/", &g, &a), "https://llmtap.example.com/problem/"+alerts.GroupID(g.Key), "about a problem")
	a.Problem = ""
	must.Equal(t, AlertURL("https://llmtap.example.com", &g, &a), "https://llmtap.example.com/incident/"+a.ID(), "about none")
	must.Equal(t, AlertURL("", &g, &a), "", "without an external URL")
}

func TestCounted(t *testing.T) {
	f := func(n uint64, want string, rules ...string) {
		t.Helper()
		ev := alerts.Evidence{Rules: rules}
		must.Equal(t, Counted(&ev, n), want, "%v", rules)
	}
	f(2, "calls failed")
	f(1, "call failed")
	f(1, "tool call got no reply", "reply_never_arrived")
	f(6, "tool calls got no reply", "missing_tool_reply", "reply_never_arrived")
	f(6, "findings of missing_tool_reply, retry_storm", "missing_tool_reply", "retry_storm")
	f(1, "finding of empty_content", "empty_content")
}

func TestProviderMessage(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		must.Equal(t, ProviderMessage(text), want, "%s", text)
	}
	f(`{"error":{"type":"x","message":"Say \"no\" \u2014 now"}}`, `Say "no" — now`)
	f(`[{"error": {"code": 400, "message": "cut off in the mid`, "cut off in the mid")
	f(`{"error":"invalid model"}`, "invalid model")
	f(`{"detail":"Not Found"}`, "Not Found")
	f(`{"code":17}`, `{"code":17}`)
	f(`{"message":"cut off in an escape \u20`, `{"message":"cut off in an escape \u20`)
	f(`upstream said "message": "x"`, `upstream said "message": "x"`)
	f("", "")
}

// A shell passes the commands on unchanged, whatever the names of services and conversations.
func TestCommands(t *testing.T) {
	conversation, stage := `it's $HOME "a" \n *; rm -rf / # &`, "plan & <act>"
	a := alerts.Alert{
		Labels: map[string]string{"service": "shop", "stage": stage, "environment": "prod", "model": "m"}, StartsAt: time.Date(2026, 11, 21, 9, 21, 5, 0, time.UTC),
		Evidence: alerts.Evidence{
			Window: 10 * time.Minute, Failed: 6, Rules: []string{"missing_tool_reply", "reply_never_arrived"},
			Example: &analyzer.Example{Exchange: "0193-1", Conversation: conversation},
		},
	}
	var got []string
	for _, c := range Commands(alerts.Access{URL: "http://collector-1:8088"}, &a) {
		out := must.Get(exec.CommandContext(t.Context(), "sh", "-c", "printf '%s|' "+c).Output())(t)
		got = append(got, string(out))
	}
	want := []string{
		"llmtap|show|0193-1|--url|http://collector-1:8088|",
		"llmtap|show|" + conversation + "|--url|http://collector-1:8088|",
		"llmtap|query|open_tool_calls|--service|shop|--stage|" + stage + "|--environment|prod|--since|2026-11-21T09:11:05Z|--url|http://collector-1:8088|",
	}
	must.Agree(t, cmp.Diff(want, got))
	for _, id := range []string{"", "-x", "a`b`", "two\nlines", "\x1b[2J", "gpj\u202e", "a\u200bb", "a\u2028b", "a\u00a0b", "\xff", strings.Repeat("x", MaxID+1)} {
		a.Evidence.Example = &analyzer.Example{Exchange: id}
		if got := Commands(alerts.Access{}, &a); len(got) != 1 || !strings.HasPrefix(got[0], "llmtap query") {
			t.Errorf("%q: %q", id, got)
		}
	}
}

// A problem whose cause is a guess says so.
func TestProblem(t *testing.T) {
	_, stated, _ := Problem("missing_tool_reply", false)
	_, guessed, _ := Problem("missing_tool_reply", true)
	must.Equal(t, guessed, "probably "+stated, "a guess")
}
