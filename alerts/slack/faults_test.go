package slack

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
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

func notifierOf(t *testing.T, api http.RoundTripper, cfg Config, store alerts.Store, logger *slog.Logger) *Notifier {
	t.Helper()
	list := must.Get(cfg.Receivers(alerts.NotifierOptions{Store: store, Logger: logger, Client: &http.Client{Transport: api, Timeout: 10 * time.Second}}))(t)
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

// stageOf returns the labels of stage i, one of 50 services.
func stageOf(i int) map[string]string {
	return map[string]string{"service": fmt.Sprintf("service-%02d", i%50), "environment": "prod", "stage": fmt.Sprintf("stage-%03d.", i), "service_version": "1"}
}

// countsOf returns the counts of a stage with these labels.
func countsOf(kv map[string]string, calls, failed uint64) []analyzer.Count {
	out := []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: kv, N: calls}}
	if failed > 0 {
		kv = maps.Clone(kv)
		kv["status"], kv["cause"], kv["root_cause"] = "400", "orphan_tool_reply", ""
		out = append(out, analyzer.Count{Metric: analyzer.MetricFailed, Labels: kv, N: failed})
	}
	return out
}

// A named Notifier is one as the engine of a collector has it; unfolded is one to which each group is a message of its own.
type (
	named    struct{ *Notifier }
	unfolded struct{ alerts.Paced }
)

func (named) Name() string    { return "slack" }
func (unfolded) Name() string { return "slack" }

// A fleet is an engine of which many stages fail, and its Slack.
type fleet struct {
	t    *testing.T
	e    *engine.Engine
	slk  *Notifier
	f    *fake
	reg  *prometheus.Registry
	log  lines
	slow time.Duration // longest duration of Add
	sec  int64
	n    int // stages
}

// told returns what people are told about each stage: CRITICAL or RESOLVED, once for each message that says so.
func (w *fleet) told() [][]string {
	w.t.Helper()
	out, at := make([][]string, w.n), map[string]int{}
	for i := range w.n {
		kv := stageOf(i)
		at[alerts.GroupID(engine.ProblemKey(kv, engine.Default().GroupBy, "orphan_tool_reply"))] = i
	}
	for _, m := range w.f.top() {
		if stage := stageName.FindStringSubmatch(m.Text); stage != nil {
			i, _ := strconv.Atoi(stage[1])
			out[i] = append(out[i], strings.Fields(plainText(m.Text))[1])
			continue
		}
		k := slices.IndexFunc(w.slk.summaries.slots[:], func(s *summary) bool { return s != nil && s.TS == m.TS })
		if k < 0 {
			w.t.Fatalf("a message about nothing that is stored: %q", m.Text)
		}
		s := w.slk.summaries.slots[k]
		if want := s.render(w.slk.access).text; m.Text != want && !strings.HasSuffix(m.Text, " "+want) { // a mention precedes it
			w.t.Errorf("a summary says %q, but its groups are: %q", m.Text, want)
		}
		for _, x := range s.Members {
			state := "RESOLVED"
			if x.Firing {
				state = "CRITICAL"
			}
			out[at[x.Group]] = append(out[at[x.Group]], state)
		}
	}
	return out
}

var stageName = regexp.MustCompile(`stage-(\d{3})\.`)

// metric returns the value of a metric of the engine, of all its labels together.
func (w *fleet) metric(name string) (sum float64) {
	w.t.Helper()
	families := must.Get(w.reg.Gather())(w.t)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// With fold, a storm is a summary.
func newFleet(t *testing.T, stages int, f *fake, cfg Config, fold bool) *fleet {
	t.Helper()
	log := lines{slog.DiscardHandler, new(atomic.Int64)}
	store := &alertstest.Store{}
	c := engine.Default()
	c.EvaluationInterval, c.RuleFiles = time.Minute, []string{"../rules/stage_failure_rate.yaml"}
	n, reg := notifierOf(t, f, cfg, store, slog.New(log)), prometheus.NewRegistry()
	var receiver alerts.Notifier = named{n}
	if !fold {
		receiver = unfolded{n}
	}
	e := enginetest.New(t, c, engine.Options{Notifiers: []alerts.Notifier{receiver}, Store: store, Logger: slog.New(log), Registerer: reg})
	must.Run(t, e.Run)
	return &fleet{t: t, n: stages, e: e, slk: n, f: f, reg: reg, log: log, sec: time.Now().Unix() / 600 * 600}
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
			out.Counts = append(out.Counts, countsOf(stageOf(i), 50, n)...)
		}
		began := time.Now()
		must.Do(w.t, w.e.Add(w.t.Context(), out))
		w.slow = max(w.slow, time.Since(began))
		w.sec += 600
		time.Sleep(10 * time.Minute)
		synctest.Wait()
	}
}

// After an hour in which Slack accepts nothing, people are told of everything that still fires, once; what ended meanwhile is not posted
// as new, and what they were told before shows its end. There are few calls and log lines meanwhile, and llmtap says what is wrong.
func TestHourWithoutSlack(t *testing.T) {
	slowtest.Skip(t)
	answer := func(status int, header http.Header, body string, stored bool) func(string, int) (int, http.Header, string, bool) {
		return func(string, int) (int, http.Header, string, bool) { return status, header, body, stored }
	}
	for _, tc := range []struct {
		name   string
		calls  int // at most
		answer func(method string, n int) (int, http.Header, string, bool)
		hang   time.Duration
		err    string
	}{
		{"429", 250, answer(429, http.Header{"Retry-After": {"30"}}, "", false), 0, "rate limit"},
		{"503", 80, answer(503, nil, "<html>", false), 0, "503"},
		{"hanging", 80, answer(200, nil, "", true), time.Minute, "deadline exceeded"}, // messages are posted, and nobody knows
		{"token_revoked", 70, answer(200, nil, `{"ok":false,"error":"token_revoked"}`, false), 0, "token_revoked"},
		{"channel_not_found", 70, answer(200, nil, `{"ok":false,"error":"channel_not_found"}`, false), 0, "channel_not_found"},
	} {
		for _, fold := range []bool{false, true} {
			groups, name := 100, tc.name
			if fold {
				groups, name = 500, tc.name+"/folded"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, cfg := newFake(t)
					w := newFleet(t, groups, f, cfg, fold)
					w.hour(tc.answer, tc.hang, tc.calls, tc.err)
				})
			})
		}
	}
}

// hour lets stages fail, then Slack for an hour, and checks what people are told before and afterwards, and llmtap says meanwhile.
func (w *fleet) hour(answer func(method string, n int) (int, http.Header, string, bool), hang time.Duration, most int, reason string) {
	w.pass(10*time.Minute, func(i int) bool { return i < 10 })
	for i, got := range w.told() {
		if (i < 10) != slices.Equal(got, []string{"CRITICAL"}) {
			w.t.Fatalf("stage %d before: messages %v", i, got)
		}
	}
	w.f.mu.Lock()
	w.f.answer, w.f.hang = answer, hang
	w.f.mu.Unlock()
	calls, logged, before := len(w.f.calls), w.log.n.Load(), len(w.f.top())
	w.pass(20*time.Minute, func(int) bool { return true })
	w.pass(40*time.Minute, func(i int) bool { return i < 5 || i >= 30 })
	calls, logged = len(w.f.calls)-calls, w.log.n.Load()-logged
	if calls > most || calls < 10 {
		w.t.Errorf("%d calls in an hour, want at most %d", calls, most)
	}
	if logged > 20 || logged == 0 {
		w.t.Errorf("%d log lines in an hour", logged)
	}
	if w.slow > 0 {
		w.t.Errorf("an evaluation took %v", w.slow)
	}
	if n := len(w.e.Groups()); n > w.n {
		w.t.Errorf("%d open groups", n)
	}
	if s := w.e.Receivers()[0]; s.Waiting < w.n-30 || s.Err == nil || !strings.Contains(s.Err.Error(), reason) || time.Since(s.FailedAt) < 55*time.Minute {
		w.t.Errorf("the state of the receiver is %+v", s)
	}
	if waiting, failing, retried := w.metric("llmtap_alerts_notifications_waiting"), w.metric("llmtap_alerts_receiver_failing_seconds"), w.metric("llmtap_alerts_notifications_total"); waiting < float64(w.n-30) || failing < 3300 || retried < 10 {
		w.t.Errorf("metrics: %v waiting, failing for %v s, %v attempts", waiting, failing, retried)
	}
	w.f.mu.Lock()
	w.f.answer, w.f.hang = nil, 0
	w.f.mu.Unlock()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	for i, got := range w.told() {
		want := []string{"CRITICAL"}
		switch {
		case i >= 5 && i < 10:
			want = []string{"RESOLVED"}
		case i >= 10 && i < 30:
			want = nil
		}
		if ended := want == nil && len(got) == 1 && got[0] == "RESOLVED"; !slices.Equal(got, want) && !ended {
			w.t.Errorf("stage %d: messages %v, want %v", i, got, want)
		}
	}
	if s := w.e.Receivers()[0]; s.Waiting > 0 || s.Err != nil {
		w.t.Errorf("afterwards, the state of the receiver is %+v", s)
	}
	w.t.Logf("%d calls, %d log lines in an hour; %d messages before, %d afterwards", calls, logged, before, len(w.f.top()))
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
		must.Fail(t, n.Notify(t.Context(), g), "")
	}
	must.Equal(t, posts(), 3, "posts, none after the rate limit of the channel")
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
		must.Fail(t, n.Notify(t.Context(), group(incident())), "")
	}
	must.Equal(t, len(f.calls), 3, "calls, none during the limit: %v", f.calls)
	clear(n.limited)
	notify(t, n, group(incident()))
	if m := f.top(); len(m) != 1 || m[0].Edits != 1 {
		t.Errorf("%+v, want the message found", m)
	}
}
