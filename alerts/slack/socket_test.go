package slack

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/alerts"
)

// connected starts a process with a message about the incident, and waits for its connection.
func connected(t *testing.T, change func(*socket)) (*workspace, *testControls, *process) {
	t.Helper()
	w, cfg := newWorkspace(t)
	c := &testControls{g: group(incident())}
	p := start(t, cfg, c, change)
	must.Wait(t, "connection", func() bool { return p.reports() == "works" })
	notify(t, p.n, c.group())
	return w, c, p
}

// Each button acts, its envelope is acknowledged, and the next message shows the state.
func TestPresses(t *testing.T) {
	w, c, p := connected(t, nil)
	n := 0
	press := func(by user, action, choice string) {
		t.Helper()
		n++
		id := fmt.Sprint("e", n)
		w.press(0, id, w.callback(by, action, choice, fmt.Sprintf("1700000000.%06d", n)))
		must.Wait(t, action+" acknowledged", func() bool { return w.acks(id) == 1 })
		notify(t, p.n, c.group()) // the leader edits the message
	}
	press(anna, "acknowledge", "")
	text := plainBlocks(t, []byte(w.top()[0].Blocks))
	if !strings.Contains(text, "Acknowledged by <@U0000ANNA>") || !strings.Contains(text, "[Unacknowledge]") {
		t.Errorf("acknowledged message:\n%s", text)
	}
	press(bob, "unacknowledge", "")
	press(bob, "silence", "for 4 hours")
	if text = plainBlocks(t, []byte(w.top()[0].Blocks)); !strings.Contains(text, "[Unsilence]") || strings.Contains(text, "[Silence") {
		t.Errorf("silenced message:\n%s", text)
	}
	press(anna, "unsilence", "")
	press(anna, "show_query", "")
	const key = `StageFailureRate{service="checkout-agent",environment="prod",stage="planner"}`
	want := "acknowledge " + key + " by anna (U0000ANNA, slack)\n" +
		"unacknowledge " + key + " by bob (U00000BOB, slack)\n" +
		`silence alertname="StageFailureRate" service="checkout-agent" environment="prod" stage="planner" for 4h0m0s: ` +
		"for 4 hours, from Slack by bob (U00000BOB, slack)\n" +
		"expire by anna (U0000ANNA, slack)\n" +
		"record show_query of " + key + ":  by anna (U0000ANNA, slack)"
	must.Equal(t, c.calls(), want, "calls")
	if told := w.told(); strings.Count(told, "rule StageFailureRate") != 1 || !strings.Contains(told, "llmtap show 0193-1") || !strings.Contains(told, "rate(StageFailureRate)") || strings.Contains(told, "must be a response") {
		t.Errorf("replies, want only the query, without content of calls:\n%s", told)
	}
	must.Equal(t, testutil.ToFloat64(p.s.m.presses.WithLabelValues("silence", "done")), 1, "silences counted")
	if problems, err := testutil.GatherAndLint(p.reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// A press on a message of an earlier incident of the group, or of one that has ended, changes nothing and says so.
func TestPressAfterTheEnd(t *testing.T) {
	w, c, _ := connected(t, nil)
	ack := w.callback(anna, "acknowledge", "", "1.1")
	silence := w.callback(anna, "silence", "for 1 hour", "1.2")
	next := incident()
	next.StartsAt, next.UpdatedAt = t0.Add(3*time.Hour), t0.Add(3*time.Hour)
	recorded := regexp.MustCompile(`^(refuse (acknowledge|silence) of [^\n]+: the incident has ended by (anna|bob) [^\n]*\n?)+$`)
	f := func(id, payload string, g alerts.Group) {
		t.Helper()
		c.mu.Lock()
		c.g = g
		c.mu.Unlock()
		before := w.told()
		w.press(0, id, payload)
		must.Wait(t, id, func() bool { return w.acks(id) == 1 })
		if told := strings.TrimPrefix(w.told(), before); !strings.Contains(told, "has ended") || !recorded.MatchString(c.calls()) {
			t.Errorf("%s: told %q, calls %q", id, told, c.calls())
		}
	}
	f("next", ack, group(next))
	f("resolved", silence, group(resolved()))
	g := group(incident())
	g.Key = "Other{}"
	f("gone", w.callback(bob, "acknowledge", "", "1.3"), g)
}

// Slack delivers a press again, to this process or to another one.
func TestPressTwice(t *testing.T) {
	w, c, p := connected(t, nil)
	_, cfg := newSlack(t)
	cfg.APIURL, cfg.AppToken = w.url+"/api", "xapp-1-test"
	other := start(t, cfg, c, nil)
	must.Wait(t, "connections", func() bool { return w.connections() == 2 && other.reports() == "works" })
	silence := w.callback(anna, "silence", "for 1 hour", "1.2")
	for i, conn := range []int{0, 0, 1} {
		id := fmt.Sprint("e", i)
		w.press(conn, id, silence)
		must.Wait(t, id, func() bool { return w.acks(id) == 1 })
	}
	if got := c.calls(); len(c.Silences()) != 1 || strings.Count(got, "for 1 hour, from Slack") != 2 || strings.Count(got, "the same silence") != 1 {
		t.Errorf("%d silences:\n%s", len(c.Silences()), got)
	}
	if a, b := testutil.ToFloat64(p.s.m.presses.WithLabelValues("silence", "done")), testutil.ToFloat64(other.s.m.presses.WithLabelValues("silence", "done")); a != 1 || b != 1 {
		t.Errorf("%v and %v presses", a, b)
	}
}

// An action that is not stored is reported to the person, who can press again. If the reply fails, too, Slack shows that the
// app did not respond, because the envelope is not acknowledged.
func TestPressNotStored(t *testing.T) {
	w, c, p := connected(t, nil)
	ack := w.callback(anna, "acknowledge", "", "1.1")
	set := func(err error, deaf bool) {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		w.mu.Lock()
		w.deaf = deaf
		w.mu.Unlock()
	}
	set(errDown, false)
	w.press(0, "e1", ack)
	must.Wait(t, "reply", func() bool { return w.acks("e1") == 1 })
	if told := w.told(); !strings.Contains(told, "Press again") || strings.Contains(told, "nats") || c.calls() != "" {
		t.Errorf("told %q, calls %q", told, c.calls())
	}
	set(errDown, true)
	w.press(0, "e2", ack)
	must.Wait(t, "failure", func() bool { return testutil.ToFloat64(p.s.m.presses.WithLabelValues("acknowledge", "failed")) == 2 })
	set(nil, false)
	w.press(0, "e3", ack)
	must.Wait(t, "acknowledged", func() bool { return w.acks("e3") == 1 })
	if w.acks("e2") != 0 || !strings.HasPrefix(c.calls(), "acknowledge") {
		t.Errorf("%d acknowledgements of a press that failed, calls %q", w.acks("e2"), c.calls())
	}
}

// Slack closes the connection while a press is being stored: it is stored once, and acknowledged on the next connection.
func TestDisconnectDuringPress(t *testing.T) {
	f := func(reason string, stable time.Duration) {
		t.Helper()
		w, c, p := connected(t, func(s *socket) { s.stable = stable })
		c.block = make(chan struct{})
		ack := w.callback(anna, "acknowledge", "", "1.1")
		w.press(0, "e1", ack)
		w.send(0, `{"type":"disconnect","reason":"`+reason+`","debug_info":{"host":"applink-7fc4fdbb64-4x5xq"}}`)
		must.Wait(t, "reconnect", func() bool { return get(w, func() bool { return w.connects >= 2 && len(w.conns) == 1 }) })
		w.press(0, "e2", ack) // delivered again
		if w.acks("e1") != 0 || c.calls() != "" {
			t.Errorf("%s: acknowledged before it was stored", reason)
		}
		close(c.block)
		must.Wait(t, "acknowledgements", func() bool { return w.acks("e1") == 1 && w.acks("e2") == 1 })
		got := c.calls()
		must.Equal(t, strings.Count(got, "acknowledge"), 1, "%s: calls %q", reason, got)
		must.Equal(t, p.reports(), "works", "%s: reported", reason)
		must.Wait(t, "connected", func() bool { return testutil.ToFloat64(p.s.m.connected) == 1 })
	}
	f("warning", 0)
	f("refresh_requested", 0)
	f("refresh_requested", minStable) // soon after the greeting: after a pause
}

// A connection that fails is reported and opened again; the reason is gone when it works.
func TestReconnect(t *testing.T) {
	f := func(name, want string, fail func(w *workspace, s *socket)) {
		t.Helper()
		w, cfg := newWorkspace(t)
		p := start(t, cfg, &testControls{}, func(s *socket) { fail(w, s) })
		must.Wait(t, name, func() bool { return strings.Contains(p.reports(), want) })
		if got := p.reports(); !strings.Contains(got, "buttons do not work: ") || strings.Contains(got, "ticket") || strings.Contains(got, "xapp") {
			t.Errorf("%s: %s", name, got)
		}
		if v := testutil.ToFloat64(p.s.m.connected); v != 0 && name != "closed at once" {
			t.Errorf("%s: connected is %v", name, v)
		}
		w.mu.Lock()
		w.open, w.greet = nil, true
		w.mu.Unlock()
		must.Wait(t, name+" fixed", func() bool {
			return strings.HasSuffix(p.reports(), "works") && testutil.ToFloat64(p.s.m.connected) == 1
		})
	}
	answer := func(status int, body string) func(*workspace, *socket) {
		return func(w *workspace, _ *socket) { w.open = func(int) (int, string) { return status, body } }
	}
	f("invalid token", "invalid_auth; check slack.app_token: Slack does not know it", answer(200, `{"ok":false,"error":"invalid_auth"}`))
	f("revoked token", "token_revoked; slack.app_token was revoked", answer(200, `{"ok":false,"error":"token_revoked"}`))
	f("missing scope", "missing_scope (needed: connections:write); generate an app-level token",
		answer(200, `{"ok":false,"error":"missing_scope","needed":"connections:write","provided":"authorizations:read"}`))
	f("rate limit", "rate limit", answer(http.StatusTooManyRequests, ""))
	f("error", "503", answer(http.StatusServiceUnavailable, ""))
	f("no websocket", "connection refused", answer(200, `{"ok":true,"url":"ws://127.0.0.1:1/link?ticket=secret-ticket"}`))
	f("no hello", "did not greet", func(w *workspace, s *socket) { w.greet, s.hello = false, 50*time.Millisecond })
}

// An app-level token that is revoked while the process runs is visible; posts are not affected.
func TestRevokedAppToken(t *testing.T) {
	w, c, p := connected(t, nil)
	w.mu.Lock()
	w.open = func(int) (int, string) { return 200, `{"ok":false,"error":"token_revoked"}` }
	w.mu.Unlock()
	w.closeAll()
	must.Wait(t, "report", func() bool { return strings.HasSuffix(p.reports(), "generate a new app-level token") })
	notify(t, p.n, c.group())
	if v := testutil.ToFloat64(p.s.m.connected); v != 0 || w.top()[0].Edits != 1 {
		t.Errorf("connected %v, %d edits", v, w.top()[0].Edits)
	}
}

// A connection on which nothing arrives is replaced.
func TestPingTimeout(t *testing.T) {
	w, _, _ := connected(t, func(s *socket) { s.ping, s.stable = 50*time.Millisecond, 0 })
	must.Wait(t, "second connection", func() bool { return get(w, func() int { return w.opens }) >= 2 })
}

// Frames that Slack does not send, and interactions that are not about our buttons, do no harm.
func TestUnknownFrames(t *testing.T) {
	w, c, p := connected(t, nil)
	good := w.callback(anna, "acknowledge", "", "1.1")
	value := targetOf(c.group()).String()
	element := func(action, value string) string {
		return payload(anna, "1", w.url+"/actions/x", fmt.Sprintf(`{"type":"button","action_id":%q,"value":%q,"action_ts":"1.3"}`, action, value))
	}
	for _, frame := range []string{`{`, `[]`, `"x"`, `{"type":"new"}`, `{"type":"interactive","envelope_id":"x","payload":3}`, `{"type":"interactive","envelope_id":"x"}`, "\x00"} {
		w.send(0, frame)
	}
	for i, body := range []string{
		element("open_link", ""), element("llmtap_acknowledge", ""), element("llmtap_acknowledge", "x.y"), element("llmtap_delete", value),
		element("llmtap_acknowledge", value+".1h; DROP"), strings.ReplaceAll(element("llmtap_acknowledge", value), anna.id, "<!channel>"),
		`{"type":"view_submission","user":{"id":"U1"},"view":{"id":"V1"}}`, `{"type":"block_actions"}`,
	} {
		id := fmt.Sprint("ignored", i)
		w.press(0, id, body)
		must.Wait(t, id, func() bool { return w.acks(id) == 1 })
	}
	if c.calls() != "" || w.told() != "" {
		t.Errorf("calls %q, told %q", c.calls(), w.told())
	}
	w.press(0, "good", good)
	must.Wait(t, "good press", func() bool { return w.acks("good") == 1 })
	if !strings.HasPrefix(c.calls(), "acknowledge") || p.reports() != "works" {
		t.Errorf("calls %q, reports %q", c.calls(), p.reports())
	}
}

// The queue of presses is bounded, and a press beyond it is counted and not acknowledged.
func TestTooManyPresses(t *testing.T) {
	w, c, p := connected(t, nil)
	c.block = make(chan struct{})
	ack := w.callback(anna, "acknowledge", "", "1.1")
	for i := range maxQueue + 10 {
		w.press(0, fmt.Sprint("e", i), ack)
	}
	must.Wait(t, "dropped presses", func() bool { return testutil.ToFloat64(p.s.m.presses.WithLabelValues("acknowledge", "dropped")) >= 9 })
	close(c.block)
	must.Wait(t, "acknowledgements", func() bool { return get(w, func() int { return len(w.acked) }) >= maxQueue })
	if got := c.calls(); strings.Count(got, "acknowledge") != 1 || p.reports() != "works" {
		t.Errorf("calls %q, reports %q", got, p.reports())
	}
}

// A process that stops completes the press in progress.
func TestStopDuringPress(t *testing.T) {
	w, cfg := newWorkspace(t)
	c := &testControls{g: group(incident()), block: make(chan struct{})}
	t.Run("process", func(t *testing.T) {
		p := start(t, cfg, c, nil)
		must.Wait(t, "connection", func() bool { return p.reports() == "works" })
		notify(t, p.n, c.group())
		w.press(0, "e1", w.callback(anna, "acknowledge", "", "1.1"))
		must.Wait(t, "press", func() bool { return c.waiting.Load() == 1 })
		time.AfterFunc(50*time.Millisecond, func() { close(c.block) })
	})
	if c.calls() == "" {
		t.Error("the press is lost")
	}
}
