package alerts

import (
	"context"
	"iter"

	"github.com/llmtap/llmtap/analyzer"
)

// Backtest evaluates the rules of cfg over stored tallies as the live engine does. It calls report with each alert once
// the alert is resolved, and with alerts that still fire at the end of the tallies. Tallies must be ordered by second.
// Seconds without counts may be omitted, except the last one, which ends the evaluation. Rules about llmtap's own
// health are skipped because their gauges are not stored. Backtest stops at the first error of tallies or report.
func Backtest(ctx context.Context, cfg Config, tallies iter.Seq2[*analyzer.Tally, error], report func(Alert) error) error {
	e, err := New(ctx, cfg, Options{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // only a temporary directory
	for t, err := range tallies {
		if err == nil {
			err = e.Add(ctx, t)
		}
		if err == nil {
			err = e.groups.reportResolved(report)
		}
		if err != nil {
			return err
		}
	}
	for _, o := range e.groups.sorted() {
		for _, a := range o.alerts {
			if a.State != Firing {
				continue
			}
			out := a.Alert
			out.FoundLate = false
			if a.peak.Failed > 0 {
				out.Evidence = a.peak.endsWith(&a.Evidence)
			}
			if err := report(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportResolved reports each resolved alert once and closes the groups in which nothing fires.
func (g *groups) reportResolved(report func(Alert) error) error {
	for _, o := range g.sorted() {
		for _, a := range o.alerts {
			if a.State != Resolved || a.reported {
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
