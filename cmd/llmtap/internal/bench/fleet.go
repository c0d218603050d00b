package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// answerTime is the time between a request and its response. Recorded traffic has none; it determines only how many calls are
// open at a time.
const answerTime = time.Second

// A fleet publishes the calls of a load.Fleet.
type fleet struct {
	conn        *jetstream.Conn
	pub         *jetstream.Publisher
	calls       *load.Fleet
	environment string

	published atomic.Int64 // calls whose response was passed to the publisher
	failed    atomic.Int64 // of them, calls with a status of 400 or more
	events    atomic.Int64
	bytes     atomic.Int64 // of bodies

	mu  sync.Mutex // guards ids
	ids []string   // exchange ids of the published calls
}

func newFleet(ctx context.Context, o *Options, t *target) (*fleet, error) {
	conn, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	// The calls of this run have an environment of their own, because the ids of conversations repeat with the seed.
	f := &fleet{conn: conn, environment: fmt.Sprintf("bench-%06x", rand.N(1<<24)), pub: conn.NewPublisher(0)}
	f.calls = load.NewFleet(load.FleetConfig{Seed: o.Seed, Shape: o.Shape, Services: o.Services, Environment: f.environment})
	return f, nil
}

func (f *fleet) close() { f.conn.Close() }

// run publishes at rate for d, then the responses of open calls at the same rate. It calls answered before a response is
// published. kept is the share of the wanted calls that were published in time: less than 1 if the load, or NATS, was too
// slow. After an error of NATS, the published calls are not known to be stored.
func (f *fleet) run(ctx context.Context, rate float64, d time.Duration, answered func(*load.Call)) (kept float64, err error) {
	f.calls.Agents(max(1, int(rate*answerTime.Seconds())))
	start := time.Now()
	n := 0
	due := func() time.Time { return start.Add(time.Duration(float64(n) / rate * float64(time.Second))) }
	for ; due().Before(start.Add(d)) && time.Since(start) < d && ctx.Err() == nil; n++ {
		sleepUntil(ctx, due())
		call, events := f.calls.Next()
		if err := f.publish(ctx, call, events, answered); err != nil {
			return 0, err
		}
	}
	kept = float64(n) / max(1, rate*d.Seconds())
	start, n = time.Now(), 0
	calls, events := f.calls.Finish()
	for i := range calls {
		sleepUntil(ctx, due())
		n++
		if err := f.publish(ctx, calls[i], events[i:i+1], answered); err != nil {
			return 0, err
		}
	}
	if err := f.pub.Flush(ctx); err != nil {
		return 0, fmt.Errorf("publish calls: %w", err)
	}
	return kept, ctx.Err()
}

// publish publishes events. call is the call that they complete, or nil.
func (f *fleet) publish(ctx context.Context, call *load.Call, events []*event.Event, answered func(*load.Call)) error {
	if call != nil {
		answered(call)
	}
	for _, e := range events {
		for part := range e.Messages(event.PartBytes) {
			if err := f.pub.Publish(ctx, part); err != nil {
				return err
			}
		}
		f.events.Add(1)
		f.bytes.Add(int64(len(e.Body)))
	}
	if call != nil {
		f.mu.Lock()
		f.ids = append(f.ids, call.ID)
		f.mu.Unlock()
		f.published.Add(1)
		if call.Status >= 400 {
			f.failed.Add(1)
		}
	}
	return nil
}

// takeIDs returns the ids of the calls published since the last call.
func (f *fleet) takeIDs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := f.ids
	f.ids = nil
	return ids
}

// sleepUntil returns at t, or when ctx ends.
func sleepUntil(ctx context.Context, t time.Time) {
	wait(ctx, time.Until(t))
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
