package jetstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/event"
)

func TestLeaseHeldExpiredLost(t *testing.T) {
	n := startNATS(t)
	c, ctx := n.connect(t)
	publish(t, ctx, c, 1, 4)
	a := open(t, ctx, c, "a")
	read(t, ctx, a, 3)

	other, _ := n.connect(t)
	_, err := other.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: "b"})
	var held *LeaseHeldError
	if !errors.Is(err, ErrLeaseHeld) || !errors.As(err, &held) || held.Owner != "a" || time.Until(held.Until) <= 0 {
		t.Fatalf("b beside a: %v", err)
	}

	// To b it is later than a's lease: a did not renew it in time.
	other.now = func() time.Time { return held.Until.Add(time.Minute) }
	b := open(t, ctx, other, "b")
	if b.Epoch() != a.Epoch()+1 {
		t.Errorf("epochs %d and %d", a.Epoch(), b.Epoch())
	}
	if err := a.Commit(ctx, 3, 0); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a zombie's commit: %v", err)
	}
	if _, err := a.Next(ctx, 1, time.Minute); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a zombie reads: %v", err)
	}
	if err := a.Close(ctx); err != nil {
		t.Errorf("a zombie's close: %v", err)
	}
	if got := read(t, ctx, b, 3); got[0].Seq != 1 || got[0].Replay {
		t.Errorf("b got %+v", got)
	}
	if err := b.Commit(ctx, 3, 0); err != nil {
		t.Errorf("b after a's close: %v", err)
	}
}

func TestLeaseRenewedWhileIdle(t *testing.T) {
	c, ctx := startNATS(t).connect(t)
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: "a", LeaseTTL: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(ctx)
	first, _, err := readCheckpoint(ctx, kv, "p0of1")
	if err != nil {
		t.Fatal(err)
	}
	for {
		cp, _, err := readCheckpoint(ctx, kv, "p0of1")
		if err != nil {
			t.Fatal(err)
		}
		if cp.Lease.After(first.Lease) {
			break
		}
	}
	// The renewals are the reader's own: they do not get in the way of its commits.
	publish(t, ctx, c, 1, 2)
	read(t, ctx, r, 1)
	if err := r.Commit(ctx, 1, 0); err != nil {
		t.Error(err)
	}
}

// A process that died without giving its lease back takes it back at once under its own name.
func TestLeaseTakenBack(t *testing.T) {
	c, ctx := startNATS(t).connect(t)
	dead := open(t, ctx, c, "a")
	again := open(t, ctx, c, "a")
	if again.Epoch() != 2 {
		t.Errorf("epoch %d", again.Epoch())
	}
	if err := dead.Commit(ctx, 0, 0); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("the former life commits: %v", err)
	}
}

// An answer that was lost is not another process.
func TestLeaseOwnWriteTwice(t *testing.T) {
	c, ctx := startNATS(t).connect(t)
	r := open(t, ctx, c, "a")
	if err := r.lease.write(ctx, func(*checkpoint) {}); err != nil {
		t.Fatal(err)
	}
	<-r.lease.turn
	r.lease.rev-- // as if that answer had not come
	r.lease.turn <- struct{}{}
	if err := r.Commit(ctx, 0, 0); err != nil {
		t.Error(err)
	}
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Delete(ctx, "p0of1"); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(ctx, 0, 0); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("commit after the key was deleted: %v", err)
	}
}

func TestUnreadableCheckpoint(t *testing.T) {
	c, ctx := startNATS(t).connect(t)
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Put(ctx, "p0of1", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.OpenReader(ctx, ReaderConfig{Partitions: 1, Owner: "a"}); err == nil {
		t.Error("an unreadable checkpoint was overwritten")
	}
}

// With NATS away, a commit waits as long as it may, and closing does not wait at all.
func TestCommitAndCloseWithoutNATS(t *testing.T) {
	n := startNATS(t)
	c, ctx := n.connect(t)
	r := open(t, ctx, c, "a")
	n.s.Shutdown()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := r.Commit(short, 0, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("commit without NATS: %v", err)
	}
	begun := time.Now()
	if err := r.Close(short); err == nil {
		t.Error("the lease was given back to nobody")
	}
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("close took %v", d)
	}
	if err := c.Healthy(); err == nil {
		t.Error("healthy without NATS")
	}
	if r.Pending() == 0 {
		t.Error("caught up without NATS")
	}
}
