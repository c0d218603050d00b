package heartbeat

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/enginetest"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A heartbeat is sent each minute while the rules are evaluated, and at no other time.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats, code atomic.Int64
		code.Store(http.StatusOK)
		client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet || r.URL.String() != "https://heart.example.com/abc" {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			beats.Add(1)
			return &http.Response{StatusCode: int(code.Load()), Body: http.NoBody}, nil
		})}
		cfg := engine.Default()
		e := enginetest.New(t, cfg, engine.Options{Health: true, Notifiers: []alerts.Notifier{New("https://heart.example.com/abc", client)}})
		stop := must.Run(t, e.Run)
		up := 1.0
		f := func(d time.Duration, from, to int64) {
			t.Helper()
			beats.Store(0)
			for range int(d / (5 * time.Second)) {
				must.Do(t, e.Observe(t.Context(), time.Now(), []engine.Gauge{{Metric: rules.MetricStoreUp, Value: up}}))
				time.Sleep(5 * time.Second)
			}
			synctest.Wait()
			if n := beats.Load(); n < from || n > to {
				t.Errorf("%d heartbeats in %v, want %d to %d", n, d, from, to)
			}
		}
		f(10*time.Minute, 9, 11)
		up = 0 // other alerts have no effect
		f(10*time.Minute, 9, 11)
		beats.Store(0)
		time.Sleep(30 * time.Minute) // no evaluations, deliveries continue
		if n := beats.Load(); n > 2 {
			t.Errorf("%d heartbeats of a stalled engine", n)
		}
		f(10*time.Minute, 9, 11)
		code.Store(http.StatusNotFound)
		f(10*time.Minute, 9, 11)
		code.Store(http.StatusServiceUnavailable) // backs off to a minute
		f(10*time.Minute, 9, 18)
		code.Store(http.StatusOK)
		f(10*time.Minute, 8, 11)
		stop()
		beats.Store(0)
		time.Sleep(10 * time.Minute)
		if n := beats.Load(); n > 0 {
			t.Errorf("%d heartbeats after the end", n)
		}
	})
}

// errorLog collects the errors of a notifier.
type errorLog struct {
	*Notifier
	errs []error
}

func (l *errorLog) Notify(ctx context.Context, g alerts.Group) error {
	err := l.Notifier.Notify(ctx, g)
	if err != nil {
		l.errs = append(l.errs, err)
	}
	return err
}

// After an outage of the collector, the restored Watchdog is not an error, and heartbeats begin with the evaluations. An engine
// that does not evaluate after its start is an error that counts from the start.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int64
		client := &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			beats.Add(1)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})}
		store := &alertstest.Store{}
		run := func(evaluations, idle time.Duration) (errs []error) {
			t.Helper()
			beats.Store(0)
			cfg := engine.Default()
			n := &errorLog{Notifier: New("https://heart.example.com/abc", client)}
			e := enginetest.New(t, cfg, engine.Options{Health: true, Standby: true, Store: store, Notifiers: []alerts.Notifier{n}})
			stop := must.Run(t, e.Run)
			time.Sleep(idle)
			for range int(evaluations / (5 * time.Second)) {
				must.Do(t, e.Observe(t.Context(), time.Now(), nil))
				time.Sleep(5 * time.Second)
			}
			synctest.Wait()
			stop()
			return n.errs
		}
		if errs := run(30*time.Minute, 0); len(errs) > 0 || beats.Load() < 29 {
			t.Fatalf("%v, %d heartbeats", errs, beats.Load())
		}
		if errs := run(5*time.Minute, 10*time.Second); len(errs) > 0 || beats.Load() < 4 {
			t.Errorf("after an immediate restart: %v, %d heartbeats", errs, beats.Load())
		}
		time.Sleep(27 * time.Minute)
		if errs := run(5*time.Minute, 10*time.Second); len(errs) > 0 || beats.Load() < 3 {
			t.Errorf("after an outage: %v, %d heartbeats", errs, beats.Load())
		}
		time.Sleep(27 * time.Minute)
		if errs := run(0, 4*time.Minute); len(errs) == 0 || !strings.Contains(errs[0].Error(), "no evaluation of the rules for 3m") || beats.Load() > 0 {
			t.Errorf("without evaluations: %v, %d heartbeats", errs, beats.Load())
		}
	})
}

// A process that was suspended, or that begins to lead, is not stalled.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		n := New("https://heart.example.com/abc", &http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
			beats++
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})})
		f := func(pause, age time.Duration, beat, fails bool) {
			t.Helper()
			time.Sleep(pause)
			beats = 0
			err := n.Notify(t.Context(), alerts.Group{Alerts: []alerts.Alert{{Name: watchdog, State: alerts.Firing, UpdatedAt: time.Now().Add(-age)}}})
			if (err != nil) != fails || (beats > 0) != beat {
				t.Errorf("called after %v, evaluated %v ago: %v, %d heartbeats", pause, age, err, beats)
			}
		}
		f(time.Minute, 5*time.Second, true, false)
		f(27*time.Minute, 27*time.Minute, false, false)
		f(time.Minute, 5*time.Second, true, false)
		f(time.Minute, time.Minute, true, false)
		f(time.Minute, 2*time.Minute+time.Second, false, true)
	})
}
