package alertmanager

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// fake is an Alertmanager that records requests.
type fake struct {
	mu     sync.Mutex
	posts  [][]Alert
	bodies []string
	header http.Header
	path   string
	status int   // 0: 200
	err    error // instead of an answer
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var list []Alert
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	f.posts, f.bodies, f.header, f.path = append(f.posts, list), append(f.bodies, string(b)), r.Header, r.URL.Path
	return &http.Response{StatusCode: max(f.status, 200), Body: http.NoBody}, nil
}

func (f *fake) last() []Alert { return f.posts[len(f.posts)-1] }

func newNotifier(t *testing.T, f *fake, store alerts.Store) *Notifier {
	t.Helper()
	cfg := Config{URLs: []string{"http://alertmanager.example.com/am/"}, Token: "t0k3n"}
	list, err := cfg.Receivers(alerts.NotifierOptions{Store: store, Access: alerts.Access{ExternalURL: "https://llmtap.example.com/"}, Client: &http.Client{Transport: f}})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list[0].Notifier.(*Notifier)
}

var start = time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)

// incident is an alert that began at the given time.
func incident(at time.Time) alerts.Alert {
	return alerts.Alert{
		Name:   "StageFailureRate",
		Labels: map[string]string{"service": "checkout-agent", "environment": "", "stage": "planner", "severity": "critical"},
		Annotations: map[string]string{
			"summary": "checkout-agent/planner: 40% of calls are failing", "llmtap_window": "10m",
		},
		State: alerts.Firing, StartsAt: at, UpdatedAt: at,
		Evidence: alerts.Evidence{
			Failed: 412, Calls: 1030,
			Shares: []alerts.Share{
				{Cause: "orphan_tool_reply", RootCause: "tool_calls_dropped_on_save", Failed: 380, Fix: "Save the message with its tool_calls.", FirstVersion: "2.4.0", LastClean: "2.3.9"},
				{Cause: "rate_limit", Failed: 32},
			},
			Example: &analyzer.Example{Conversation: "order/7781", Exchange: "0197-a", Summary: "message 3 has no call", Evidence: "never sent"},
		},
	}
}

func resolved(a alerts.Alert, at time.Time) alerts.Alert {
	a.State, a.EndsAt, a.UpdatedAt = alerts.Resolved, at, at
	return a
}

func group(list ...alerts.Alert) alerts.Group {
	return alerts.Group{Key: `StageFailureRate{service="checkout-agent",stage="planner"}`, Alerts: list}
}

func TestWire(t *testing.T) {
	warning := resolved(incident(start), start.Add(time.Minute))
	warning.Labels = map[string]string{"service": "checkout-agent", "stage": "executor", "severity": "warning"}
	warning.Evidence = alerts.Evidence{}
	g := group(resolved(incident(start.Add(-time.Hour)), start.Add(-time.Minute)), incident(start), warning)
	before := known{warning.ID(): {Until: start}}
	list, _ := plan(g, alerts.Access{ExternalURL: "https://llmtap.example.com/"}, before, start.Add(2*time.Minute))
	got := must.Get(json.MarshalIndent(list, "", "  "))(t)
	alertstest.Golden(t, "alerts.json", string(got)+"\n")
}

func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		n := newNotifier(t, f, nil)
		send := func(g alerts.Group) []Alert {
			t.Helper()
			must.Do(t, n.Notify(t.Context(), g))
			return f.last()
		}
		a := incident(time.Now().UTC())
		if got := send(group(a)); len(got) != 1 || !got[0].EndsAt.Equal(time.Now().Add(4*time.Minute)) {
			t.Errorf("firing: %+v", got)
		}
		if f.path != "/am/api/v2/alerts" || f.header.Get("Authorization") != "Bearer t0k3n" || f.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", f.path, f.header)
		}
		time.Sleep(time.Minute)
		if got := send(group(a)); !got[0].EndsAt.Equal(time.Now().Add(4 * time.Minute)) {
			t.Errorf("still firing: %+v", got)
		}
		end := time.Now().UTC()
		time.Sleep(time.Second)
		if got := send(group(resolved(a, end))); !got[0].EndsAt.Equal(end) || got[0].Annotations["ended_at"] != "" {
			t.Errorf("resolved: %+v", got)
		}
		ahead := incident(time.Now().Add(time.Hour).UTC()) // stream time is ahead of the local clock
		if got := send(group(ahead)); got[0].EndsAt.Before(got[0].StartsAt) {
			t.Errorf("Alertmanager would reject %+v", got)
		}
	})
}

// An alert that was resolved before Alertmanager received it is sent once and expires.
func TestResolvedBeforeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		store := &alertstest.Store{}
		n := newNotifier(t, f, store)
		began := time.Now().UTC()
		end := began.Add(time.Minute)
		over := resolved(incident(began), end)
		inhibited := over
		inhibited.Labels = map[string]string{"service": "checkout-agent", "environment": "", "stage": "planner", "severity": "warning"}
		time.Sleep(10 * time.Minute)
		until := time.Now().Add(4 * time.Minute)
		for range 2 { // the second time after a restart
			must.Do(t, n.Notify(t.Context(), group(inhibited, over)))
			if got := f.last(); len(got) != 1 || !got[0].EndsAt.Equal(until) || got[0].Annotations["ended_at"] != end.Format(time.RFC3339) {
				t.Errorf("sent %+v", got)
			}
			time.Sleep(time.Minute)
			n = newNotifier(t, f, store)
		}
		// Another alert of the same series has its own record.
		must.Do(t, n.Notify(t.Context(), group(resolved(incident(end.Add(time.Minute)), end.Add(2*time.Minute)))))
		if got := f.last(); !got[0].EndsAt.Equal(time.Now().Add(4 * time.Minute)) {
			t.Errorf("sent %+v", got)
		}
	})
}

// An alert that escalates ends with its old severity, once, and begins with the new one.
func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		n := newNotifier(t, f, &alertstest.Store{})
		a := incident(time.Now().UTC())
		warning := a
		warning.Labels = maps.Clone(a.Labels)
		warning.Labels["severity"] = "warning"
		for i, want := range []string{"firing warning", "resolved warning, firing critical", "firing critical"} {
			g := group(a)
			if i == 0 {
				g = group(warning)
			}
			must.Do(t, n.Notify(t.Context(), g))
			var got []string
			for _, x := range f.last() {
				state := "firing"
				if !x.EndsAt.After(time.Now()) {
					state = "resolved"
				}
				got = append(got, state+" "+x.Labels["severity"])
			}
			must.Equal(t, strings.Join(got, ", "), want, "sent")
			time.Sleep(time.Minute)
		}
	})
}

// An alert that was sent before a restart, and ended during it, is sent as resolved.
func TestResolvedAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		store := &alertstest.Store{}
		a := incident(time.Now().UTC())
		must.Do(t, newNotifier(t, f, store).Notify(t.Context(), group(a)))
		time.Sleep(20 * time.Minute)
		end := time.Now().UTC().Add(-5 * time.Minute)
		must.Do(t, newNotifier(t, f, store).Notify(t.Context(), group(resolved(a, end))))
		if got := f.last(); len(got) != 1 || !got[0].EndsAt.Equal(end) {
			t.Errorf("sent %+v", got)
		}
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		n := newNotifier(t, f, nil)
		check := func(g alerts.Group, later bool, want string) {
			t.Helper()
			err := n.Notify(t.Context(), g)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "t0k3n") {
				t.Errorf("%v, want %q", err, want)
			}
			_, ok := errors.AsType[*alerts.RetryError](err)
			must.Equal(t, ok, later, "retry of %v", err)
		}
		a := incident(time.Now().UTC())
		f.status = 400
		check(group(a), false, "400 Bad Request")
		f.status = 503
		check(group(a), true, "503")
		f.status = 0
		f.err = errors.New("connection refused")
		check(group(a), true, "connection refused")
		f.err = nil
		must.Do(t, n.Notify(t.Context(), group(a)))
		// The end is retried until the alert has expired in Alertmanager.
		f.err = errors.New("connection refused")
		over := group(resolved(a, time.Now()))
		check(over, true, "connection refused")
		time.Sleep(validity + time.Second)
		check(over, false, "where it has expired meanwhile: call alertmanager.example.com: connection refused")
		// The end of an alert that Alertmanager does not know has to be sent.
		time.Sleep(time.Hour)
		b := incident(time.Now().UTC())
		b.Labels = map[string]string{"service": "other"}
		check(group(resolved(b, time.Now())), true, "connection refused")
	})
}

func TestHostileContent(t *testing.T) {
	long := strings.Repeat("\xff<>\n", 5000)
	a := incident(start)
	a.Annotations["summary"] = long
	a.Evidence.Example.Conversation, a.Evidence.Example.Exchange = long, long
	a.Evidence.Shares = nil
	for range 30 {
		a.Evidence.Shares = append(a.Evidence.Shares, alerts.Share{Cause: long, RootCause: long, Fix: long, FirstVersion: long, LastClean: long, Failed: 1})
	}
	var list []alerts.Alert
	for range 20 {
		list = append(list, a)
	}
	for _, x := range append(Alerts(group(list...), alerts.Access{ExternalURL: "https://llmtap.example.com"}), Alerts(alerts.Group{Alerts: make([]alerts.Alert, 2)}, alerts.Access{})...) {
		b, err := json.Marshal(x)
		if err != nil || len(b) > 50_000 {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}

func TestTokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	cfg := Config{URLs: []string{"http://a:9093", "http://b:9093/"}, TokenFile: file}
	open := func() ([]alerts.Receiver, error) { return cfg.Receivers(alerts.NotifierOptions{}) }
	must.Fail(t, must.Err(open()), "read token_file")
	write := func(text string) {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(" \n")
	must.Fail(t, must.Err(open()), "is empty")
	write("abc\n")
	list, err := open()
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if n := list[1].Notifier.(*Notifier); n.token != "abc" || n.url != "http://b:9093/api/v2/alerts" {
		t.Errorf("%+v", n)
	}
	must.Fail(t, (Config{Token: "abc"}).Validate(), "", "a token without a URL was accepted")
}

// The annotations have the facts of the other messages: cause, versions, last failure, example, fix and commands. They have no
// contents of messages and no text of a provider.
func TestAnnotations(t *testing.T) {
	raw := must.Get(os.ReadFile("../rules/testdata/fired/MissingToolReplies.json"))(t)
	a := must.JSON[alerts.Alert](t, raw)
	got := Alerts(alerts.Group{Alerts: []alerts.Alert{a}}, alerts.Access{URL: "http://collector-1:8088"})[0].Annotations
	keys := []string{
		"calls", "calls_since", "cause", "causes", "commands", "conversation", "description", "example", "exchange", "first_version", "fix",
		"last_failure", "message_index", "root_cause", "rule", "runbook", "summary", "tool", "tool_call_id", "versions",
	}
	must.Agree(t, cmp.Diff(keys, slices.Sorted(maps.Keys(got))), "annotations")
	for k, want := range map[string]string{
		"calls": "5 tool calls got no reply, in 30 calls", "cause": "missing_tool_reply", "root_cause": "tool_skipped_or_interrupted",
		"versions": "1.4.0: 5 in 30 calls", "tool": "read_file", "rule": "missing_tool_reply",
	} {
		must.Equal(t, got[k], want, "%s", k)
	}
	for k, v := range got {
		if strings.Contains(v, "must be followed") {
			t.Errorf("%s has the provider's text: %s", k, v)
		}
	}
}
