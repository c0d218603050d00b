package collector

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
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/heartbeat"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks"
)

// An alertRole evaluates the alert rules over the tallies, and notifies while this process holds the lease of the role.
//
//	tallies ──> calls:  rules over calls ────────┬──> notifiers
//	monitor ──> health: rules of llmtap's health ┘└─> rows of the alerts table
//	                    ↑ silences, acknowledgements
//	                controls <── Slack buttons, HTTP API
//
// It does not require ClickHouse, because its rows have their own queue.
type alertRole struct {
	conn     *jetstream.Conn
	owner    string
	interval time.Duration // time between evaluations
	state    *leasedStore
	rows     *sinks.Batcher
	controls *controls
	problems *problems
	calls    *engine.Engine
	health   *engine.Engine
	engines  []*engine.Engine // calls and health
	monitor  *monitor
	files    *ruleFiles
	serve    []func(context.Context) // for example the connection on which Slack sends presses of buttons
	logger   *slog.Logger
}

// decisionsTimeout is the time for which notifications wait for the silences.
const decisionsTimeout = 10 * time.Second

// runAlert runs the role until ctx ends.
func (c *Collector) runAlert(ctx context.Context) error {
	defer c.roleRegs.unregister(config.RoleAlert)
	a, err := c.newAlertRole(ctx, c.roleRegs.register(config.RoleAlert, nil))
	if err != nil {
		return err
	}
	defer a.close()
	c.controls.Store(a.controls)
	defer c.controls.Store(nil)
	c.problems.Store(a.problems)
	defer c.problems.Store(nil)
	c.calls.Store(a.calls)
	defer c.calls.Store(nil)
	return a.run(ctx)
}

func (c *Collector) newAlertRole(ctx context.Context, reg prometheus.Registerer) (_ *alertRole, err error) {
	conn := c.conn.Load()
	kv, err := conn.KV(ctx, event.BucketAlerts)
	if err != nil {
		return nil, fmt.Errorf("open the state of alerts: %w", err)
	}
	cfg := c.cfg.Alerts
	a := &alertRole{
		conn: conn, owner: c.owner, interval: cfg.EvaluationInterval, state: &leasedStore{kv: kv},
		rows:    sinks.NewBatcher(c.store, c.cfg.Batcher, c.logger, nil),
		monitor: newMonitor(conn.Inspect, c.store.Ping, time.Now()),
		files:   newRuleFiles(cfg.RuleFiles, c.opts.Hangups, c.audit.record, c.logger), logger: c.logger,
	}
	a.monitor.disk = c.disk
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	a.rows.DeadLetter = deadLetterRow(conn)
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_alerts_leader", Help: "1 if this process holds the lease of the role alert and sends the notifications, 0 if it stands by.",
	}, func() float64 {
		if a.state.held() {
			return 1
		}
		return 0
	})
	health := prefixedStore{a.state, healthPrefix}
	a.controls = &controls{kv: kv, decisions: engine.NewDecisions(), groups: []alerts.Store{a.state, health}, engines: func() []*engine.Engine { return a.engines }, actions: &actionRows{kv: kv, rows: a.rows, logger: c.logger}, logger: c.logger}
	a.problems = newProblems(kv, a.controls, c.logger)
	notifiers, receivers, err := c.notifiers(alerts.NotifierOptions{Store: a.state, Controls: a.controls, Problem: a.problems.find, Problems: a.problems, Logger: c.logger, Registerer: reg})
	if err != nil {
		return nil, err
	}
	for i, r := range receivers {
		if r.Serve != nil {
			a.serve = append(a.serve, func(ctx context.Context) { r.Serve(ctx, func(err error) { c.receivers.served(i, err) }) })
		}
	}
	open := func(rules string, cfg engine.Config, o engine.Options) (*engine.Engine, error) {
		o.Decisions = a.controls.decisions
		o.Recorder, o.Notifiers, o.Standby, o.Logger = alertRecorder{a.rows, cfg.GroupBy}, append(append(o.Notifiers, a.problems), notifiers...), true, c.logger
		o.Leads = a.state.held
		o.Registerer = prometheus.WrapRegistererWith(prometheus.Labels{"rules": rules}, reg)
		engine, err := engine.New(ctx, cfg, o)
		if err != nil {
			return nil, fmt.Errorf("load the alert rules of %s: %w", rules, err)
		}
		a.engines = append(a.engines, engine)
		a.files.reload = append(a.files.reload, engine.Reload)
		return engine, nil
	}
	if a.calls, err = open("calls", cfg, engine.Options{Store: a.state, Unavailable: a.monitor.unavailable, History: c.history, Spent: c.spent}); err != nil {
		return nil, err
	}
	cfg.GroupBy = append(slices.Clone(cfg.GroupBy), healthLabel)
	o := engine.Options{Store: health, Health: true}
	if cfg.HeartbeatURL != "" {
		o.Notifiers = []alerts.Notifier{heartbeat.New(cfg.HeartbeatURL, nil)}
	}
	a.health, err = open("health", cfg, o)
	return a, err
}

// close closes the engines.
func (a *alertRole) close() {
	for _, engine := range slices.Backward(a.engines) {
		if err := engine.Close(); err != nil {
			a.logger.Error("alert engine did not close cleanly", "err", err)
		}
	}
}

// run evaluates and notifies until ctx ends.
func (a *alertRole) run(ctx context.Context) error {
	g, all := errgroup.WithContext(ctx)
	g.Go(func() error { return a.rows.Run(all) })
	g.Go(func() error { return a.files.run(all) })
	g.Go(func() error {
		a.controls.watch(all)
		return nil
	})
	g.Go(func() error {
		a.problems.watch(all)
		return nil
	})
	g.Go(func() error { return a.notify(all) })
	g.Go(func() error { return a.monitor.run(all, a.health, a.interval) })
	g.Go(func() error { return a.readTallies(all) })
	for _, serve := range a.serve {
		g.Go(func() error {
			serve(all)
			return nil
		})
	}
	if err := g.Wait(); ctx.Err() == nil { // Wait has canceled all, so only ctx tells whether the role was stopped
		return err
	}
	return nil
}

// notify delivers the engines' notifications while this process holds the lease.
func (a *alertRole) notify(ctx context.Context) error {
	return a.conn.WithLease(ctx, config.RoleAlert, a.owner, jetstream.LeaderTTL, func(leased context.Context, term *jetstream.Term) error {
		a.state.begin(term)
		a.awaitDecisions(leased)
		g, leased := errgroup.WithContext(leased)
		g.Go(func() error {
			a.controls.sweep(leased, a.problems.sweep, func(group string) bool { return a.calls.Open(group) || a.health.Open(group) })
			return nil
		})
		g.Go(func() error {
			a.problems.followUsers(leased)
			return nil
		})
		g.Go(func() error { return a.calls.Run(leased) })
		g.Go(func() error { return a.health.Run(leased) })
		return g.Wait()
	})
}

// awaitDecisions waits for the silences, but not long: a notification that somebody has silenced is better than none.
func (a *alertRole) awaitDecisions(ctx context.Context) {
	wait := time.NewTimer(decisionsTimeout)
	defer wait.Stop()
	select {
	case <-a.controls.decisions.Loaded():
	case <-ctx.Done():
	case <-wait.C:
		a.logger.Warn("silences cannot be read, notifying without them", "waited", decisionsTimeout)
	}
}

func (a *alertRole) readTallies(ctx context.Context) error {
	return readTallies(ctx, a.conn, a.logger, func(t *analyzer.Tally) error {
		a.monitor.observeTally(t)
		a.problems.hit(t)
		return a.calls.Add(ctx, t)
	})
}

// readTallies calls add with every tally until ctx ends or add fails. It counts a cause as new once, see newCauses.
func readTallies(ctx context.Context, conn *jetstream.Conn, logger *slog.Logger, add func(*analyzer.Tally) error) error {
	causes := newNewCauses()
	causes.load(ctx, conn, logger)
	return conn.ReadTallies(ctx, func(payload []byte, _ uint64, _ bool) error {
		var t analyzer.Tally
		if err := json.Unmarshal(payload, &t); err != nil {
			logger.Error("skipping unreadable tally", "err", err)
			return nil
		}
		causes.filter(&t)
		return add(&t)
	})
}

// An alertRecorder writes rows to the alerts table.
type alertRecorder struct {
	rows    *sinks.Batcher
	groupBy []string // engine.Config.GroupBy
}

func (r alertRecorder) RecordAlert(ctx context.Context, a alerts.Alert) error {
	if a.Severity() == severityNone {
		return nil
	}
	return r.rows.Add(ctx, &sinks.Batch{Alerts: []sinks.Alert{alertRow(&a, r.groupBy, time.Now())}}, nil)
}

func alertRow(a *alerts.Alert, groupBy []string, now time.Time) sinks.Alert {
	row := sinks.Alert{
		ID: a.ID(), Version: uint64(a.UpdatedAt.UnixNano()) + a.Revision, Name: a.Name, Severity: a.Labels["severity"], Labels: a.Labels,
		State: string(a.State), StartedAt: a.StartsAt, EndedAt: a.EndsAt, Value: a.Value, Peak: a.Peak,
		Failed: a.Evidence.Failed, Calls: a.Evidence.Calls, Shares: map[string]uint64{}, Summary: wording.Summary(a), NotifiedAt: now,
	}
	for _, s := range a.Evidence.Shares {
		row.Shares[s.ID()] += s.Failed
	}
	row.FirstBad, row.LastClean = a.Evidence.Regression()
	if a.Silence != nil {
		row.SilenceID, row.SilencedBy = a.Silence.ID, a.Silence.CreatedBy
	}
	if a.Inhibitor != nil {
		row.InhibitedBy = a.Inhibitor.ID
	}
	if a.Problem != "" {
		row.Problem = alerts.GroupID(engine.ProblemKey(a.Labels, groupBy, a.Problem))
	}
	if a.Evidence.Example != nil {
		row.Example = a.Evidence.Example.Exchange
	}
	return row
}

// A leasedStore stores the state of alerts in NATS. It refuses writes after the lease is lost, because the state then
// belongs to another process.
type leasedStore struct {
	kv   *jetstream.KV
	term atomic.Pointer[jetstream.Term] // nil before the first
	turn atomic.Uint64
}

var _ alerts.SharedStore = (*leasedStore)(nil)

// begin begins a term of this process.
func (s *leasedStore) begin(t *jetstream.Term) {
	if before := s.term.Swap(t); before == nil || t.Epoch != before.Epoch+1 {
		s.turn.Add(1)
	}
}

// held reports whether this process holds the lease.
func (s *leasedStore) held() bool {
	t := s.term.Load()
	return t != nil && t.Held()
}

// Turn implements alerts.SharedStore.
func (s *leasedStore) Turn() uint64 { return s.turn.Load() }

// Get implements alerts.Store.
func (s *leasedStore) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

// Put implements alerts.Store.
func (s *leasedStore) Put(ctx context.Context, key string, value []byte) error {
	if s.term.Load() != nil && !s.held() {
		return fmt.Errorf("put key %s: %w", key, jetstream.ErrLeaseLost)
	}
	return s.kv.Put(ctx, key, value)
}

// A prefixedStore stores the state of one engine under its own key prefix.
type prefixedStore struct {
	alerts.Store
	prefix string
}

func (s prefixedStore) Get(ctx context.Context, key string) ([]byte, error) {
	return s.Store.Get(ctx, s.prefix+key)
}

func (s prefixedStore) Put(ctx context.Context, key string, value []byte) error {
	return s.Store.Put(ctx, s.prefix+key, value)
}
