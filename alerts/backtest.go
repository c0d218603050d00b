package alerts

import (
	"context"
	"iter"

	"github.com/llmtap/llmtap/analyzer"
)

// Backtest evaluates the rules of cfg over tallies as the live engine does, and calls tell with each alert: when it is
// over, or at the end of the tallies, firing still. Tallies come in order of their seconds; seconds without counts may be
// left out, but for the last one, until which the rules are evaluated. Rules of llmtap's own health are left out: nobody
// keeps what they ask for. An error of tallies or tell ends it.
func Backtest(ctx context.Context, cfg Config, tallies iter.Seq2[*analyzer.Tally, error], tell func(Alert) error) error {
	e, err := New(ctx, cfg, Options{})
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }() // only a temporary directory
	told := map[*tracked]bool{}
	for t, err := range tallies {
		if err != nil {
			return err
		}
		if err := e.Add(ctx, t); err != nil {
			return err
		}
		if err := e.takeOver(told, tell); err != nil {
			return err
		}
	}
	for _, n := range e.sortedNotices() {
		for _, a := range n.alerts {
			if a.State == Firing {
				a.FoundLate = false
				if err := tell(a.best()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// best is a with the evidence of its peak.
func (a *tracked) best() Alert {
	out := a.Alert
	if a.peak.Calls > 0 {
		out.Evidence = a.peak
	}
	return out
}

// takeOver tells of the alerts that are over, and forgets groups in which nothing fires, as delivery does.
func (e *Engine) takeOver(told map[*tracked]bool, tell func(Alert) error) error {
	for _, n := range e.sortedNotices() {
		for _, a := range n.alerts {
			if a.State == Resolved && !told[a] {
				told[a], a.FoundLate = true, false
				if err := tell(a.Alert); err != nil {
					return err
				}
			}
		}
		if !n.firing() {
			delete(e.notices, n.key)
			for _, a := range n.alerts {
				delete(told, a)
			}
		}
	}
	return nil
}
