package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const signingKey = "0123456789abcdef0123456789abcdef"

// A post is one request to the receiver.
type post struct {
	at                             time.Time
	delivery, timestamp, signature string
	body                           string
	message                        Message
}

// receiver is the server of the URL.
type receiver struct {
	mu     sync.Mutex
	posts  []post
	answer func(n int) (status int, err error) // of post n; nil: 200
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	p := post{
		at: time.Now(), delivery: req.Header.Get(HeaderDelivery), timestamp: req.Header.Get(HeaderTimestamp),
		signature: req.Header.Get(HeaderSignature), body: string(b),
	}
	if err := json.Unmarshal(b, &p.message); err != nil {
		return nil, err
	}
	r.posts = append(r.posts, p)
	status := http.StatusOK
	if r.answer != nil {
		if status, err = r.answer(len(r.posts) - 1); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

func newNotifier(t *testing.T, r *receiver) *Notifier {
	t.Helper()
	list, err := Config{URL: "https://hooks.example.com/T0K3N", Secret: signingKey}.Receivers(alerts.NotifierOptions{
		Client: &http.Client{Transport: r}, GroupBy: []string{"service", "stage", "component"}, Access: alerts.Access{ExternalURL: "https://llmtap.example.com/"},
	})
	must.Do(t, err)
	return list[0].Notifier.(*Notifier)
}

func incident(stage string, start time.Time) alerts.Alert {
	return alerts.Alert{
		Name: "StageFailureRate", State: alerts.Firing, StartsAt: start, UpdatedAt: start,
		Labels:      map[string]string{"service": "checkout-agent", "stage": stage, "severity": "critical"},
		Annotations: map[string]string{"summary": stage + " fails", "runbook": "Roll back."},
		Evidence:    alerts.Evidence{Failed: 412, Calls: 1030, Shares: []alerts.Share{{Cause: "orphan_tool_reply", Failed: 412}}},
	}
}

func TestMessage(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 0, 0, time.UTC)
	over := incident("executor", start.Add(-time.Minute))
	over.State, over.EndsAt = alerts.Resolved, start
	g := alerts.Group{Key: `StageFailureRate{service="checkout-agent"}`, Alerts: []alerts.Alert{over, incident("planner", start)}}
	got := must.Get(json.MarshalIndent(newMessage(g, []string{"service", "stage"}, alerts.Access{ExternalURL: "https://llmtap.example.com/"}), "", "  "))(t)
	alertstest.Golden(t, "message.json", string(got)+"\n")
}

// A post has exactly the fields that Alertmanager documents for its webhook, with their types, because other products read them:
// https://prometheus.io/docs/alerting/latest/configuration/#webhook_config (2026-11).
func TestFormat(t *testing.T) {
	over := incident("executor", time.Now())
	over.State, over.EndsAt = alerts.Resolved, time.Now()
	var got map[string]any
	b := must.Get(json.Marshal(newMessage(alerts.Group{Key: "k", Alerts: []alerts.Alert{over, incident("planner", time.Now())}}, nil, alerts.Access{})))(t)
	must.Do(t, json.Unmarshal(b, &got))
	types := func(m map[string]any) map[string]string {
		out := map[string]string{}
		for k, v := range m {
			out[k] = fmt.Sprintf("%T", v)
		}
		return out
	}
	const text, object = "string", "map[string]interface {}"
	must.Agree(t, cmp.Diff(map[string]string{
		"version": text, "groupKey": text, "truncatedAlerts": "float64", "status": text, "receiver": text, "groupLabels": object, "commonLabels": object,
		"commonAnnotations": object, "externalURL": text, "alerts": "[]interface {}",
	}, types(got)))
	for i, status := range []string{"resolved", "firing"} {
		a, _ := got["alerts"].([]any)[i].(map[string]any)
		must.Agree(t, cmp.Diff(map[string]string{
			"status": text, "labels": object, "annotations": object, "startsAt": text, "endsAt": text, "generatorURL": text, "fingerprint": text,
		}, types(a)))
		must.Equal(t, a["status"], any(status), "status")
	}
	must.Equal(t, got["version"], any("4"), "version")
}

// The signature was computed with openssl dgst -sha256 -hmac.
func TestSign(t *testing.T) {
	got := Sign([]byte(signingKey), "1767225600", []byte(`{"version":"4"}`))
	must.Equal(t, got, "sha256=0ec76425785e4715e1445628ee0f97d4d8ef820b20ce0f59f973f2df1710095b", "signature")
}

func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		n := newNotifier(t, r)
		g := alerts.Group{Key: "k", Alerts: []alerts.Alert{incident("planner", time.Now().UTC())}}
		send := func() post {
			t.Helper()
			must.Do(t, n.Notify(t.Context(), g))
			p := r.posts[len(r.posts)-1]
			mac := hmac.New(sha256.New, []byte(signingKey))
			mac.Write([]byte(p.timestamp + "." + p.body))
			if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); p.signature != want || p.timestamp != strconv.FormatInt(time.Now().Unix(), 10) {
				t.Errorf("signature %s of %s, want %s", p.signature, p.timestamp, want)
			}
			return p
		}
		first := send()
		time.Sleep(time.Minute)
		again := send()
		if again.delivery != first.delivery || again.signature == first.signature || len(first.delivery) != 32 {
			t.Errorf("the same state is delivery %s, then %s", first.delivery, again.delivery)
		}
		g.Repeat = true
		reminder := send()
		g.Alerts[0].UpdatedAt = g.Alerts[0].UpdatedAt.Add(time.Hour)
		if next := send(); reminder.delivery == first.delivery || next.delivery == reminder.delivery {
			t.Error("a reminder has the delivery id of an earlier post")
		}
		g.Repeat = false
		g.Alerts[0].State, g.Alerts[0].EndsAt = alerts.Resolved, time.Now().UTC()
		if end := send(); end.delivery == first.delivery || end.message.Status != "resolved" || end.message.Alerts[0].EndsAt.IsZero() {
			t.Errorf("the end: %+v", end)
		}
	})
}

// tallies adds n seconds of calls, some of which fail.
func tallies(t *testing.T, e *engine.Engine, n int, failed uint64) {
	t.Helper()
	for range n {
		kv := map[string]string{"service": "checkout-agent", "environment": "prod", "stage": "planner", "service_version": "1"}
		counts := []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: kv, N: 4}}
		if failed > 0 {
			counts = append(counts, analyzer.Count{Metric: analyzer.MetricFailed, Labels: map[string]string{
				"service": "checkout-agent", "environment": "prod", "stage": "planner", "service_version": "1", "status": "400", "cause": "orphan_tool_reply",
			}, N: failed})
		}
		must.Do(t, e.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix(), Counts: counts}))
		time.Sleep(time.Second)
	}
	synctest.Wait()
}

// run starts an engine that notifies r; stop ends it.
func run(t *testing.T, r *receiver, store alerts.Store) (e *engine.Engine, stop func()) {
	t.Helper()
	cfg := engine.Default()
	cfg.EvaluationInterval = 5 * time.Second
	cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
	e = enginetest.New(t, cfg, engine.Options{Notifiers: []alerts.Notifier{newNotifier(t, r)}, Store: store})
	return e, must.Run(t, e.Run)
}

// An unreachable receiver is retried with backoff of up to a minute, without limit.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{}
		down := true
		r.answer = func(n int) (int, error) {
			switch {
			case !down:
				return 202, nil
			case n%2 == 0:
				return 0, errors.New("connection refused")
			}
			return 503, nil
		}
		e, stop := run(t, r, nil)
		tallies(t, e, 3600, 2)
		n := len(r.posts)
		if n < 60 || n > 70 {
			t.Errorf("%d attempts in an hour", n)
		}
		for i := 1; i < n; i++ {
			want := min(time.Second<<min(i-1, 10), time.Minute)
			must.Equal(t, r.posts[i].at.Sub(r.posts[i-1].at), want, "attempt %d after", i)
		}
		down = false
		tallies(t, e, 120, 2)
		must.Equal(t, len(r.posts), n+1, "posts after the receiver is back")
		stop()
	})
}

// A rejected notification is sent again only when there is news.
func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{answer: func(int) (int, error) { return http.StatusBadRequest, nil }}
		e, stop := run(t, r, nil)
		tallies(t, e, 3600, 2)
		must.Equal(t, len(r.posts), 1, "attempts")
		tallies(t, e, 1800, 0)
		if n := len(r.posts); n < 2 || n > 4 || r.posts[n-1].message.Status != "resolved" {
			t.Errorf("%d attempts including the end", n)
		}
		stop()
	})
}

// After somebody has mended the URL, an alert that still fires is sent within a minute.
func TestURLMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := http.StatusNotFound
		r := &receiver{answer: func(int) (int, error) { return status, nil }}
		e, stop := run(t, r, nil)
		tallies(t, e, 1200, 2)
		n := len(r.posts)
		if n < 15 || n > 21 {
			t.Errorf("%d attempts in 20 minutes, want one a minute", n)
		}
		status = http.StatusOK
		tallies(t, e, 65, 2)
		must.Equal(t, len(r.posts), n+1, "posts a minute after the mend")
		stop()
	})
}

// After a restart nothing is sent twice, and the end of an alert is sent.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := &receiver{}, &alertstest.Store{}
		e, stop := run(t, r, store)
		tallies(t, e, 60, 2)
		stop()
		if n := len(r.posts); n != 1 {
			t.Fatalf("%d posts before the restart", n)
		}
		e, stop = run(t, r, store)
		tallies(t, e, 2400, 0)
		stop()
		if n := len(r.posts); n != 2 || r.posts[1].message.Status != "resolved" || r.posts[1].message.Alerts[0].StartsAt != r.posts[0].message.Alerts[0].StartsAt {
			t.Errorf("%d posts in all: %+v", n, r.posts[1:])
		}
	})
}

func TestSecretFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	cfg := Config{URL: "https://hooks.example.com/T0K3N", SecretFile: file}
	f := func(want string) {
		t.Helper()
		list, err := cfg.Receivers(alerts.NotifierOptions{})
		if want == "" && (err != nil || string(list[0].Notifier.(*Notifier).secret) != signingKey) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "T0K3N")) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("read secret_file")
	for text, want := range map[string]string{"short\n": "has 5 bytes, fewer than 16", signingKey + "\n": ""} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		f(want)
	}
	cfg.URL = "T0K3N"
	f("url: is not an http or https URL")
}
