package engine

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

// BacktestOptions restrict and observe a Backtest.
type BacktestOptions struct {
	Rule string // name of the only rules to evaluate; empty: all
	// Observe, if set, is called at intervals of at least Every, in stream time, from the first tally on.
	Observe func(at time.Time, states []RuleState)
	Every   time.Duration
	// History reads the calls before the tallies, from which the rules that ask for it learn what is usual. May be nil.
	History History
}

// Backtest evaluates the rules of cfg over stored tallies as the live engine does, but on all cores. It calls report with
// each alert once the alert is resolved, and with alerts that still fire at the end of the tallies. Tallies must be ordered
// by second. Seconds without counts may be omitted, except the last one, which ends the evaluation. Rules about llmtap's
// own health are skipped because their gauges are not stored. Backtest stops at the first error of tallies, report or
// o.History.
func Backtest(ctx context.Context, cfg Config, o BacktestOptions, tallies iter.Seq2[*analyzer.Tally, error], report func(alerts.Alert) error) error {
	e, err := New(ctx, cfg, Options{History: o.History})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // only a temporary directory
	e.concurrent = runtime.GOMAXPROCS(0)
	if o.Rule != "" {
		e.rules = slices.DeleteFunc(e.rules, func(r *rules.Rule) bool { return r.Name != o.Rule })
	}
	needsUsual := slices.ContainsFunc(e.rules, func(r *rules.Rule) bool {
		return slices.ContainsFunc([]string{rules.MetricUnusual, rules.MetricUnusualSince, rules.MetricUsual, rules.MetricVersionEvidence}, r.Queries)
	})
	var observed int64
	add := func(t *analyzer.Tally) error {
		if err := e.Add(ctx, t); err != nil {
			return err
		}
		if err := e.groups.reportResolved(report); err != nil || o.Observe == nil || t.Second < observed+int64(o.Every.Seconds()) {
			return err
		}
		states, err := e.Rules(ctx)
		if err == nil {
			observed = t.Second
			o.Observe(time.Unix(t.Second, 0).UTC(), states)
		}
		return err
	}
	for t, err := range tallies {
		if err == nil && needsUsual && o.History != nil {
			needsUsual = false
			err = e.learnPast(ctx, nil, time.Unix(t.Second, 0))
		}
		for err == nil && o.Observe != nil && observed > 0 && t.Second > observed+int64(o.Every.Seconds()) { // seconds without counts
			err = add(&analyzer.Tally{Partition: t.Partition, Epoch: t.Epoch, Second: observed + int64(o.Every.Seconds())})
		}
		if err == nil {
			err = add(t)
		}
		if err != nil {
			return err
		}
	}
	for _, o := range e.groups.sorted() {
		for _, a := range o.alerts {
			if a.State != alerts.Firing {
				continue
			}
			out := a.Alert
			out.FoundLate = false
			if a.peak.Failed > 0 {
				out.Evidence = endsWith(a.peak, &a.Evidence)
			}
			if err := report(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportResolved reports each resolved alert once and closes the groups in which nothing fires.
func (g *groups) reportResolved(report func(alerts.Alert) error) error {
	for _, o := range g.sorted() {
		for _, a := range o.alerts {
			if a.State != alerts.Resolved || a.reported {
				continue
			}
			a.reported, a.FoundLate = true, false
			if err := report(a.Alert); err != nil {
				return err
			}
		}
		if !o.firing() && !o.hides {
			delete(g.open, o.key)
		}
	}
	return nil
}
