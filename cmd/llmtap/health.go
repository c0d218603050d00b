package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

const (
	observeTimeout = 4 * time.Second  // of one look at NATS and at the store
	inspectEvery   = 30 * time.Second // NATS: it costs some requests for each partition
)

// A health watches llmtap itself for the alert role: by the clock, because what is wrong may be that no tally comes.
//
//	NATS: how far each partition is read ─┐
//	ClickHouse: whether it answers ───────┼─> gauges, every 5 s ─> alerts.Engine of the health rules
//	tallies: how old the newest is ───────┘
type health struct {
	inspect func(context.Context) (*jetstream.State, error)
	ping    func(context.Context) error
	begun   time.Time

	state     *jetstream.State // as inspected last
	inspected time.Time        // when
	seen      error            // how that went

	mu      sync.Mutex    // guards the rest
	tallied map[int]int64 // by partition: second of the newest tally
	down    time.Time     // since when the store does not answer; zero while it does
}

// newHealth begins to watch at now: a tally that never came is as old as that.
func newHealth(inspect func(context.Context) (*jetstream.State, error), ping func(context.Context) error, now time.Time) *health {
	return &health{inspect: inspect, ping: ping, begun: now, tallied: map[int]int64{}}
}

func (h *health) saw(t *analyzer.Tally) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tallied[t.Partition] = max(h.tallied[t.Partition], t.Second)
}

// run feeds engine until ctx ends.
func (h *health) run(ctx context.Context, engine *alerts.Engine, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := engine.Observe(ctx, time.Now(), h.observe(ctx)); err != nil && ctx.Err() == nil {
			return fmt.Errorf("evaluate the rules of llmtap's health: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// observe looks at everything. What does not answer has no gauges but the one that says so.
func (h *health) observe(ctx context.Context) []alerts.Gauge {
	var up error
	var g sync.WaitGroup
	look, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	if now := time.Now(); h.inspected.IsZero() || now.Sub(h.inspected) >= inspectEvery {
		h.inspected = now
		g.Go(func() { h.state, h.seen = h.inspect(look) })
	}
	g.Go(func() { up = h.ping(look) })
	g.Wait()
	h.answered(up == nil)
	counts := []alerts.Gauge{
		{Metric: rules.MetricStoreUp, Value: number(up == nil)},
		{Metric: rules.MetricObserved, Value: number(h.seen == nil)},
	}
	if h.seen != nil {
		return counts
	}
	st := h.state
	now := time.Now().Add(st.Skew) // stream time is the server's
	for i := range st.Partitions {
		p := &st.Partitions[i]
		add := func(metric string, value float64) {
			counts = append(counts, alerts.Gauge{Metric: metric, Labels: map[string]string{"partition": strconv.Itoa(i)}, Value: value})
		}
		add(rules.MetricTallyAge, seconds(now.Sub(h.newest(i))))
		add(rules.MetricUnread, float64(p.Lost))
		age := time.Duration(0)
		if p.Pending > 0 {
			age = now.Sub(p.OldestPending)
		}
		add(rules.MetricBacklogAge, seconds(age))
		add(rules.MetricBacklogRatio, backlogRatio(st, p, age))
	}
	return counts
}

// answered notes whether the store did.
func (h *health) answered(up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case up:
		h.down = time.Time{}
	case h.down.IsZero():
		h.down = time.Now()
	}
}

// missing is what alerts say they cannot offer now, see alerts.Options.
func (h *health) missing() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down.IsZero() {
		return ""
	}
	return fmt.Sprintf("ClickHouse has not answered since %s. What stands here comes from NATS and is complete; "+
		"the calls themselves, and queries, can only be looked at when ClickHouse is back.", h.down.UTC().Format("15:04:05 UTC"))
}

// newest is when the newest tally of a partition ended, or when watching began.
func (h *health) newest(partition int) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := time.Unix(h.tallied[partition]+1, 0)
	if t.Before(h.begun) {
		return h.begun // tallies from before this process started are being read
	}
	return t
}

// backlogRatio returns the part of the stream's limit that waits to be stored, by age or by bytes, whichever is more. It is
// in whole hundredths, so that alerts do not change with every observation.
func backlogRatio(st *jetstream.State, p *jetstream.PartitionState, age time.Duration) float64 {
	for i := range st.Streams {
		s := &st.Streams[i]
		if s.Name != event.StreamEvents {
			continue
		}
		ratio := 0.0
		if s.MaxAge > 0 {
			ratio = age.Seconds() / s.MaxAge.Seconds()
		}
		if s.MaxBytes > 0 && s.Messages > 0 {
			ratio = max(ratio, float64(p.Pending)/float64(s.Messages)*float64(s.Bytes)/float64(s.MaxBytes))
		}
		return math.Floor(100*max(ratio, 0)) / 100
	}
	return 0
}

func seconds(d time.Duration) float64 { return math.Floor(max(d.Seconds(), 0)) }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// prefixed keeps one engine's state apart from another's.
type prefixed struct {
	alerts.Store
	prefix string
}

func (s prefixed) Get(ctx context.Context, key string) ([]byte, error) {
	return s.Store.Get(ctx, s.prefix+key)
}

func (s prefixed) Put(ctx context.Context, key string, value []byte) error {
	return s.Store.Put(ctx, s.prefix+key, value)
}
