package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/deploy/bench/process"
)

const (
	sustainedDrain = 5 * time.Second  // see doc.go
	idleLimit      = 20 * time.Second // time for merges after the measured phase
	stallTime      = time.Minute
	alertLimit     = 15 * time.Second // time for the last alerts
)

// A phase is a time in which the fleet publishes at one rate.
type phase struct {
	name     string
	rate     float64 // calls per second
	duration time.Duration
	then     float64 // rate after the duration, until llmtap has caught up; 0: nothing is published then
	outage   bool    // ClickHouse is stopped for the duration
	sample   time.Duration
}

// brief reports whether p only prepares the measurement.
func (p *phase) brief() bool { return p.name == "search" || p.name == "warm-up" }

// A running phase.
type running struct {
	*bench
	phase
	m         *Measurement
	start     time.Time
	prober    *prober
	canary    *canary // nil if alerts are not received
	published int64   // before the phase
	peak      Backlog
}

// A Backlog is what waits in the stream.
type Backlog struct {
	Calls int64 `json:"calls"`
	Bytes int64 `json:"stream_bytes"` // of the whole stream, which also keeps stored events for a while
}

// phase runs p and returns what was measured.
func (b *bench) phase(ctx context.Context, p phase) (*Measurement, error) {
	r := &running{bench: b, phase: p, m: &Measurement{Phase: p.name, Rate: p.rate}, published: b.fleet.published.Load()}
	if p.name != "search" {
		b.Progress.Printf("%s: %.0f calls/s for %v", p.name, p.rate, p.duration)
	}
	r.prober = &prober{store: b.target.store, waiting: map[string]probe{}}
	before, err := b.counters(ctx)
	if err != nil {
		return nil, err
	}
	stopWatch := process.Watch(append(b.target.processes(), process.Process{Name: Load, PID: os.Getpid()}))
	r.start = time.Now()
	if err := r.run(ctx); err != nil {
		stopWatch()
		return nil, err
	}
	if p.name == "run" {
		process.Idle(ctx, b.target.processes(), idleLimit)
	}
	usage := stopWatch()
	after, err := b.counters(ctx)
	if err != nil {
		return nil, err
	}
	r.m.use(usage)
	r.m.count(before, after)
	return r.m, r.audit(ctx)
}

// run publishes, observes and waits until everything is stored.
func (r *running) run(ctx context.Context) error {
	observers, stop := context.WithCancel(ctx)
	var observing sync.WaitGroup
	defer observing.Wait()
	defer stop()
	observing.Go(func() { r.prober.run(observers) })
	observing.Go(func() { r.observe(observers) })
	if r.sample > 0 {
		observing.Go(func() { r.takeSamples(observers) })
	}
	endCanary := func() {}
	if r.target.receiver != nil && !r.brief() {
		var err error
		if r.canary, err = newCanary(ctx, r.bench); err != nil {
			return err
		}
		defer r.canary.conn.Close()
		r.target.receiver.begin()
		publishing, stopCanary := context.WithCancel(ctx)
		var canary sync.WaitGroup
		canary.Go(func() {
			if err := r.canary.run(publishing, r.duration); err != nil {
				r.Progress.Printf("%v", err) // the alerts are missing in the report
			}
		})
		endCanary = func() { stopCanary(); canary.Wait() }
		defer endCanary() // again, if there is an error
	}
	over, err := r.publish(ctx)
	if err != nil {
		return err
	}
	endCanary()
	if r.canary != nil {
		r.canary.wait(ctx, alertLimit)
		r.m.alerts(r.canary, over)
		r.m.Alarms = r.target.receiver.alarms()
	}
	for end := time.Now().Add(pollTimeout); r.prober.count() > 0 && time.Now().Before(end) && ctx.Err() == nil; { // of the calls stored last
		wait(ctx, pollEvery)
	}
	stop()
	observing.Wait()
	r.m.Queryable = latency(r.prober.took)
	r.m.Queryable.Missing = len(r.prober.waiting)
	r.m.Backlog = r.peak
	return nil
}

// publish publishes the calls of the phase, and waits until they are stored. It returns the time of the end of the duration.
func (r *running) publish(ctx context.Context) (over time.Time, err error) {
	if r.outage {
		if err := r.signalEngine(syscall.SIGSTOP); err != nil {
			return over, err
		}
		defer func() { _ = r.signalEngine(syscall.SIGCONT) }() // it runs already, unless there was an error
	}
	events, bytes, failed := r.fleet.events.Load(), r.fleet.bytes.Load(), r.fleet.failed.Load()
	if r.m.Kept, err = r.fleet.run(ctx, r.rate, r.duration, r.prober.add); err != nil {
		return over, err
	}
	over = time.Now()
	if r.outage {
		if err := r.signalEngine(syscall.SIGCONT); err != nil {
			return over, err
		}
	}
	if r.then > 0 {
		r.Progress.Printf("%s: %.0f calls/s until all are stored", r.name, r.then)
	}
	for catching := (catchUp{}); r.then > 0 && ctx.Err() == nil; {
		if _, err := r.fleet.run(ctx, r.then, 5*time.Second, r.prober.add); err != nil {
			return over, err
		}
		stored, err := r.stored(ctx)
		if waiting := r.waiting(stored); err == nil && float64(waiting) < r.then*sustainedDrain.Seconds() || catching.stalled(waiting, err) {
			break
		}
	}
	r.m.Calls, r.m.Events, r.m.Bytes = r.fleet.published.Load()-r.published, r.fleet.events.Load()-events, r.fleet.bytes.Load()-bytes
	r.m.Failed = r.fleet.failed.Load() - failed
	end := time.Now()
	r.m.Seconds = end.Sub(r.start).Seconds()
	r.drain(ctx)
	r.m.DrainSeconds = time.Since(end).Seconds()
	if r.then > 0 {
		r.m.DrainSeconds = time.Since(over).Seconds()
	}
	r.m.Sustained = r.m.Kept > 0.97 && r.m.DrainSeconds <= sustainedDrain.Seconds()
	return over, ctx.Err()
}

func (r *running) signalEngine(s syscall.Signal) error { return syscall.Kill(r.target.engine.PID, s) }

// drain waits until all calls are stored, or no more are.
func (r *running) drain(ctx context.Context) {
	for catching := (catchUp{}); ctx.Err() == nil; wait(ctx, pollEvery) {
		stored, err := r.stored(ctx)
		if waiting := r.waiting(stored); err == nil && waiting <= 0 || catching.stalled(waiting, err) {
			return
		}
	}
}

// A catchUp notices when the number of waiting calls does not decrease any more, because llmtap is too slow, or calls are lost.
type catchUp struct {
	least   int64
	changed time.Time
}

// stalled reports whether the number of waiting calls was not below its minimum for stallTime. err says that it is unknown.
func (c *catchUp) stalled(waiting int64, err error) bool {
	if c.changed.IsZero() || err == nil && waiting < c.least {
		c.least, c.changed = waiting, time.Now()
	}
	return time.Since(c.changed) > stallTime
}

// waiting returns the number of published calls that are not stored.
func (r *running) waiting(stored int64) int64 { return r.fleet.published.Load() - r.published - stored }

// where selects the calls of the phase. The sort key begins with the hour of the start.
func (r *running) where() string {
	return fmt.Sprintf("environment = '%s' AND started_at >= toDateTime64('%s', 9, 'UTC')", r.fleet.environment, r.start.UTC().Format("2006-01-02 15:04:05.000000000"))
}

// stored returns the number of rows of the calls of the phase.
func (r *running) stored(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	found, err := rows.Read(ctx, r.target.store, "number of calls", "SELECT count() AS n FROM exchanges WHERE "+r.where(), nil)
	if err != nil {
		return 0, err
	}
	return int64(found[0].Int("n")), nil
}

// observe shows the progress and records the largest backlog, until ctx ends.
func (r *running) observe(ctx context.Context) {
	stored := int64(0)
	for ; ctx.Err() == nil; wait(ctx, time.Second) {
		if n, err := r.stored(ctx); err == nil { // else ClickHouse is stopped, and stores nothing
			stored = n
		}
		waiting := r.waiting(stored)
		r.peak.Calls = max(r.peak.Calls, waiting)
		if r.target.natsDir != "" && !r.brief() {
			r.peak.Bytes = max(r.peak.Bytes, process.SizeOf(r.target.natsDir))
		}
		r.Progress.Status("%s: %.0f calls/s, %.0f s: %d published, %d waiting", r.name, r.rate, time.Since(r.start).Seconds(), r.fleet.published.Load()-r.published, waiting)
	}
	r.Progress.Clear()
}

// audit compares the published with the stored calls by id.
func (r *running) audit(ctx context.Context) error {
	missing := map[string]bool{}
	for _, id := range r.fleet.takeIDs() {
		missing[id] = true
	}
	r.m.Published = int64(len(missing))
	last := ""
	for {
		found, err := rows.Read(ctx, r.target.store, "stored calls", fmt.Sprintf(
			"SELECT exchange_id, count() AS n FROM exchanges_final WHERE %s AND exchange_id > '%s' GROUP BY exchange_id ORDER BY exchange_id LIMIT 50000", r.where(), last), nil)
		if err != nil {
			return err
		}
		for _, row := range found {
			last = row.Text("exchange_id")
			r.m.Stored++
			r.m.Double += int64(row.Int("n") - 1)
			delete(missing, last)
		}
		if len(found) < 50000 {
			break
		}
	}
	r.m.Lost = int64(len(missing))
	return nil
}
