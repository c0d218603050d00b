package collector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// actionSink stores the actions in memory.
type actionSink struct {
	mu   sync.Mutex
	rows []string
	down error // if set, it stores nothing
}

func (s *actionSink) Write(_ context.Context, b *sinks.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	for _, a := range b.Actions {
		row := fmt.Sprintf("%s %s %s %s", a.Action, a.Actor, a.Via, a.Service)
		if a.Refused {
			row += " refused"
		}
		s.rows = append(s.rows, row)
	}
	return nil
}

func (s *actionSink) Close() error { return nil }

// openControls returns the controls of one process of several on the same NATS.
func openControls(t *testing.T, url string) (*controls, *actionSink) {
	t.Helper()
	conn := collectortest.ConnectNATS(t, url, prometheus.NewRegistry())
	kv := must.Get(conn.KV(t.Context(), event.BucketAlerts))(t)
	sink, cfg := &actionSink{}, sinks.DefaultBatcherConfig()
	cfg.FlushInterval, cfg.DrainTimeout = 10*time.Millisecond, 100*time.Millisecond
	rows := sinks.NewBatcher(sink, cfg, testLogger(), nil)
	c := &controls{kv: kv, decisions: engine.NewDecisions(), actions: &actionRows{kv: kv, rows: rows, logger: testLogger()}, logger: testLogger()}
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { c.watch(ctx) })
	g.Go(func() { _ = rows.Run(ctx) })
	t.Cleanup(func() { cancel(); g.Wait() })
	<-c.decisions.Loaded()
	return c, sink
}

func parsed(t *testing.T, list ...string) silence.Matchers {
	t.Helper()
	return must.Get(silence.ParseMatchers(list))(t)
}

// What one process stores, another one sees within a second; doing it twice has no effect.
func TestControls(t *testing.T) {
	t.Parallel()
	url := collectortest.StartNATS(t, "")
	a, sink := openControls(t, url)
	b, _ := openControls(t, url)
	ctx, anna := t.Context(), alerts.Actor{ID: "U1", Name: "Anna", Via: "slack"}
	now := time.Now()
	want := silence.Silence{ID: "press-1", Matchers: parsed(t, "service=shop"), EndsAt: now.Add(time.Hour), CreatedBy: "anna", Comment: "deploy"}
	for range 2 {
		if s := must.Get(a.AddSilence(ctx, want, `StageFailureRate{service="shop"}`, anna))(t); s.StartsAt.Before(now) || s.State(time.Now()) != silence.Active {
			t.Fatal(s)
		}
		must.Equal(t, len(a.Silences()), 1, "the silence is not visible to its own process")
	}
	must.Wait(t, "a silence", func() bool { return len(b.Silences()) == 1 })

	// The end can be changed; other matchers are another silence.
	s := b.Silences()[0]
	s.EndsAt = now.Add(2 * time.Hour)
	must.Equal(t, must.Get(b.SetSilence(ctx, s, anna))(t).ID, s.ID, "id")
	s.Matchers = parsed(t, "service=bank")
	got, err := b.SetSilence(ctx, s, anna)
	if err != nil || got.ID == s.ID || len(b.Silences()) != 1 {
		t.Errorf("%+v, %v, %v", got, err, b.Silences())
	}
	for range 2 {
		must.Do(t, b.ExpireSilence(ctx, got.ID, anna))
	}
	must.Wait(t, "the end of a silence", func() bool { return len(a.Silences()) == 0 })
	must.Is(t, a.ExpireSilence(ctx, "none", anna), alerts.ErrNoSilence)
	for _, id := range []string{"*", "a.b", ">"} {
		must.Is(t, a.ExpireSilence(ctx, id, anna), alerts.ErrNoSilence, "id", id)
	}
	s.ID, s.EndsAt = "", now
	must.Fail(t, must.Err(a.AddSilence(ctx, s, "", anna)), "in the past")

	// The first acknowledgement wins.
	ack := alerts.Ack{Group: `X{service="shop"}`, Incident: now.UTC().Truncate(time.Second), By: "U1"}
	second := ack
	second.By = "U2"
	for _, x := range []alerts.Ack{ack, second, ack} {
		must.Do(t, a.Acknowledge(ctx, x, "slack"))
	}
	must.Wait(t, "an acknowledgement", func() bool { acks := b.decisions.Acks(); return len(acks) == 1 && acks[0].By == "U1" })
	if err := b.Unacknowledge(ctx, ack.Group, ack.Incident.Add(-time.Hour), anna); err != nil || b.decisions.Acks()[0].Withdrawn {
		t.Errorf("another incident: %v", err)
	}
	must.Do(t, b.Unacknowledge(ctx, ack.Group, ack.Incident, anna))
	must.Wait(t, "a withdrawal", func() bool { return a.decisions.Acks()[0].Withdrawn })
	must.Do(t, a.Refuse(ctx, "silence", ack.Group, "not in slack.allowed", alerts.Actor{ID: "U9", Via: "slack"}))
	rows := []string{"silence U1 slack shop", "acknowledge U1 slack shop", "silence U9 slack shop refused"}
	must.Wait(t, "rows", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return slices.Equal(sink.rows, rows)
	})
}

// The oldest expired silence makes room; if none has expired, there is an error.
func TestSilencesAreBounded(t *testing.T) {
	t.Parallel()
	a, _ := openControls(t, collectortest.StartNATS(t, ""))
	now := time.Now()
	var list []silence.Silence
	for i := range silence.MaxSilences {
		list = append(list, silence.Silence{
			ID: fmt.Sprint(i), Matchers: parsed(t, "service=shop"), StartsAt: now, EndsAt: now.Add(time.Hour), CreatedBy: "anna", Comment: "x",
		})
	}
	a.decisions.Silences.Replace(list)
	s := list[0]
	s.ID = ""
	must.Is(t, must.Err(a.AddSilence(t.Context(), s, "", alerts.Actor{})), errTooManySilences)
	list[7].EndsAt = now
	a.decisions.Silences.Replace(list)
	must.Get(a.AddSilence(t.Context(), s, "", alerts.Actor{}))(t)
	if _, ok := a.decisions.Silences.Get("7"); ok {
		t.Error("the expired silence is kept")
	}
}
