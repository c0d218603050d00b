package jetstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestLeaseTakenOver(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	publish(t, ctx, c, 1, 4)
	a := openReader(t, ctx, c, "a")
	readN(t, ctx, a, 3)

	other, _ := n.connect(t)
	_, err := other.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: "b"})
	var held *LeaseHeldError
	if !errors.Is(err, ErrLeaseHeld) || !errors.As(err, &held) || held.Owner != "a" || time.Until(held.Until) <= 0 {
		t.Fatalf("b while a holds the lease: %v", err)
	}

	// By the clock of b the lease of a has expired.
	other.now = func() time.Time { return held.Until.Add(time.Minute) }
	b := openReader(t, ctx, other, "b")
	must.Equal(t, b.Epoch(), a.Epoch()+1, "epoch")
	must.Is(t, a.Commit(ctx, 3, 0), ErrLeaseLost, "commit without the lease")
	must.Is(t, must.Err(a.Next(ctx, 1, time.Minute)), ErrLeaseLost, "read without the lease")
	must.Do(t, a.Close(ctx), "close without the lease")
	if got := readN(t, ctx, b, 3); got[0].Seq != 1 || got[0].Replay {
		t.Errorf("b got %+v", got)
	}
	must.Do(t, b.Commit(ctx, 3, 0), "commit of b after the close of a")
}

func TestLeaseRenewedWhileIdle(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	kv := must.Get(c.KV(ctx, event.BucketCheckpoint))(t)
	r := must.Get(c.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: "a", LeaseTTL: 30 * time.Millisecond}))(t)
	defer r.Close(ctx)
	first, _, err := readCheckpoint(ctx, kv, "p0of1")
	must.Do(t, err)
	for {
		cp, _, err := readCheckpoint(ctx, kv, "p0of1")
		must.Do(t, err)
		if cp.Lease.After(first.Lease) {
			break
		}
	}
	// The renewals do not conflict with the reader's commits.
	publish(t, ctx, c, 1, 2)
	readN(t, ctx, r, 1)
	must.Do(t, r.Commit(ctx, 1, 0))
}

// A process that died without releasing its lease takes it back immediately under the same name.
func TestLeaseTakenBack(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	dead := openReader(t, ctx, c, "a")
	again := openReader(t, ctx, c, "a")
	must.Equal(t, again.Epoch(), 2, "epoch")
	must.Is(t, dead.Commit(ctx, 0, 0), ErrLeaseLost, "commit of the previous run")
}

// A write whose response was lost does not lose the lease.
func TestLeaseResponseLost(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	r := openReader(t, ctx, c, "a")
	must.Do(t, r.lease.write(ctx, func(*checkpoint) {}))
	must.Do(t, r.lease.mu.lock(ctx))
	r.lease.rev-- // as if the response was lost
	r.lease.mu.unlock()
	must.Do(t, r.Commit(ctx, 0, 0))
	kv := must.Get(c.KV(ctx, event.BucketCheckpoint))(t)
	must.Do(t, kv.kv.Delete(ctx, "p0of1"))
	must.Is(t, r.Commit(ctx, 0, 0), ErrLeaseLost, "commit after the key was deleted")
}

func TestInvalidCheckpoint(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	kv := must.Get(c.KV(ctx, event.BucketCheckpoint))(t)
	must.Do(t, kv.Put(ctx, "p0of1", []byte("{")))
	must.Fail(t, must.Err(c.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: "a"})), "", "an invalid checkpoint was overwritten")
}

// While NATS is down, Commit waits until its context ends and Close does not wait.
func TestCommitAndCloseWithoutNATS(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	r := openReader(t, ctx, c, "a")
	n.s.Shutdown()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	must.Is(t, r.Commit(short, 0, 0), context.DeadlineExceeded, "commit without NATS")
	begun := time.Now()
	must.Fail(t, r.Close(short), "", "the lease was released without NATS")
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("close took %v", d)
	}
	must.Fail(t, c.Healthy(), "", "healthy without NATS")
	if r.Pending() == 0 {
		t.Error("caught up without NATS")
	}
}
