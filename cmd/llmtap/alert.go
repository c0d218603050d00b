package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/heartbeat"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

// alert evaluates the alert rules over the tallies until ctx ends, and notifies while this process holds the lease of the
// role. It does not need ClickHouse: rows of alerts wait in a queue of their own.
func (c *collector) alert(ctx context.Context) error {
	kv, err := c.conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return fmt.Errorf("open the alerts' state: %w", err)
	}
	store := alertState{kv, new(atomic.Pointer[context.Context])}
	notifiers, err := c.notifiersOf(store)
	if err != nil {
		return err
	}
	rows := sinks.NewBatcher(c.sink, c.cfg.Batcher, c.logger, nil)
	rows.DeadLetter = func(ctx context.Context, r sinks.DeadRow) error {
		return c.conn.DeadLetterRow(ctx, r.Table, r.ID, r.Seq, r.Err, r.Row)
	}
	files := watchRuleFiles(c.cfg.Alerts.RuleFiles, c.hangups, c.logger)
	open := func(cfg alerts.Config, o alerts.Options, rules string) (*alerts.Engine, error) {
		o.Notifiers, o.Standby, o.Logger = append(o.Notifiers, notifiers...), true, c.logger
		o.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"rules": rules}, c.reg)
		return alerts.New(ctx, cfg, o)
	}
	watch := newHealth(c.conn.Inspect, c.sink.Ping, time.Now())
	engine, err := open(c.cfg.Alerts, alerts.Options{Store: store, Recorder: alertRows{rows}, Unavailable: watch.missing}, "calls")
	if err != nil {
		return fmt.Errorf("load alert rules: %w", err)
	}
	defer c.closeEngine(engine)
	own := c.cfg.Alerts
	own.GroupBy = append(slices.Clone(own.GroupBy), healthLabel)
	o := alerts.Options{Store: prefixed{store, "health."}, Recorder: alertRows{rows}, Health: true}
	if own.HeartbeatURL != "" {
		o.Notifiers = []alerts.Notifier{heartbeat.New(own.HeartbeatURL, nil)}
	}
	healthy, err := open(own, o, "health")
	if err != nil {
		return fmt.Errorf("load the rules of llmtap's health: %w", err)
	}
	defer c.closeEngine(healthy)
	files.reload = append(files.reload, engine.Reload, healthy.Reload)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rows.Run(ctx) })
	g.Go(func() error { return files.run(ctx) })
	g.Go(func() error {
		return c.conn.WithLease(ctx, config.RoleAlert, c.analyzer.owner, jetstream.DefaultLeaseTTL, func(held context.Context) error {
			store.held.Store(&held)
			run, held := errgroup.WithContext(held)
			run.Go(func() error { return engine.Run(held) })
			run.Go(func() error { return healthy.Run(held) })
			return run.Wait()
		})
	})
	g.Go(func() error { return watch.run(ctx, healthy, c.cfg.Alerts.EvaluationInterval) })
	g.Go(func() error {
		return c.conn.ReadTallies(ctx, func(payload []byte, _ uint64, _ bool) error {
			var t analyzer.Tally
			if err := json.Unmarshal(payload, &t); err != nil {
				c.logger.Error("unreadable tally skipped", "err", err)
				return nil
			}
			watch.saw(&t)
			return engine.Add(ctx, &t)
		})
	})
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

func (c *collector) closeEngine(e *alerts.Engine) {
	if err := e.Close(); err != nil {
		c.logger.Error("alert engine did not close cleanly", "err", err)
	}
}

// logNotifier writes every change of an alert to the log, so that an alert is seen even before Slack is set up.
type logNotifier struct{ logger *slog.Logger }

func (n logNotifier) Notify(ctx context.Context, g alerts.Group) error {
	for i := range g.Alerts {
		a := &g.Alerts[i]
		n.logger.WarnContext(ctx, "alert", "state", a.State, "alert", a.Name, "severity", a.Labels["severity"],
			"service", a.Labels["service"], "stage", a.Labels["stage"], "failed", a.Evidence.Failed, "calls", a.Evidence.Calls)
	}
	return nil
}

// alertState keeps the alerts' state in NATS.
type alertState struct {
	kv   *jetstream.KV
	held *atomic.Pointer[context.Context] // of the lease: when that is lost, the state belongs to another process
}

func (s alertState) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

func (s alertState) Put(ctx context.Context, key string, value []byte) error {
	if held := s.held.Load(); held != nil && errors.Is(context.Cause(*held), jetstream.ErrLeaseLost) { //nolint:contextcheck // it is only asked why it ended
		return fmt.Errorf("put key %s: %w", key, jetstream.ErrLeaseLost)
	}
	return s.kv.Put(ctx, key, value)
}

// alertRows makes rows of the alerts table from alerts.
type alertRows struct{ batcher *sinks.Batcher }

func (r alertRows) RecordAlert(ctx context.Context, a alerts.Alert) error {
	if a.Severity() == severityNone {
		return nil
	}
	return r.batcher.Add(ctx, &sinks.Batch{Alerts: []sinks.Alert{alertRow(&a, time.Now())}}, nil)
}

func alertRow(a *alerts.Alert, now time.Time) sinks.Alert {
	row := sinks.Alert{
		ID: a.ID(), Version: uint64(a.UpdatedAt.UnixNano()), Name: a.Name, Severity: a.Labels["severity"], Labels: a.Labels,
		State: string(a.State), StartedAt: a.StartsAt, EndedAt: a.EndsAt, Value: a.Value, Peak: a.Peak,
		Failed: a.Evidence.Failed, Calls: a.Evidence.Calls, Shares: map[string]uint64{}, Summary: a.Annotations["summary"], NotifiedAt: now,
	}
	for _, s := range a.Evidence.Shares {
		name := s.RootCause
		if name == "" {
			name = s.Cause
		}
		row.Shares[name] += s.Failed
	}
	row.FirstBad, row.LastClean = a.Evidence.Regression()
	if a.Evidence.Example != nil {
		row.Example = a.Evidence.Example.Exchange
	}
	return row
}
