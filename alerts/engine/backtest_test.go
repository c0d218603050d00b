package engine

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A backtest over the seconds with counts finds the alerts of the live engine, which received every second.
func TestBacktest(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Default(), nil)
		start := b.sec
		var stored []*analyzer.Tally
		for i := range 3600 {
			y := &analyzer.Tally{Second: b.sec}
			if i%7 == 0 {
				y.Counts = append(y.Counts, calls("2.4.0", 3))
			}
			if (i > 600 && i < 700 || i > 2600 && i < 2900) && i%3 == 0 {
				y.Counts = append(y.Counts, calls("2.4.0", 2), failures("2.4.0", "orphan_tool_reply", "", 2))
			}
			if len(y.Counts) > 0 || i == 3599 {
				stored = append(stored, y)
			}
			b.add(y)
			b.sec++
			time.Sleep(time.Second)
		}
		synctest.Wait()
		type row struct {
			Name, Severity string
			State          alerts.State
			Start, End     time.Duration
			Peak           float64
			Failed, Calls  uint64
			FoundLate      bool
		}
		of := func(a alerts.Alert) row {
			r := row{Name: a.Name, Severity: a.Severity(), State: a.State, Start: a.StartsAt.Sub(time.Unix(start, 0)), FoundLate: a.FoundLate}
			if a.State == alerts.Resolved { // rows of firing alerts are as old as the last news
				r.End, r.Peak, r.Failed, r.Calls = a.EndsAt.Sub(time.Unix(start, 0)), a.Peak, a.Evidence.Failed, a.Evidence.Calls
			}
			return r
		}
		var live, got []row
		last := map[string]alerts.Alert{}
		b.rec.mu.Lock()
		for _, a := range b.rec.rows {
			last[a.ID()] = a
		}
		b.rec.mu.Unlock()
		for _, a := range last {
			live = append(live, of(a))
		}
		cfg := Default()
		cfg.EvaluationInterval = benchInterval
		time.Sleep(100 * time.Hour) // long ago
		err := Backtest(t.Context(), cfg, BacktestOptions{}, each(stored), func(a alerts.Alert) error {
			got = append(got, of(a))
			return nil
		})
		must.Do(t, err)
		for _, rows := range [][]row{live, got} {
			slices.SortFunc(rows, func(a, b row) int { return int(a.Start-b.Start) + len(a.Severity) - len(b.Severity) })
		}
		if diff := cmp.Diff(live, got); diff != "" || len(got) != 2 {
			t.Errorf("%d alerts; backtest (-live +backtest):\n%s", len(got), diff)
		}
	})
}

func each(tallies []*analyzer.Tally) iter.Seq2[*analyzer.Tally, error] {
	return func(yield func(*analyzer.Tally, error) bool) {
		for _, y := range tallies {
			if !yield(y, nil) {
				return
			}
		}
	}
}

// An error of the tallies or of the report ends a backtest.
func TestBacktestErrors(t *testing.T) {
	cfg := Default()
	cfg.EvaluationInterval = benchInterval
	broken := errors.New("broken")
	must.Is(t, Backtest(t.Context(), cfg, BacktestOptions{}, func(yield func(*analyzer.Tally, error) bool) { yield(nil, broken) }, nil), broken)
	tallies := []*analyzer.Tally{{Second: 1_000_000, Counts: []analyzer.Count{calls("1", 50), failures("1", "auth", "", 50)}}, {Second: 1_000_010}}
	must.Is(t, Backtest(t.Context(), cfg, BacktestOptions{}, each(tallies), func(alerts.Alert) error { return broken }), broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, Backtest(ctx, cfg, BacktestOptions{}, each(tallies), nil), context.Canceled)
	cfg.RuleFiles = []string{"absent.yaml"}
	must.Fail(t, Backtest(t.Context(), cfg, BacktestOptions{}, each(tallies), nil), "", "a missing rule file was accepted")
}
