package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
)

// RoundTrip calls f without a connection, so that time may be synthetic.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	f.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// newFake returns a Slack API without a network, and its notifier.
func newFake(t *testing.T) (*fake, Config) {
	t.Helper()
	return &fake{t: t}, Config{Token: "xoxb-test", Channel: "C123", APIURL: "http://slack.test/api"}
}

func notifierOf(t *testing.T, f *fake, cfg Config, store alerts.Store, logger *slog.Logger) *Notifier {
	t.Helper()
	list, err := cfg.Receivers(alerts.NotifierOptions{Store: store, Logger: logger, Client: &http.Client{Transport: f, Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return list[0].Notifier.(*Notifier)
}

// lines counts log lines.
type lines struct {
	slog.Handler
	n *atomic.Int64
}

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l lines) Handle(_ context.Context, _ slog.Record) error {
	l.n.Add(1)
	return nil
}

// stageOf returns the labels of stage i.
func stageOf(i int) map[string]string {
	return map[string]string{"service": "checkout", "environment": "prod", "stage": fmt.Sprintf("stage-%03d.", i), "service_version": "1"}
}

// A fleet is an engine of which many stages fail, and its Slack.
type fleet struct {
	t    *testing.T
	e    *alerts.Engine
	log  lines
	slow time.Duration // longest duration of Add
	sec  int64
	n    int // stages
}

// With fold, a storm is a summary.
func newFleet(t *testing.T, n int, f *fake, cfg Config, fold bool) (*fleet, func()) {
	t.Helper()
	log := lines{slog.DiscardHandler, new(atomic.Int64)}
	store := &alertstest.Store{}
	c := alerts.Default()
	c.EvaluationInterval, c.RuleFiles = 30*time.Second, []string{"../rules/stage_failure_rate.yaml"}
	var notifier alerts.Paced = notifierOf(t, f, cfg, store, slog.New(log))
	if !fold {
		notifier = struct{ alerts.Paced }{notifier}
	}
	e, err := alerts.New(t.Context(), c, alerts.Options{Notifiers: []alerts.Notifier{notifier}, Store: store, Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- e.Run(ctx) }()
	return &fleet{t: t, n: n, e: e, log: log, sec: time.Now().Unix() / 600 * 600}, func() {
		cancel()
		if err := errors.Join(<-stopped, e.Close()); err != nil {
			t.Error(err)
		}
	}
}

// pass lets d pass, in which the stages for which failing returns true fail; the others succeed.
func (w *fleet) pass(d time.Duration, failing func(i int) bool) {
	w.t.Helper()
	for range d / (10 * time.Minute) {
		out := &analyzer.Tally{Second: w.sec + 599}
		for i := range w.n {
			n := uint64(0)
			if failing(i) {
				n = 30
			}
			out.Counts = append(out.Counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: stageOf(i), N: 50})
			if n > 0 {
				kv := stageOf(i)
				kv["status"], kv["cause"], kv["root_cause"] = "400", "orphan_tool_reply", ""
				out.Counts = append(out.Counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: kv, N: n})
			}
		}
		began := time.Now()
		if err := w.e.Add(w.t.Context(), out); err != nil {
			w.t.Fatal(err)
		}
		w.slow = max(w.slow, time.Since(began))
		w.sec += 600
		time.Sleep(10 * time.Minute)
		synctest.Wait()
	}
}

// After an hour in which Slack accepts nothing, and in which each group would be a message of its own, everything that still fires is told, what ended meanwhile is not posted as new,
// and a message from before shows the end. There are few calls and log lines meanwhile.
func TestHourWithoutSlack(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates five hours")
	}
	answer := func(status int, header http.Header, body string) func(string, int) (int, http.Header, string, bool) {
		return func(string, int) (int, http.Header, string, bool) { return status, header, body, false }
	}
	for _, tc := range []struct {
		name   string
		groups int
		calls  int
		answer func(method string, n int) (int, http.Header, string, bool)
		hang   time.Duration
	}{
		{"429", 100, 250, answer(429, http.Header{"Retry-After": {"30"}}, ""), 0},
		{"503", 100, 80, answer(503, nil, "<html>"), 0},
		{"hanging", 100, 80, answer(200, nil, ""), time.Minute},
		{"token_revoked", 100, 70, answer(200, nil, `{"ok":false,"error":"token_revoked"}`), 0},
		{"channel_not_found", 100, 70, answer(200, nil, `{"ok":false,"error":"channel_not_found"}`), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, cfg := newFake(t)
				w, stop := newFleet(t, tc.groups, f, cfg, false)
				defer stop()
				before := func(i int) bool { return i < 10 }
				w.pass(10*time.Minute, before)
				if n := len(f.top()); n != 10 {
					t.Fatalf("%d messages before, want 10", n)
				}
				f.mu.Lock()
				f.answer, f.hang = tc.answer, tc.hang
				f.mu.Unlock()
				calls, logged := len(f.calls), w.log.n.Load()
				w.pass(20*time.Minute, func(int) bool { return true })
				still := func(i int) bool { return i < 5 || i >= 30 }
				w.pass(40*time.Minute, still)
				calls, logged = len(f.calls)-calls, w.log.n.Load()-logged
				t.Logf("%d calls, %d log lines in an hour", calls, logged)
				if calls > tc.calls || calls < 10 {
					t.Errorf("%d calls in an hour, want at most %d", calls, tc.calls)
				}
				if logged > 20 || logged == 0 {
					t.Errorf("%d log lines in an hour", logged)
				}
				if w.slow > 0 {
					t.Errorf("an evaluation took %v", w.slow)
				}
				if n := len(w.e.Groups()); n > tc.groups {
					t.Errorf("%d open groups", n)
				}
				f.mu.Lock()
				f.answer, f.hang = nil, 0
				f.mu.Unlock()
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				top := f.top()
				for i := range tc.groups {
					var shown []string
					for _, m := range top {
						if strings.Contains(m.Text, fmt.Sprintf("stage-%03d.", i)) {
							shown = append(shown, strings.Fields(plainText(m.Text))[1])
						}
					}
					want := []string{"CRITICAL"}
					switch {
					case i >= 5 && i < 10:
						want = []string{"RESOLVED"}
					case i >= 10 && i < 30:
						want = nil
					}
					if !slices.Equal(shown, want) {
						t.Errorf("stage %d: messages %v, want %v", i, shown, want)
					}
				}
			})
		})
	}
}

// A channel has one rate limit, whether it is configured by name or by id, and before and after the first post.
func TestLimitOfChannel(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Channel, cfg.Routes = "C123", []Route{{Match: []string{`service="other"`}, Channel: "#alerts"}}
	n := newNotifier(t, cfg, &alertstest.Store{})
	other := incident()
	other.Labels = map[string]string{"service": "other", "severity": "critical"}
	b := group(other)
	b.Key = "b"
	notify(t, n, group(incident()))
	notify(t, n, b)
	f.mu.Lock()
	f.answer = func(method string, _ int) (int, http.Header, string, bool) {
		if method == "chat.postMessage" {
			return 429, http.Header{"Retry-After": {"60"}}, "", false
		}
		return 0, nil, "", false
	}
	f.mu.Unlock()
	posts := func() (n int) {
		for _, m := range f.calls {
			if m == "chat.postMessage" {
				n++
			}
		}
		return n
	}
	for _, g := range []alerts.Group{group(incident()), b} {
		for i := range g.Alerts {
			g.Alerts[i].State, g.Alerts[i].EndsAt = alerts.Resolved, t0.Add(time.Minute)
		}
		if err := n.Notify(t.Context(), g); err == nil {
			t.Error("no error")
		}
	}
	if got := posts(); got != 3 {
		t.Errorf("%d posts, want none after the rate limit of the channel", got-2)
	}
}

// A message in doubt is found even if many others were posted since.
func TestFindOnLaterPage(t *testing.T) {
	f, cfg := newSlack(t)
	cfg.Channel = "C123"
	f.answer = func(method string, n int) (int, http.Header, string, bool) {
		switch {
		case n == 0:
			return 503, nil, "", true
		case method == "conversations.history" && n == 1:
			return 200, nil, `{"ok":true,"messages":[{"type":"message","ts":"1.0"}],"has_more":true,"response_metadata":{"next_cursor":"x"}}`, false
		case method == "conversations.history" && n == 2:
			return 429, http.Header{"Retry-After": {"60"}}, "", false
		}
		return 0, nil, "", false
	}
	n := newNotifier(t, cfg, &alertstest.Store{})
	for range 3 {
		if err := n.Notify(t.Context(), group(incident())); err == nil {
			t.Error("no error")
		}
	}
	if got := len(f.calls); got != 3 {
		t.Errorf("%d calls, want none during the limit: %v", got, f.calls)
	}
	clear(n.limited)
	notify(t, n, group(incident()))
	if m := f.top(); len(m) != 1 || m[0].Edits != 1 {
		t.Errorf("%+v, want the message found", m)
	}
}
