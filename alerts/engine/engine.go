package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

// Options configure an Engine. All may be zero.
type Options struct {
	Notifiers []alerts.Notifier
	// Recorder stores alerts for later queries: when an alert fires, at every material change and when it is resolved. Alert.ID
	// identifies the row. RecordAlert is retried after an error. May be nil.
	Recorder interface {
		RecordAlert(ctx context.Context, a alerts.Alert) error
	}
	Store alerts.Store // if nil, firing alerts are notified again after a restart
	// Standby is set for several engines that share a Store. They all evaluate, but notify only during Run, which must
	// be active in only one of them at a time.
	Standby bool
	// Leads reports whether a Standby engine may notify now. It is asked before each notification, because a process that was
	// suspended continues in Run although another one has replaced it. If nil, it may during Run.
	Leads func() bool
	// Health is set for an engine that evaluates the rules about llmtap itself, over the gauges passed to Observe. It
	// requires its own Store and Registerer. All other engines evaluate the other rules.
	Health bool
	// Decisions are the silences and acknowledgements. May be nil.
	Decisions *Decisions
	// History reads what is stored of the calls of the last weeks, for stages of which the Store knows nothing. May be nil.
	History History
	// Spent returns what measured calls cost by hour and service in [from, to), from the store of calls. It is asked once for each budget
	// that is new. May be nil.
	Spent func(ctx context.Context, from, to time.Time) ([]Spent, error)
	// Unavailable returns the text of Alert.Unavailable. It must not block.
	Unavailable func() string
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// An Engine evaluates alert rules over tallies and notifies receivers. Add accepts tallies, Run delivers notifications.
type Engine struct {
	cfg         Config
	log         *slog.Logger
	m           *metrics
	health      bool
	standby     bool
	unavailable func() string
	history     History
	spent       func(ctx context.Context, from, to time.Time) ([]Spent, error)
	expected    []Gauge // applied at each step
	concurrent  int     // rules evaluated at a time; 1 except in a backtest

	dispatcher *dispatcher
	state      *state

	mu      sync.Mutex // guards the rest
	rules   []*rules.Rule
	steps   *steps
	samples *samples
	quiet   *quietTimes
	groups  *groups
	closed  bool

	ruleStates struct { // result of Rules
		step int64
		list []RuleState
	}
}

// New returns an engine with loaded rules and restored state. The caller must call Close.
func New(ctx context.Context, cfg Config, o Options) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	list, err := cfg.loadRules(o.Health)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Unavailable == nil {
		o.Unavailable = func() string { return "" }
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	var receivers []*receiver
	for _, n := range o.Notifiers {
		receivers = append(receivers, newReceiver(n))
	}
	if o.Recorder != nil {
		receivers = append(receivers, newReceiver(recorder(o.Recorder.RecordAlert)))
	}
	inhibit, err := cfg.inhibitRules()
	if err != nil {
		return nil, err
	}
	m, v, changed := newMetrics(o.Registerer), newVersions(), newSignal()
	g := &groups{cfg: cfg, m: m, receivers: receivers, decisions: o.Decisions, inhibitRules: inhibit, open: map[string]*openGroup{}, leads: !o.Standby}
	e := &Engine{
		cfg: cfg, log: o.Logger, m: m, health: o.Health, standby: o.Standby, unavailable: o.Unavailable, history: o.History, spent: o.Spent, rules: list, steps: newSteps(cfg), groups: g,
		quiet: newQuiet(), concurrent: 1,
	}
	e.dispatcher = &dispatcher{cfg: cfg, m: m, log: o.Logger, receivers: receivers, changed: changed, leads: o.Leads, mu: &e.mu, groups: g}
	e.state = &state{store: o.Store, log: o.Logger, m: m, changed: changed, intended: e.dispatcher.wake, mu: &e.mu, groups: g, versions: v, quiet: e.quiet}
	if !o.Health {
		e.expected, e.state.usuals, e.state.budgets = expected(cfg), newUsuals(cfg, m), newBudgets(cfg)
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	if e.standby {
		// Alerts before the leader's last evaluation belong to the leader.
		progress, err := e.state.progress(ctx)
		if err != nil {
			m.failed(o.Logger, "store", err)
		}
		g.evaluated = progress.LastStep
		e.quiet.restore(progress.Quiet)
		if err := e.state.loadLearned(ctx); err != nil {
			m.failed(o.Logger, "store", err)
		}
	} else {
		saved, err := e.state.load(ctx)
		if err != nil {
			return nil, err
		}
		g.open, g.evaluated = saved.groups, saved.evaluated
		v.restore(saved.versions)
		e.quiet.restore(saved.quiet)
		if err := e.state.loadLearned(ctx); err != nil {
			return nil, err
		}
	}
	e.samples = newSamples(cfg, longestWindow(list), v, m)
	e.samples.usuals, e.samples.budgets = e.state.usuals, e.state.budgets
	if o.Registerer != nil {
		if err := o.Registerer.Register(newWaiting(e)); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return e, nil
}

// loadRules returns the rules about llmtap's own health if health is set, otherwise the other rules.
func (c Config) loadRules(health bool) ([]*rules.Rule, error) {
	list, err := c.Rules().Load()
	return slices.DeleteFunc(list, func(r *rules.Rule) bool { return r.Health != health }), err
}

func longestWindow(list []*rules.Rule) (longest time.Duration) {
	for _, r := range list {
		longest = max(longest, r.Window)
	}
	return longest
}

// Close deletes the samples. It must be called after Run has returned.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return e.samples.Close()
}

// Add counts a tally and evaluates every step that it completes. A tally that is not newer than the partition's last
// one is ignored. The engine retains t; the caller must not modify it. If ctx ends, the tally is still counted and the
// next Add evaluates the remaining steps.
func (e *Engine) Add(ctx context.Context, t *analyzer.Tally) error {
	return e.add(ctx, tally{Tally: t})
}

// A Gauge is the current value of one series.
type Gauge struct {
	Metric string
	Labels map[string]string
	Value  float64
}

// Observe evaluates the rules of a Health engine at now over gauges; each gauge is valid until the next call. Observe
// must be called every Config.EvaluationInterval; more frequent calls have no effect.
func (e *Engine) Observe(ctx context.Context, now time.Time, gauges []Gauge) error {
	interval := int64(e.cfg.EvaluationInterval.Seconds())
	return e.add(ctx, tally{Tally: &analyzer.Tally{Second: now.Unix()/interval*interval - 1}, gauges: gauges})
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// expected returns the gauges of Config.Services.
func expected(cfg Config) []Gauge {
	var gauges []Gauge
	for _, s := range cfg.Services {
		gauges = append(gauges, Gauge{rules.MetricExpected, map[string]string{"service": s}, 1})
	}
	return gauges
}

func (e *Engine) add(ctx context.Context, t tally) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("add tally: the engine is closed")
	}
	e.m.talliesReceived.Inc()
	late, stale, err := e.steps.add(t)
	switch {
	case err != nil:
		return err
	case stale:
		e.m.talliesDropped.WithLabelValues("stale").Inc()
		return nil
	case late:
		e.m.talliesLate.Inc()
	}
	for ctx.Err() == nil {
		step, tallies, ok := e.steps.take()
		if !ok {
			return nil
		}
		e.evaluate(ctx, step, tallies)
	}
	return ctx.Err()
}

// result returns the result of the last evaluation; step is its time.
func (e *Engine) result(step int64) *evaluation {
	at, fires := time.Unix(step, 0).UTC(), e.groups.firing()
	return &evaluation{
		at: at, covered: time.Duration(step-e.steps.first) * time.Second, unavailable: e.unavailable(),
		firing: firingOf(e.rules, func(key string, inst *rules.Instance) bool {
			return fires[key] || newFailure(e.samples.lastFailure(inst, step), inst.Before)
		}),
		pending: func(key string) bool {
			return slices.ContainsFunc(e.rules, func(r *rules.Rule) bool { return r.Active[key] != nil && !r.Active[key].Firing })
		},
		evidence: func(inst *rules.Instance) (alerts.Evidence, time.Time) { return e.samples.evidence(inst, step) },
		common: func(target, source *alerts.Alert, until time.Time) common {
			t, s := e.instance(target), e.instance(source)
			if t == nil || s == nil {
				return common{}
			}
			return e.samples.common(t, s, until.Unix(), step)
		},
		later: func(a *alerts.Alert) alerts.Evidence {
			if inst := e.instance(a); inst != nil {
				return e.samples.later(inst, a, step)
			}
			return a.Evidence
		},
	}
}

// instance returns the instance of a, without a state, or nil if no rule has such an alert.
func (e *Engine) instance(a *alerts.Alert) *rules.Instance {
	for _, r := range e.rules {
		if r.Name != a.Name {
			continue
		}
		if inst := r.Instance(a.Labels); inst != nil {
			return inst
		}
	}
	return nil
}

// Expr returns the expression of the rule of a, or "" if e has no such rule.
func (e *Engine) Expr(a *alerts.Alert) string {
	e.mu.Lock()
	inst := e.instance(a)
	e.mu.Unlock()
	if inst == nil {
		return ""
	}
	return inst.Rule.Expr()
}

// Active returns the firing alerts of a leading engine, except alerts inhibited by a higher severity.
func (e *Engine) Active() []alerts.Alert {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.groups.active()
}

// Groups returns the open groups, sorted by key. An engine that does not lead may not know the start of an older incident.
func (e *Engine) Groups() (list []alerts.Group) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.groups.sorted() {
		list = append(list, o.group())
	}
	return list
}

// Open reports whether the group with this key is open.
func (e *Engine) Open(group string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.groups.open[group] != nil
}

// Run notifies the receivers until ctx ends, then writes the state one last time. It returns nil. A Standby engine
// starts from the state that the previous leader has written; its Run may be called again later.
func (e *Engine) Run(ctx context.Context) error {
	if e.standby {
		for !e.lead(ctx) {
			if !newSignal().wait(ctx, leadRetry) {
				return nil
			}
		}
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.groups.leads = false
		}()
	}
	e.decide()
	var g sync.WaitGroup
	g.Go(func() { e.state.run(ctx) })
	g.Go(func() { e.dispatcher.run(ctx) })
	g.Go(func() { e.followDecisions(ctx) })
	g.Go(func() { e.seed(ctx) })
	g.Go(func() { e.state.seedBudgets(ctx, e.spent) })
	g.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTimeout)
	defer cancel()
	e.state.save(last, true)
	e.state.saveLearned(last, true)
	return nil
}

// followDecisions applies silences and acknowledgements as soon as they change, start or end, because evaluations may be
// seconds apart or, without tallies, missing.
func (e *Engine) followDecisions(ctx context.Context) {
	changed, stop := e.groups.decisions.listen()
	defer stop()
	for changed.wait(ctx, e.decide()) {
	}
}

// decide applies the silences and acknowledgements. It returns the time until the next start or end of a silence, or 0 if
// there is none.
func (e *Engine) decide() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.groups.decide(now) {
		e.state.changed.raise()
		e.dispatcher.wake()
	}
	if e.groups.nextSilence.IsZero() {
		return 0
	}
	return max(e.groups.nextSilence.Sub(now), time.Millisecond)
}

// lead takes over from the previous leader; it returns false if the stored state cannot be read.
func (e *Engine) lead(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	saved, err := e.state.load(ctx)
	if err == nil {
		err = e.state.loadLearned(ctx)
	}
	if err != nil {
		e.m.failed(e.log, "store", err)
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var ev *evaluation
	if e.steps.next > 0 {
		ev = e.result(e.steps.last())
	}
	e.samples.versions.restore(saved.versions)
	e.quiet.restore(saved.quiet)
	e.groups.lead(saved, ev)
	return true
}

// Reload loads the rule files again. A rule keeps its alerts if it is unchanged, apart from annotations. All other
// rules are evaluated at the last step, so alerts that a changed rule still finds continue, and alerts without a rule
// are resolved at the next step. Counts and sent notifications are preserved, so windows and baselines remain complete.
// Only the evidence of a window longer than all previous windows starts empty. If Reload fails, it changes nothing, and
// the metric llmtap_alerts_rules_last_reload_successful is 0 until a Reload succeeds.
func (e *Engine) Reload(ctx context.Context) error {
	list, err := e.cfg.loadRules(e.health)
	if err != nil {
		e.m.reloaded.Set(0)
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	before, added := slices.Clone(e.rules), []*rules.Rule(nil)
	for _, r := range list {
		if i := slices.IndexFunc(before, r.Inherit); i >= 0 {
			before = slices.Delete(before, i, i+1)
		} else if e.steps.next > 0 {
			added = append(added, r)
		}
	}
	e.evaluateRules(ctx, added, e.steps.last())
	for _, r := range before {
		e.groups.release(r)
	}
	e.rules, e.samples.window, e.ruleStates.list = list, int64(longestWindow(list).Seconds()), nil
	e.m.reloaded.Set(1)
	return nil
}
