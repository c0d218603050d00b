package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// pasts returns what is stored of x until a time.
func (x traffic) pasts(rnd *rand.Rand, until time.Time, hours int) (list []Past) {
	until = until.Truncate(pastMinutes * time.Minute)
	for at := until.Add(-time.Duration(hours) * time.Hour); at.Before(until); at = at.Add(pastMinutes * time.Minute) {
		p := Past{Service: "checkout-agent", Environment: "prod", Stage: "planner", At: at}
		var limit uint64
		for range pastMinutes {
			for _, c := range x.minute(rnd, at.Unix()).Counts {
				switch {
				case c.Metric == analyzer.MetricCalls:
					p.Calls += c.N
					p.Measured.Merge(c.Measured)
				case c.Labels["ended"] == analyzer.EndedLimit:
					limit += c.N
				}
			}
		}
		p.Shares = map[string]PastShare{analyzer.OddID(analyzer.EndedLimit): {N: limit, Of: p.Calls}}
		list = append(list, p)
	}
	return list
}

// An engine that starts for the first time learns what the stored calls of the last weeks say, without alarms about them. While they cannot
// be read, it evaluates as always. Nothing is learned twice: not after a restart, and not by a standby that takes over.
func TestHistory(t *testing.T) {
	slowtest.SkipShort(t, "slow, and without concurrency for the race detector")
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * 24 * time.Hour)
		rnd := rand.New(rand.NewPCG(1, 1))
		x := healthy
		x.empty = 0
		stored := x.pasts(rnd, time.Now().Add(-time.Hour), 15*24)
		outage := x
		outage.ms *= 20 // in the last hour
		stored = append(stored, outage.pasts(rnd, time.Now(), 1)...)
		var asked, slow atomic.Int64
		down := errors.New("ClickHouse is down")
		history := func(ctx context.Context, services []string, from, until time.Time) (list []Past, err error) {
			switch n := asked.Add(1); {
			case n <= 2:
				return nil, down
			case n == 3:
				slow.Add(1)
				time.Sleep(4 * time.Minute)
				slow.Add(-1)
			}
			for _, p := range stored {
				if !p.At.Before(from) && p.At.Before(until) {
					list = append(list, p)
				}
			}
			return list, ctx.Err()
		}
		own := &alertstest.Store{}
		standby := newEngine(t, usualConfig(), Options{Store: own, History: history, Standby: true, Notifiers: []alerts.Notifier{&notifier{}}})
		e := newEngine(t, usualConfig(), Options{Store: own, History: history, Notifiers: []alerts.Notifier{&notifier{}}})
		stop := must.Run(t, e.Run)
		must.Equal(t, len(x.play(t, rnd, 4, e, standby)), 0, "alerts while ClickHouse is down")
		must.Equal(t, slow.Load(), 1, "reads that last long")
		step := e.steps.last()
		must.Equal(t, len(x.play(t, rnd, 2, e, standby)), 0, "alerts meanwhile")
		must.Equal(t, e.steps.last()-step, 120, "seconds evaluated meanwhile")
		must.Equal(t, len(x.play(t, rnd, 10, e, standby)), 0, "alerts after it was read")
		reads := asked.Load()
		if u := e.samples.usuals; !u.known || !u.stages[stageKey{"checkout-agent", "prod", "planner"}].history || reads < 28*4 {
			t.Fatalf("nothing was read in %d reads", reads)
		}
		stop()
		restarted := newEngine(t, usualConfig(), Options{Store: own, History: history, Notifiers: []alerts.Notifier{&notifier{}}})
		must.Run(t, restarted.Run)
		must.Run(t, standby.Run)
		must.Equal(t, len(x.play(t, rnd, 30, restarted, standby))+len(standby.Active()), 0, "alerts after a restart")
		must.Equal(t, asked.Load(), reads, "reads after a restart")
		x.ms *= 4
		for name, list := range map[string][]alerts.Alert{"restarted": x.play(t, rnd, 20, restarted, standby), "standby": standby.Active()} {
			if len(list) != 1 || !strings.Contains(list[0].Annotations["description"], "compared with this hour of the weeks before") {
				t.Errorf("%s: %d alerts, want one compared with the weeks before: %v", name, len(list), list)
			}
		}
	})
}
