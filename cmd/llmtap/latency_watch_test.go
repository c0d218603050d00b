package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/webhook"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	fleetslack "github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A failingStage is an expected alert with the times of its observation, by this machine's clock.
type failingStage struct {
	service, stage string

	crossed  time.Time // before the response that crosses the threshold was published
	streamed time.Time // when that response was stored in the stream
	counted  time.Time // when the tally with it arrived
	stored   time.Time // when the intent to notify was stored, after evaluation
	step     int64     // evaluated Unix second
	slack    time.Time // when the first post with the alert was accepted
	folded   bool      // that post was a summary
	webhook  time.Time
}

func (s *failingStage) String() string { return s.service + "/" + s.stage }

func newFailingStages(n int) (all []*failingStage) {
	names := []string{"planner", "router", "critic", "summary"}
	for i := range n {
		all = append(all, &failingStage{service: fmt.Sprintf("fleet-%02d", i%loadServices), stage: fmt.Sprint(names[i/loadServices%4], i/loadServices/4)})
	}
	return all
}

// An alertWatch is a Slack and a webhook that record notifications, and an observer of what the collector stores.
type alertWatch struct {
	slackURL, webhookURL string
	limits               *slackLimits

	mu       sync.Mutex // guards the rest, and the stages
	stages   []*failingStage
	crossing map[string]*failingStage // by exchange
	tallies  []tallySeen
	others   map[string]int // unexpected alerts by name
	unsigned int
}

// A tallySeen is when the tally of a second arrived, and so all earlier ones.
type tallySeen struct {
	second int64
	at     time.Time
}

func newAlertWatch(t *testing.T, stages []*failingStage) *alertWatch {
	t.Helper()
	w := &alertWatch{stages: stages, others: map[string]int{}, crossing: map[string]*failingStage{}}
	w.limits = newSlackLimits(fleetslack.New(fleetslack.Config{Channels: []string{"oncall"}, OnPost: w.posted}))
	slackServer, hook := httptest.NewServer(w.limits), httptest.NewServer(http.HandlerFunc(w.hooked))
	t.Cleanup(slackServer.Close)
	t.Cleanup(hook.Close)
	w.slackURL, w.webhookURL = slackServer.URL, hook.URL
	return w
}

// listen observes the tallies and the stored alerts of the collector.
func (w *alertWatch) listen(t *testing.T, natsURL string) {
	t.Helper()
	nc, err := nats.Connect(natsURL, nats.Token(collectortest.CollectorToken), nats.MaxReconnects(-1))
	must.Do(t, err)
	t.Cleanup(nc.Close)
	if _, err = nc.Subscribe(event.TallyPrefix+">", w.tally); err == nil {
		_, err = nc.Subscribe("$KV."+event.BucketAlerts+".group.*", w.notice)
	}
	if err == nil {
		err = nc.Flush()
	}
	must.Do(t, err)
}

func (w *alertWatch) tally(m *nats.Msg) {
	now := time.Now()
	var y analyzer.Tally
	if json.Unmarshal(m.Data, &y) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tallies = append(w.tallies, tallySeen{y.Second, now})
	for _, x := range y.Examples {
		if s := w.crossing[x.Exchange]; s != nil {
			s.streamed, s.counted = time.Unix(0, x.PublishedAt), now
		}
	}
}

func (w *alertWatch) notice(m *nats.Msg) {
	now := time.Now()
	var saved struct {
		Group  alerts.Group `json:"group"`
		Folded bool         `json:"folded"` // stored once Slack has accepted a summary that counts the group
	}
	if json.Unmarshal(m.Data, &saved) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range saved.Group.Alerts {
		if s := w.find(a.Name, a.Labels); s != nil && s.stored.IsZero() {
			s.stored, s.step = now, a.StartsAt.Unix()
		} else if s != nil && saved.Folded && s.slack.IsZero() {
			s.slack, s.folded = now, true
		}
	}
}

// posted records a message, of one alert or a summary of several, that the local Slack has accepted.
func (w *alertWatch) posted(m fleetslack.Message) {
	if m.ThreadTS != "" {
		return
	}
	now, text := time.Now(), fleetslack.Text(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stages {
		if s.slack.IsZero() && names(text, s.String()) {
			s.slack = now
		}
	}
}

// names reports whether text contains name, and not only as a part of a longer name.
func names(text, name string) bool {
	for _, after := range strings.Split(text, name)[1:] {
		if after == "" || !unicode.IsDigit(rune(after[0])) {
			return true
		}
	}
	return false
}

// hooked handles requests of the webhook.
func (w *alertWatch) hooked(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	var m webhook.Message
	if json.NewDecoder(r.Body).Decode(&m) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Header.Get(webhook.HeaderSignature) == "" {
		w.unsigned++
	}
	for _, a := range m.Alerts {
		switch s := w.find(a.Labels["alertname"], a.Labels); {
		case s == nil:
			w.others[a.Labels["alertname"]]++
		case s.webhook.IsZero():
			s.webhook = now
		}
	}
}

// find returns the stage of an alert, nil if it is unexpected.
func (w *alertWatch) find(name string, kv map[string]string) *failingStage {
	i := slices.IndexFunc(w.stages, func(s *failingStage) bool { return s.service == kv["service"] && s.stage == kv["stage"] })
	if i < 0 || name != "StageFailureRate" {
		return nil
	}
	return w.stages[i]
}

func (w *alertWatch) cross(s *failingStage, exchange string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.crossed = time.Now()
	w.crossing[exchange] = s
}

// wait waits for all alerts and returns the missing ones.
func (w *alertWatch) wait(timeout time.Duration) (missing []string) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		missing = nil
		w.mu.Lock()
		for _, s := range w.stages {
			if s.slack.IsZero() || s.webhook.IsZero() {
				missing = append(missing, s.String())
			}
		}
		w.mu.Unlock()
		if len(missing) == 0 || time.Since(start) > timeout {
			return missing
		}
	}
}

// closedAt returns when the first tally of second or a later one arrived.
func (w *alertWatch) closedAt(second int64) time.Time {
	for _, y := range w.tallies {
		if y.second >= second {
			return y.at
		}
	}
	return time.Time{}
}

// spans returns the durations between two times of each stage, without those that are unknown.
func (w *alertWatch) spans(from, to func(s *failingStage) time.Time) (ds []time.Duration) {
	for _, s := range w.stages {
		if a, b := from(s), to(s); !a.IsZero() && !b.IsZero() {
			ds = append(ds, b.Sub(a))
		}
	}
	return ds
}

// Times of an alert.
func (w *alertWatch) crossed(s *failingStage) time.Time  { return s.crossed }
func (w *alertWatch) streamed(s *failingStage) time.Time { return s.streamed }
func (w *alertWatch) counted(s *failingStage) time.Time  { return s.counted }
func (w *alertWatch) closed(s *failingStage) time.Time {
	if s.step == 0 {
		return time.Time{}
	}
	return w.closedAt(s.step - 1)
}
func (w *alertWatch) stored(s *failingStage) time.Time  { return s.stored }
func (w *alertWatch) slacked(s *failingStage) time.Time { return s.slack }
func (w *alertWatch) webbed(s *failingStage) time.Time  { return s.webhook }

// table returns the total durations and those of each step.
func (w *alertWatch) table() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := [][]string{{"from", "to", "alerts", "p50", "p90", "p99", "max"}}
	add := func(from, to string, ds []time.Duration) {
		row := []string{from, to, fmt.Sprint(len(ds))}
		for _, q := range []float64{0.5, 0.9, 0.99, 1} {
			row = append(row, fmt.Sprintf("%.2f s", quantile(ds, q).Seconds()))
		}
		rows = append(rows, row)
	}
	add("call that crosses published", "accepted by Slack", w.spans(w.crossed, w.slacked))
	add("call that crosses published", "accepted by webhook", w.spans(w.crossed, w.webbed))
	add("step: published", "in the stream", w.spans(w.crossed, w.streamed))
	add("in the stream", "tallied", w.spans(w.streamed, w.counted))
	add("tallied", "evaluation step closed", w.spans(w.counted, w.closed))
	add("evaluation step closed", "intent stored", w.spans(w.closed, w.stored))
	add("intent stored", "Slack", w.spans(w.stored, w.slacked))
	add("intent stored", "webhook", w.spans(w.stored, w.webbed))
	folded := func(s *failingStage) time.Time {
		if !s.folded {
			return time.Time{}
		}
		return s.slack
	}
	add("intent stored", "a summary in Slack", w.spans(w.stored, folded))
	return columns(rows)
}

// check fails the test on unexpected or early alerts and, with many stages, on late ones: with a few, other tests may load the
// machine.
func (w *alertWatch) check(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.stages {
		if s.slack.Before(s.crossed) && !s.slack.IsZero() || s.webhook.Before(s.crossed) && !s.webhook.IsZero() {
			t.Errorf("%v: notified before the stage crossed the threshold", s)
		}
	}
	if len(w.others) > 0 {
		t.Errorf("unexpected alerts: %v", slices.Sorted(maps.Keys(w.others)))
	}
	if w.unsigned > 0 {
		t.Errorf("%d unsigned posts to the webhook", w.unsigned)
	}
	if len(w.stages) < 100 {
		return
	}
	for name, ds := range map[string][]time.Duration{"slack": w.spans(w.crossed, w.slacked), "webhook": w.spans(w.crossed, w.webbed)} {
		if p50, p99 := quantile(ds, 0.5), quantile(ds, 0.99); p50 > maxLatencyP50 || p99 > maxLatencyP99 {
			t.Errorf("%s: p50 %v, p99 %v; want at most %v and %v", name, p50, p99, maxLatencyP50, maxLatencyP99)
		}
	}
}
