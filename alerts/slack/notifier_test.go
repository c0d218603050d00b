package slack

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newNotifier(t *testing.T, cfg Config, store alerts.Store) *Notifier {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	list := must.Get(cfg.Receivers(alerts.NotifierOptions{Store: store, Client: &http.Client{Transport: tr, Timeout: 500 * time.Millisecond}}))(t)
	return list[0].Notifier.(*Notifier)
}

func notify(t *testing.T, n *Notifier, g alerts.Group) {
	t.Helper()
	must.Do(t, n.Notify(t.Context(), g))
}

// One incident is one message, with news in its thread, also across a restart.
func TestMessageLifecycle(t *testing.T) {
	f, cfg := newSlack(t)
	store := &alertstest.Store{}
	n := newNotifier(t, cfg, store)
	warning := incident()
	warning.Labels = map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "severity": "warning"}
	notify(t, n, group(warning))
	if m := f.top(); len(m) != 1 || !strings.Contains(m[0].Text, "WARNING checkout-agent/planner") ||
		!strings.Contains(string(m[0].Metadata), `"event_type":"llmtap_alert"`) || !strings.Contains(m[0].Blocks, `"type":"header"`) {
		t.Fatalf("posted %+v", m)
	}
	notify(t, n, group(warning)) // unchanged: an edit without news
	over := warning
	over.State, over.EndsAt = alerts.Resolved, t0.Add(time.Minute)
	critical := incident()
	critical.StartsAt, critical.UpdatedAt = t0.Add(time.Minute), t0.Add(time.Minute)
	notify(t, n, group(over, critical))

	n = newNotifier(t, cfg, store)
	now := later()
	now.StartsAt = critical.StartsAt
	notify(t, n, group(over, now))
	g := group(over, now)
	g.Repeat = true
	notify(t, n, g)
	end := resolved()
	end.StartsAt = critical.StartsAt
	notify(t, n, group(over, end))
	notify(t, n, group(over, end)) // sent again after a crash

	if m := f.top(); len(m) != 1 || m[0].Edits != 6 || !strings.Contains(m[0].Text, "RESOLVED") {
		t.Errorf("%d messages, want one with 6 edits, resolved: %+v", len(m), m)
	}
	var got []string
	for _, m := range f.thread() {
		got = append(got, plainText(m.Text))
	}
	want := []string{
		"🔴 Now CRITICAL: 43 of 98 calls failed (44%)",
		"New cause: 30 of 412: a tool call in the history has no reply directly after it (cause missing_tool_reply)",
		"🔔 Still firing after 14 min: CRITICAL checkout-agent/planner: 412 of 1,030 calls failed (40%)",
		"Last failure 09:33:45 UTC, none since in 80 calls",
		"🟢 Resolved after 1 h 5 min: 412 of 1,030 calls failed at the peak (40%)",
		"Last failure 09:33:45 UTC, none since in 80 calls",
	}
	must.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"), "thread")
	if r := f.thread()[2]; !r.Broadcast {
		t.Error("the reminder is not shown in the channel")
	}

	// The next incident of the same group is a new message.
	next := incident()
	next.StartsAt, next.UpdatedAt = t0.Add(3*time.Hour), t0.Add(3*time.Hour)
	notify(t, n, group(next))
	must.Equal(t, len(f.top()), 2, "messages after a second incident")
}

// Several alerts about one problem are one message and one thread, in which nothing is said twice. It is not resolved while one of
// them fires.
func TestAlertsOfAProblem(t *testing.T) {
	f, cfg := newSlack(t)
	n := newNotifier(t, cfg, &alertstest.Store{})
	alert := func(a alerts.Alert, name, severity string) alerts.Alert {
		a.Name, a.Problem = name, "tool_calls_dropped_on_save"
		a.Labels = maps.Clone(a.Labels)
		a.Labels["severity"] = severity
		return a
	}
	lines := 0
	show := func(message, thread string, list ...alerts.Alert) {
		t.Helper()
		notify(t, n, group(list...))
		must.Contain(t, plainBlocks(t, []byte(f.top()[0].Blocks)), message)
		var got []string
		for _, m := range f.thread()[lines:] {
			got = append(got, plainText(m.Text))
		}
		lines = len(f.thread())
		must.Equal(t, strings.Join(got, "\n"), thread, "thread")
	}
	burst := alert(incident(), "BadRequestBurst", "warning")
	rate := alert(incident(), "StageFailureRate", "critical")
	storm := alert(incident(), "RetryStorm", "warning")
	storm.StartsAt = t0.Add(-time.Minute)
	show("WARNING", "", burst)
	show("CRITICAL", "🔴 CRITICAL checkout-agent/planner: 43 of 98 calls failed (44%)", burst, rate)
	show("Since 2026-11-21 09:20 UTC", "🟠 Also RetryStorm: 43 of 98 calls failed (44%)", burst, rate, storm)
	worse := func(a alerts.Alert) alerts.Alert { return alert(later(), a.Name, a.Labels["severity"]) }
	show("412 of 1,030", "New cause: 30 of 412: a tool call in the history has no reply directly after it (cause missing_tool_reply)", worse(burst), worse(rate), storm)
	over := func(a alerts.Alert) alerts.Alert { return alert(resolved(), a.Name, a.Labels["severity"]) }
	show("⚪ StageFailureRate: 412 of 1,030 calls failed at the peak (40%)",
		"⚪ StageFailureRate ended after 1 h 5 min; the problem goes on: WARNING checkout-agent/planner: 412 of 1,030 calls failed (40%)", worse(burst), over(rate), storm)
	show("RESOLVED", "🟢 Resolved after 1 h 6 min: 412 of 1,030 calls failed at the peak (40%)\nLast failure 09:33:45 UTC, none since in 80 calls", over(burst), over(rate), func() alerts.Alert {
		storm := over(storm)
		storm.StartsAt = t0.Add(-time.Minute)
		return storm
	}())
	must.Equal(t, len(f.top()), 1, "messages")
}

func TestTwoAlertsInAThread(t *testing.T) {
	f, cfg := newSlack(t)
	n := newNotifier(t, cfg, nil)
	notify(t, n, group(incident()))
	notify(t, n, group(incident(), second()))
	done := second()
	done.State, done.EndsAt = alerts.Resolved, done.StartsAt.Add(10*time.Minute)
	notify(t, n, group(incident(), done))
	var got []string
	for _, m := range f.thread() {
		got = append(got, plainText(m.Text))
	}
	want := "🟠 WARNING checkout-agent/总结 <!channel> x: 6 of 50 calls failed (12%)\n" +
		"🟢 checkout-agent/总结 <!channel> x: Resolved after 10 min: 6 of 50 calls failed at the peak (12%)"
	must.Equal(t, strings.Join(got, "\n"), want, "thread")
}

// Slack stored the message, but its response was lost.
func TestPostInDoubt(t *testing.T) {
	lost := func(f *fake) func(string, int) (int, http.Header, string, bool) {
		return func(method string, n int) (int, http.Header, string, bool) {
			if method == "chat.postMessage" && n == 0 {
				return 503, nil, "<html>", true
			}
			return 0, nil, "", false
		}
	}
	run := func(t *testing.T, channel string, hang time.Duration, want int) {
		f, cfg := newSlack(t)
		f.answer, f.hang, cfg.Channel = lost(f), hang, channel
		store := &alertstest.Store{}
		err := newNotifier(t, cfg, store).Notify(t.Context(), group(incident()))
		if _, ok := errors.AsType[*alerts.RetryError](err); !ok {
			t.Fatalf("got %v, want a RetryError", err)
		}
		n := newNotifier(t, cfg, store) // and the process restarted
		notify(t, n, group(incident()))
		notify(t, n, group(resolved()))
		m := f.top()
		if len(m) != want || !strings.Contains(m[len(m)-1].Text, "RESOLVED") {
			t.Errorf("%d messages, want %d, the last resolved: %v", len(m), want, f.calls)
		}
	}
	t.Run("found", func(t *testing.T) { run(t, "C123", 0, 1) })
	t.Run("found after a timeout", func(t *testing.T) { run(t, "C123", time.Minute, 1) })
	t.Run("not permitted", func(t *testing.T) { run(t, "#alerts", 0, 2) })
}

func TestErrors(t *testing.T) {
	f := func(name string, status int, header http.Header, body string, retry bool, after time.Duration, want string) {
		t.Helper()
		s, cfg := newSlack(t)
		s.answer = func(string, int) (int, http.Header, string, bool) { return status, header, body, false }
		err := newNotifier(t, cfg, &alertstest.Store{}).Notify(t.Context(), group(incident()))
		var later *alerts.RetryError
		if err == nil || errors.As(err, &later) != retry || retry && later.After.Round(time.Second) != after || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (retry %v), want %q, retry %v after %v", name, err, later, want, retry, after)
		}
	}
	f("429", 429, http.Header{"Retry-After": {"17"}}, "", true, 17*time.Second, "17s")
	f("429 without a time", 429, nil, "", true, 0, "429")
	f("503", 503, nil, "<html>", true, 0, "503")
	f("not Slack", 200, nil, "<html>", true, 0, "invalid character")
	f("no message", 200, nil, `{"ok":true}`, true, 0, "names no message")
	f("internal_error", 200, nil, `{"ok":false,"error":"internal_error"}`, true, 0, "internal_error")
	f("ratelimited", 200, nil, `{"ok":false,"error":"ratelimited"}`, true, 0, "ratelimited")
	f("invalid_auth", 200, nil, `{"ok":false,"error":"invalid_auth"}`, true, time.Minute, "check slack.token")
	f("not_in_channel", 200, nil, `{"ok":false,"error":"not_in_channel"}`, true, time.Minute, "invite the app")
	f("missing_scope", 200, nil, `{"ok":false,"error":"missing_scope","needed":"chat:write"}`, true, time.Minute, "(needed: chat:write); give the app")
	f("unknown code", 200, nil, `{"ok":false,"error":"msg_too_long"}`, false, 0, "msg_too_long")
	f("404", 404, nil, "", false, 0, "check slack.api_url")
}

// After a rate limit there is no doubt and no search; the next attempt posts once, when the limit has ended.
func TestRetryAfterRateLimit(t *testing.T) {
	f, cfg := newSlack(t)
	f.answer = func(_ string, n int) (int, http.Header, string, bool) {
		if n == 0 {
			return 429, http.Header{"Retry-After": {"1"}}, "", false
		}
		return 0, nil, "", false
	}
	n := newNotifier(t, cfg, &alertstest.Store{})
	if err := n.Notify(t.Context(), group(incident())); err == nil {
		t.Fatal("no error")
	}
	var later *alerts.RetryError
	if err := n.Notify(t.Context(), group(incident())); !errors.As(err, &later) || later.After <= 0 || later.After > time.Second || len(f.calls) != 1 {
		t.Errorf("immediately: %v, %d calls", err, len(f.calls))
	}
	n.limited["chat.postMessage #alerts"] = time.Now() // a second later
	notify(t, n, group(incident()))
	must.Equal(t, strings.Join(f.calls, " "), "chat.postMessage chat.postMessage", "calls")
}

// A Slack without containers shows the details below the summary; if it rejects other blocks, too, it shows the text.
func TestBlocksRejected(t *testing.T) {
	f, cfg := newSlack(t)
	rejected := 1
	f.answer = func(_ string, n int) (int, http.Header, string, bool) {
		if n < rejected {
			return 200, nil, `{"ok":false,"error":"invalid_blocks"}`, false
		}
		return 0, nil, "", false
	}
	n := newNotifier(t, cfg, nil)
	notify(t, n, group(incident()))
	if m := f.top(); len(m) != 1 || strings.Contains(m[0].Blocks, "container") || !strings.Contains(m[0].Blocks, "*Whose change*") {
		t.Errorf("%+v, want blocks without containers", m)
	}
	notify(t, n, group(later()))
	if m := f.top(); len(m) != 1 || strings.Contains(m[0].Blocks, "container") {
		t.Errorf("%+v, want an edit without containers in one call", m)
	}
	rejected = len(f.calls) + 2 // the second message needs three calls
	notify(t, newNotifier(t, cfg, nil), group(incident()))
	if m := f.top(); len(m) != 2 || !strings.Contains(m[1].Text, "43 of 98") || strings.Contains(m[1].Blocks, "header") {
		t.Errorf("%+v, want only the text", m)
	}
}

func TestMessageDeleted(t *testing.T) {
	f, cfg := newSlack(t)
	n := newNotifier(t, cfg, &alertstest.Store{})
	notify(t, n, group(incident()))
	f.mu.Lock()
	f.messages = nil
	f.mu.Unlock()
	notify(t, n, group(later()))
	if m := f.top(); len(m) != 1 || !strings.Contains(m[0].Text, "412 of 1,030") {
		t.Errorf("%+v, want a new message", m)
	}
}

func TestConfig(t *testing.T) {
	f := func(c Config, want string) {
		t.Helper()
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	ok := Default()
	ok.Token, ok.Channel = "xoxb-1", "C1"
	f(ok, "")
	f(Default(), "")
	f(Config{Channel: "C1", APIURL: ok.APIURL}, "token, token_file: set one of them")
	c := ok
	c.TokenFile = "/run/secrets/slack"
	f(c, "token, token_file: both are set")
	c = ok
	c.Channel = ""
	f(c, "channel: is empty")
	c = ok
	c.APIURL = "slack.com"
	f(c, `api_url: is not an http or https URL`)
	c = ok
	c.AppToken, c.Allowed = "xapp-1", []string{"U0000000001", "W0000000001", "S0000000001"}
	f(c, "")
	c.AppTokenFile = "/run/secrets/slack"
	f(c, "app_token, app_token_file: both are set")
	c = ok
	c.Allowed = []string{"U0000000001"}
	f(c, "allowed: has no effect without buttons")
	c.AppToken, c.Allowed = "xapp-1", []string{"U0000000001", "#oncall"}
	f(c, `allowed[1]: "#oncall" is not the id of a user`)
	f(Config{AppToken: "xapp-1", APIURL: ok.APIURL}, "token, token_file: set one of them")
	c = ok
	c.AppToken = "xoxb-2"
	must.Fail(t, must.Err(c.Receivers(alerts.NotifierOptions{})), "app_token: is not an app-level token", "bot token as app token")

	file := filepath.Join(t.TempDir(), "token")
	c = ok
	c.Token, c.TokenFile = "", file
	must.Fail(t, must.Err(c.Receivers(alerts.NotifierOptions{})), "token_file", "absent token file")
	for content, want := range map[string]string{" \n": "is empty", "xoxb-2\n": ""} {
		must.Do(t, os.WriteFile(file, []byte(content), 0o600))
		if _, err := c.Receivers(alerts.NotifierOptions{}); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("token file %q: %v, want %q", content, err, want)
		}
	}
}
