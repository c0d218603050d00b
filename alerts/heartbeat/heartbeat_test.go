package heartbeat

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
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
		cfg := alerts.Default()
		cfg.TSDBDir = t.TempDir()
		e, err := alerts.New(t.Context(), cfg, alerts.Options{Health: true, Notifiers: []alerts.Notifier{New("https://heart.example.com/abc", client)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- e.Run(ctx) }()
		up := 1.0
		f := func(d time.Duration, from, to int64) {
			t.Helper()
			beats.Store(0)
			for range int(d / (5 * time.Second)) {
				if err := e.Observe(ctx, time.Now(), []alerts.Gauge{{Metric: rules.MetricStoreUp, Value: up}}); err != nil {
					t.Fatal(err)
				}
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
		if err := <-done; err != nil {
			t.Error(err)
		}
		beats.Store(0)
		time.Sleep(10 * time.Minute)
		if n := beats.Load(); n > 0 {
			t.Errorf("%d heartbeats after the end", n)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
