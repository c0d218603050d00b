package collector

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	probeInterval   = 5 * time.Second  // time between probes of NATS and the store
	probeTimeout    = 4 * time.Second  // timeout of one probe
	inspectInterval = 30 * time.Second // time between inspections of NATS; each sends several requests per partition
)

// A monitor observes llmtap itself for the alert role. It runs on a timer, because the fault may be that no tallies arrive.
//
//	NATS: read position of each partition ─┐
//	ClickHouse: reachable or not ──────────┤
//	disk of the embedded NATS ─────────────┼─> gauges ───────────> engine.Engine of the health rules
//	tallies: age of the newest one ────────┘
type monitor struct {
	inspect func(context.Context) (*jetstream.State, error)
	ping    func(context.Context) error
	disk    *diskGuard // nil if NATS is external
	started time.Time

	inspected time.Time // time of the last inspection; used by probe only

	mu         sync.Mutex       // guards the fields below
	state      *jetstream.State // result of the last inspection
	inspectErr error
	pingErr    error         // result of the last ping
	lastTally  map[int]int64 // second of the newest tally by partition
	downSince  time.Time     // time at which the store became unreachable; zero while it is reachable
}

// newMonitor returns a monitor that starts at now. For a partition without tallies, the age is counted from now.
func newMonitor(inspect func(context.Context) (*jetstream.State, error), ping func(context.Context) error, now time.Time) *monitor {
	return &monitor{inspect: inspect, ping: ping, started: now, lastTally: map[int]int64{}}
}

func (m *monitor) observeTally(t *analyzer.Tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastTally[t.Partition] = max(m.lastTally[t.Partition], t.Second)
}

// run feeds engine until ctx ends. Probes are separate, because a server may not answer for longer than interval, and a gauge
// ends when it is not observed at a step.
func (m *monitor) run(ctx context.Context, engine *engine.Engine, interval time.Duration) error {
	m.probe(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	probing, stop := context.WithCancel(ctx)
	defer stop()
	probes.Go(func() {
		for {
			if sleep(probing, probeInterval); probing.Err() != nil {
				return
			}
			m.probe(probing)
		}
	})
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := engine.Observe(ctx, time.Now(), m.gauges()); err != nil && ctx.Err() == nil {
			return fmt.Errorf("evaluate the health rules: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// probe requests the state of NATS, if it is due, and of the store.
func (m *monitor) probe(ctx context.Context) {
	timeout, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var g sync.WaitGroup
	if now := time.Now(); m.inspected.IsZero() || now.Sub(m.inspected) >= inspectInterval {
		m.inspected = now
		g.Go(func() {
			state, err := m.inspect(timeout)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.state, m.inspectErr = state, err
		})
	}
	err := m.ping(timeout)
	m.setStoreUp(err)
	g.Wait()
}

// gauges returns the results of the last probe. For an unreachable server, it returns only the gauge that reports the failure.
func (m *monitor) gauges() []engine.Gauge {
	m.mu.Lock()
	defer m.mu.Unlock()
	gauges := []engine.Gauge{{Metric: rules.MetricObserved, Value: boolValue(m.inspectErr == nil)}}
	stores := !errors.Is(m.pingErr, web.ErrNoStore) // otherwise nobody expects rows
	if stores {
		gauges = append(gauges, engine.Gauge{Metric: rules.MetricStoreUp, Value: boolValue(m.pingErr == nil)})
	}
	if free, ok := m.disk.freeReserves(); ok {
		gauges = append(gauges, engine.Gauge{Metric: rules.MetricDiskFree, Value: math.Floor(free*100) / 100})
	}
	if m.inspectErr != nil {
		return gauges
	}
	now := time.Now().Add(m.state.Skew) // stream time is the time of the NATS server
	for i := range m.state.Partitions {
		p := &m.state.Partitions[i]
		add := func(metric string, value float64) {
			gauges = append(gauges, engine.Gauge{Metric: metric, Labels: map[string]string{"partition": strconv.Itoa(i)}, Value: value})
		}
		add(rules.MetricTallyAge, seconds(now.Sub(m.tallyTime(i, m.state.Skew))))
		if !stores {
			continue
		}
		add(rules.MetricUnread, float64(p.Lost))
		age := time.Duration(0)
		if p.Pending > 0 {
			age = now.Sub(p.OldestPending)
		}
		add(rules.MetricBacklogAge, seconds(age))
		add(rules.MetricBacklogRatio, backlogRatio(m.state, p, age))
	}
	return gauges
}

// setStoreUp sets the result of a ping.
func (m *monitor) setStoreUp(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pingErr = err
	switch {
	case err == nil, errors.Is(err, web.ErrNoStore):
		m.downSince = time.Time{}
	case m.downSince.IsZero():
		m.downSince = time.Now()
	}
}

// unavailable returns a note for alerts while the store is unreachable, see engine.Options.
func (m *monitor) unavailable() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.downSince.IsZero() {
		return ""
	}
	return fmt.Sprintf("ClickHouse has been unreachable since %s. This alert is complete, because its data comes from NATS; "+
		"calls and queries are unavailable until ClickHouse is back.", m.downSince.UTC().Format("15:04:05 UTC"))
}

// tallyTime returns the end of the newest tally of a partition, or the start of the monitor if that is later. Both are
// times of the NATS server, whose clock is skew ahead. The caller holds mu.
func (m *monitor) tallyTime(partition int, skew time.Duration) time.Time {
	t := time.Unix(m.lastTally[partition]+1, 0)
	if started := m.started.Add(skew); t.Before(started) {
		return started // the tallies read so far are older than this process
	}
	return t
}

// backlogRatio returns the ratio of the pending events to the limits of the stream, by age or by bytes, whichever is
// higher. The ratio is rounded down to hundredths, so that alerts do not change with every observation.
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

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
