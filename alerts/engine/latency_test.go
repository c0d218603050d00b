package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// A narrow notifier takes 300 ms per call, and accepts one first message of a group per second.
type narrow struct {
	paced
	posted time.Time
	known  map[string]bool
}

func (n *narrow) Notify(ctx context.Context, g alerts.Group) error {
	time.Sleep(300 * time.Millisecond)
	if !n.known[g.Key] {
		if wait := time.Second - time.Since(n.posted); wait > 0 {
			return &alerts.RetryError{After: wait, Err: errors.New("a message a second")}
		}
		n.known[g.Key], n.posted = true, time.Now()
	}
	return n.paced.Notify(ctx, g)
}

// Many groups fire, and their numbers change continuously. A group that begins to fire meanwhile does not wait for them, not
// even if its first attempt is rejected, and the numbers of every group are sent eventually: with a pace for numbers, and
// without one, when the notifier is always busy.
func TestNewGroupsBeforeNumbers(t *testing.T) {
	slowtest.Skip(t)
	firstNotice(t, 1500*time.Millisecond)
	firstNotice(t, 0)
}

func firstNotice(t *testing.T, pace time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
		n := &narrow{paced: paced{pace: alerts.Pace{Numbers: pace}}, known: map[string]bool{}}
		e := newEngine(t, cfg, Options{Notifiers: []alerts.Notifier{n}})
		stop := must.Run(t, e.Run)
		counts := func(from, to int) (out []analyzer.Count) {
			for i := from; i < to; i++ {
				kv := with(planner("1"), "stage", fmt.Sprintf("stage %02d", i))
				out = append(out, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 20},
					analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "400", "cause", "x"), N: 7})
			}
			return out
		}
		pass(t, 300, counts(0, 60), e)
		began := time.Now()
		pass(t, 20, counts(0, 63), e)
		stop()

		first, sent := map[string]time.Time{}, map[string]int{}
		numbers := 0
		for i, g := range n.groups {
			if first[g.Key].IsZero() {
				first[g.Key] = n.at[i]
			} else {
				numbers++
			}
			sent[g.Key]++
		}
		if len(first) != 63 {
			t.Fatalf("%d groups were sent, want 63", len(first))
		}
		for key, at := range first {
			if late := at.Sub(began); late > 10*time.Second {
				t.Errorf("pace %v: %s was sent %v after it began", pace, key, late)
			}
			if sent[key] < 3 && at.Before(began.Add(-2*time.Minute)) {
				t.Errorf("pace %v: %s was sent %d times in minutes in which its numbers changed", pace, key, sent[key])
			}
		}
		if pace > 0 && numbers > int(320*time.Second/pace) {
			t.Errorf("pace %v: numbers were sent %d times in 320 s", pace, numbers)
		}
	})
}

// A limited notifier accepts one first message of a group per second. After a rejection, it does not call the receiver for a
// second, as Slack requires.
type limited struct {
	narrow
	until time.Time
}

func (n *limited) Notify(ctx context.Context, g alerts.Group) error {
	if n.known[g.Key] {
		return nil
	}
	if wait := time.Until(n.until); wait > 0 {
		return &alerts.RetryError{After: wait, Err: errors.New("limited")}
	}
	time.Sleep(100 * time.Millisecond)
	if time.Since(n.posted) < time.Second {
		n.until = time.Now().Add(time.Second)
		time.Sleep(time.Millisecond)
		return &alerts.RetryError{After: time.Second, Err: errors.New("a message a second")}
	}
	n.known[g.Key], n.posted = true, time.Now()
	return n.paced.Notify(ctx, g)
}

// Groups that a rate limit rejects are sent before groups that began later.
func TestRejectedGroupsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{"../rules/stage_failure_rate.yaml"}
		n := &limited{narrow: narrow{known: map[string]bool{}}}
		e := newEngine(t, cfg, Options{Notifiers: []alerts.Notifier{n}})
		stop := must.Run(t, e.Run)
		var counts []analyzer.Count
		began := map[string]time.Time{}
		for second := range 30 {
			for len(counts) < 2*min(6+second/2, 26) { // six stages, then one more every 2 s
				kv := with(planner("1"), "stage", fmt.Sprintf("stage %02d", 50-len(counts)))
				counts = append(counts, analyzer.Count{Metric: analyzer.MetricCalls, Labels: kv, N: 20},
					analyzer.Count{Metric: analyzer.MetricFailed, Labels: with(kv, "status", "400", "cause", "x"), N: 12})
				began[ProblemKey(kv, cfg.GroupBy, "x")] = time.Now()
			}
			must.Do(t, e.Add(t.Context(), &analyzer.Tally{Second: time.Now().Unix(), Counts: counts}))
			time.Sleep(time.Second)
		}
		stop()
		sent := map[string]bool{}
		for i, g := range n.groups {
			if wait := n.at[i].Sub(began[g.Key]); !sent[g.Key] && wait > 12*time.Second {
				t.Errorf("%s was sent %v after it began", g.Key, wait)
			}
			sent[g.Key] = true
		}
		if len(sent) < 15 {
			t.Errorf("%d groups were sent", len(sent))
		}
	})
}
