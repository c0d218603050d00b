package jetstream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// NATS restarts while a publisher publishes and a reader reads: every event arrives once and in order.
func TestRestartWhilePublishingAndReading(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) { testRestarts(t, true) })
	t.Run("in frames", func(t *testing.T) { testRestarts(t, false) })
}

func testRestarts(t *testing.T, alone bool) {
	t.Parallel()
	n := startNATS(t)
	pub, ctx := n.connect(t)
	sub, _ := n.connect(t)
	r := openReader(t, ctx, sub, "a")

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	const count, restarts = 4000, 3
	p := pub.NewPublisher(64)
	p.alone = alone
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range count {
			if err := p.Publish(ctx, testEvent(i, 5000)); err != nil {
				t.Errorf("publish %d: %v", i, err)
				cancel()
				return
			}
		}
		if err := p.Flush(ctx); err != nil {
			t.Error(err)
		}
	}()
	next, last := 0, uint64(0)
	for next < count {
		msgs, err := r.Next(ctx, 100, time.Second)
		must.Do(t, err, "after", next, "events")
		for _, m := range msgs {
			if m.Err != nil || m.Seq < last || alone && m.Seq != uint64(next+1) || m.Event.Exchange != testEvent(next, 0).Exchange {
				t.Fatalf("event %d: %+v %+v", next, m, m.Event)
			}
			last = m.Seq
			if next++; next%(count/(restarts+1)) == 0 && next < count {
				n.restart()
			}
		}
	}
	<-published
	if p.Acked() != count || p.Failed() != 0 {
		t.Errorf("acked %d, failed %d", p.Acked(), p.Failed())
	}
	for expectNone(t, ctx, r); r.Pending() != 0; { // the last restart may be in progress
		expectNone(t, ctx, r)
	}
	must.Equal(t, r.Lost(), 0, "lost")
	must.Do(t, r.Commit(ctx, last, 0))
}

// An idle reader receives new events after a restart of NATS.
func TestRestartWhileIdle(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	publish(t, ctx, c, 1, 4)
	r := openReader(t, ctx, c, "a")
	readN(t, ctx, r, 3)
	n.s.Shutdown()
	expectNone(t, ctx, r)
	n.start()
	publish(t, ctx, c, 4, 6)
	if msgs := readN(t, ctx, r, 2); msgs[0].Seq != 4 || msgs[1].Seq != 5 {
		t.Errorf("got %+v", msgs)
	}
	for r.Pending() != 0 {
		expectNone(t, ctx, r)
	}
}

// A publisher accepts a window of events while NATS is down, then blocks.
func TestPublishWithoutNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	p := c.NewPublisher(4)
	p.alone = true
	n.s.Shutdown()
	for i := range 4 {
		must.Do(t, p.Publish(ctx, testEvent(i, 10)))
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	must.Is(t, p.Publish(short, testEvent(4, 10)), context.DeadlineExceeded, "fifth event in a window of four")
	must.Is(t, p.Flush(short), context.DeadlineExceeded, "flush without NATS")
	n.start()
	must.Do(t, p.Flush(ctx))
	r := openReader(t, ctx, c, "a")
	for i, m := range readN(t, ctx, r, 4) {
		must.Equal(t, m.Event.Exchange, testEvent(i, 0).Exchange, "message %d", i)
	}
	expectNone(t, ctx, r)
}

func TestTalliesOverRestart(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	tally := func(second int64) {
		t.Helper()
		must.Do(t, c.PublishTally(ctx, 0, 7, second, fmt.Append(nil, second)))
	}
	for second := range int64(3) {
		tally(second)
		tally(second) // stored once
	}
	got := make(chan string)
	reading, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- c.ReadTallies(reading, func(payload []byte, seq uint64, caughtUp bool) error {
			got <- fmt.Sprintf("%s at %d, caught up %v", payload, seq, caughtUp)
			return nil
		})
	}()
	f := func(want string) {
		t.Helper()
		select {
		case s := <-got:
			must.Equal(t, s, want, "read")
		case err := <-done:
			t.Fatal(err)
		}
	}
	f("0 at 1, caught up false")
	f("1 at 2, caught up false")
	f("2 at 3, caught up true")
	n.restart()
	tally(3)
	f("3 at 4, caught up true")

	// A recreated stream is read from its start.
	must.Do(t, c.js.DeleteStream(ctx, event.StreamTally))
	must.Do(t, c.Ensure(ctx))
	tally(9)
	f("9 at 1, caught up true")
	stop()
	must.Is(t, <-done, context.Canceled)

	broken := errors.New("broken")
	must.Is(t, c.ReadTallies(ctx, func([]byte, uint64, bool) error { return broken }), broken)
}

// Closing the connection ends its readers.
func TestConnectionClosedUnderReader(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	r := openReader(t, ctx, c, "a")
	expectNone(t, ctx, r)
	c.Close()
	if msgs, err := r.Next(ctx, 1, time.Minute); err == nil {
		t.Errorf("got %+v", msgs)
	}
	must.Fail(t, r.Close(ctx), "", "the lease was released over a closed connection")
}
