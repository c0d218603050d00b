package pagerduty

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const routingKey = "0123456789abcdef0123456789abcdef"

// standIn answers as the Events API v2 does, and keeps the alerts by dedup_key. Events for alerts that are not open are accepted
// and change nothing, but trigger.
type standIn struct {
	mu       sync.Mutex
	alerts   map[string]string // dedup_key to triggered, acknowledged or resolved
	opened   []string          // severities of alerts when they were opened: PagerDuty notifies people then
	requests int
	fault    func(w http.ResponseWriter) bool // nil: none
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.fault != nil && s.fault(w) {
		return
	}
	var e event
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	var wrong []string
	if err := d.Decode(&e); err != nil {
		wrong = append(wrong, err.Error())
	}
	if e.RoutingKey != routingKey {
		wrong = append(wrong, "'routing_key' is invalid: "+e.RoutingKey)
	}
	if e.Action == trigger && (e.Payload == nil || e.Payload.Summary == "" || e.Payload.Source == "" || e.Payload.Severity == "") {
		wrong = append(wrong, "'payload' is missing or blank")
	}
	if e.DedupKey == "" || len(e.DedupKey) > 255 {
		wrong = append(wrong, "'dedup_key' is missing or too long")
	}
	w.Header().Set("Content-Type", "application/json")
	if len(wrong) > 0 {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "invalid event", "message": "Event object is invalid", "errors": wrong})
		return
	}
	open := s.alerts[e.DedupKey] == "triggered" || s.alerts[e.DedupKey] == "acknowledged"
	switch {
	case e.Action == trigger && !open:
		s.alerts[e.DedupKey] = "triggered"
		s.opened = append(s.opened, e.Payload.Severity)
	case e.Action == acknowledge && open:
		s.alerts[e.DedupKey] = "acknowledged"
	case e.Action == resolve && open:
		s.alerts[e.DedupKey] = "resolved"
	}
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, `{"status":"success","message":"Event processed","dedup_key":%q}`, e.DedupKey)
}

func start(t *testing.T, s *standIn, c Config) *Notifier {
	t.Helper()
	s.alerts = map[string]string{}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c.URL = srv.URL + "/v2/enqueue"
	list := must.Get(c.Receivers(alerts.NotifierOptions{Access: alerts.Access{ExternalURL: "https://llmtap.example.com/"}}))(t)
	must.Equal(t, list[0].Destination, strings.TrimPrefix(srv.URL, "http://"), "destination")
	return list[0].Notifier.(*Notifier)
}

func incident(stage, severity string) alerts.Alert {
	start := time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)
	return alerts.Alert{
		Name: "StageFailureRate", State: alerts.Firing, StartsAt: start, UpdatedAt: start, Problem: "tool_calls_dropped_on_save",
		Labels:      map[string]string{"service": "checkout-agent", "stage": stage, "environment": "prod", "severity": severity},
		Annotations: map[string]string{"summary": stage + " fails"},
		Evidence: alerts.Evidence{
			Failed: 412, Calls: 1030, Shares: []alerts.Share{{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 412, Fix: "Save tool_calls.", FirstVersion: "2.4.0", LastClean: "2.3.9"}},
			Example: &analyzer.Example{Conversation: "c 1", Exchange: "x1", Message: 3, Rule: "orphan_tool_reply"},
		},
	}
}

func TestEvent(t *testing.T) {
	g := alerts.Group{Key: `problem{service="checkout-agent"}`, Alerts: []alerts.Alert{incident("planner", "warning"), incident("writer", "info")}}
	got := must.Get(json.MarshalIndent(events(&g, alerts.Access{ExternalURL: "https://llmtap.example.com/"}), "", "  "))(t)
	alertstest.Golden(t, "event.json", string(got)+"\n")
}

// An incident becomes critical, is acknowledged, and ends. People are notified twice: of the warning and of the page.
func TestIncident(t *testing.T) {
	s := &standIn{}
	n := start(t, s, Config{RoutingKey: routingKey})
	g := alerts.Group{Key: "k", Alerts: []alerts.Alert{incident("planner", "warning")}}
	key := "llmtap/" + alerts.GroupID("k")
	f := func(warning, page string) {
		t.Helper()
		for range 2 { // a repetition changes nothing
			must.Do(t, n.Notify(t.Context(), g))
			must.Equal(t, s.alerts[key]+" "+s.alerts[key+"/page"], warning+" "+page, "the warning and the page")
		}
	}
	f("triggered", "")
	g.Alerts = append(g.Alerts, incident("planner", "critical"))
	g.Alerts[0].State = alerts.Resolved
	f("resolved", "triggered")
	g.Ack = &alerts.Ack{By: "U1", ByName: "Anna"}
	f("resolved", "acknowledged")
	g.Alerts[1].Labels["severity"], g.Alerts[1].Highest = "warning", "critical"
	f("resolved", "acknowledged")
	g.Alerts[1].State, g.Alerts[1].EndsAt = alerts.Resolved, g.Alerts[1].StartsAt.Add(time.Hour)
	f("resolved", "resolved")
	must.Equal(t, strings.Join(s.opened, " "), "warning critical", "severities of which people were notified")
}

func TestFaults(t *testing.T) {
	s := &standIn{}
	n := start(t, s, Config{RoutingKey: routingKey})
	g := alerts.Group{Key: "k", Alerts: []alerts.Alert{incident("planner", "warning")}}
	hung := make(chan struct{})
	answer := func(status int, header ...string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
			return true
		}
	}
	for name, f := range map[string]struct {
		fault func(http.ResponseWriter) bool
		after time.Duration
	}{
		"rate limit": {answer(http.StatusTooManyRequests, "Retry-After", "30"), 30 * time.Second},
		"down":       {answer(http.StatusServiceUnavailable), 0},
		"error":      {answer(http.StatusInternalServerError), 0},
		"hanging":    {func(http.ResponseWriter) bool { <-hung; return true }, 0},
	} {
		s.mu.Lock()
		s.fault = f.fault
		s.mu.Unlock()
		if name == "hanging" {
			n.opts.Client.Timeout = 100 * time.Millisecond
		}
		err := n.Notify(t.Context(), g)
		retry, ok := errors.AsType[*alerts.RetryError](err)
		if !ok || retry.After != f.after || !retry.Down {
			t.Errorf("%s: %v", name, err)
		}
		if name == "hanging" {
			close(hung)
			n.opts.Client.Timeout = time.Minute
		}
	}
	s.mu.Lock()
	s.fault = nil
	s.mu.Unlock()
	must.Do(t, n.Notify(t.Context(), g))

	n.key = "another key, which is a secret"
	err := n.Notify(t.Context(), g)
	if _, ok := errors.AsType[*alerts.RetryError](err); ok || err == nil || !strings.Contains(err.Error(), "'routing_key' is invalid") || strings.Contains(err.Error(), n.key) {
		t.Errorf("wrong key: %v", err)
	}
}

func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	must.Do(t, os.WriteFile(file, []byte(routingKey+"\n"), 0o600))
	s := &standIn{}
	n := start(t, s, Config{RoutingKeyFile: file})
	must.Do(t, n.Notify(t.Context(), alerts.Group{Key: "k", Alerts: []alerts.Alert{incident("planner", "warning")}}))
	for want, c := range map[string]Config{
		"set one of them":         {URL: "https://events.eu.pagerduty.com/v2/enqueue"},
		"both are set":            {RoutingKey: routingKey, RoutingKeyFile: file},
		"is not an http or https": {RoutingKey: routingKey, URL: "events.pagerduty.com"},
		"read routing_key_file":   {RoutingKeyFile: file + "x"},
	} {
		_, err := c.Receivers(alerts.NotifierOptions{})
		must.Fail(t, err, want)
	}
	list := must.Get(Config{}.Receivers(alerts.NotifierOptions{}))(t)
	must.Equal(t, len(list), 0, "receivers without a configuration")
	list = must.Get(Config{RoutingKey: routingKey}.Receivers(alerts.NotifierOptions{}))(t)
	must.Equal(t, list[0].Destination, "events.pagerduty.com", "destination")
}
