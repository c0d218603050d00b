package jetstream

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A candidate is a process that wants to lead.
type candidate struct {
	c     *Conn
	owner string
	skew  atomic.Int64 // of its clock
	term  atomic.Pointer[Term]
	terms atomic.Int64 // begun
	stop  func()
}

func (n *testNATS) startCandidate(t *testing.T, owner string, ttl, skew time.Duration) *candidate {
	t.Helper()
	c, ctx := n.connect(t)
	x := &candidate{c: c, owner: owner}
	x.skew.Store(int64(skew))
	c.now = func() time.Time { return time.Now().Add(time.Duration(x.skew.Load())) }
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- c.WithLease(ctx, "x", owner, ttl, func(ctx context.Context, term *Term) error {
			x.term.Store(term)
			x.terms.Add(1)
			<-ctx.Done()
			x.term.Store(nil)
			return nil
		})
	}()
	x.stop = func() { cancel(); <-done } // the error is that of a closed connection
	t.Cleanup(x.stop)
	return x
}

func (x *candidate) leads() bool {
	term := x.term.Load()
	return term != nil && term.Held()
}

// wait waits until x leads and returns the time that it took.
func (x *candidate) wait(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	begun := time.Now()
	for !x.leads() {
		if time.Since(begun) > within {
			t.Fatalf("%s does not lead after %v", x.owner, within)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// The clock of a standby may be hours ahead: it takes the lease of a dead leader after the TTL, and not that of a live one.
func TestStandbyWithOtherClock(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	n := startNATS(t)
	a := n.startCandidate(t, "a", ttl, 0)
	a.wait(t, 10*time.Second)
	b := n.startCandidate(t, "b", ttl, 3*time.Hour)
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b.leads() {
			t.Fatal("two leaders")
		}
	}
	a.c.nc.Close() // the death of a
	took := b.wait(t, 10*time.Second)
	if took < ttl/4 {
		t.Errorf("taken over after %v", took)
	}
	t.Logf("taken over after %.2f of the TTL", float64(took)/float64(ttl))
}

// A leader that was suspended knows at once that it no longer leads.
func TestSuspendedLeader(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	a := n.startCandidate(t, "a", time.Minute, 0)
	a.wait(t, 10*time.Second)
	term := a.term.Load()
	a.skew.Add(int64(44 * time.Second))
	if !term.Held() {
		t.Error("the lease ended too early")
	}
	a.skew.Add(int64(2 * time.Second))
	if term.Held() {
		t.Error("the lease is held while another process may take it soon")
	}
	// Nobody has taken it: the next term of a continues the last one.
	t.Run("again", func(t *testing.T) {
		must.Fail(t, term.renew(t.Context()), "", "an expired lease was renewed")
	})
}

// While NATS is away, nobody leads, and then the same process as before: a standby that cannot read the lease does not know that
// its owner is dead.
func TestLeaderWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	n := startNATS(t)
	a := n.startCandidate(t, "a", ttl, 0)
	a.wait(t, 10*time.Second)
	b := n.startCandidate(t, "b", ttl, 0)
	time.Sleep(ttl / 4)
	n.s.Shutdown()
	time.Sleep(ttl)
	if a.leads() || b.leads() {
		t.Error("a process leads although it cannot renew its lease")
	}
	n.start()
	a.wait(t, 10*time.Second)
	time.Sleep(ttl / 2)
	if terms := b.terms.Load(); terms > 0 {
		t.Errorf("%d terms of the standby", terms)
	}
	must.Equal(t, a.terms.Load(), 2, "terms of the leader")
}

// A lease written by an earlier version has no TTL: that of earlier versions applies.
func TestStandbyOfEarlierVersion(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := standby{c: &Conn{now: func() time.Time { return now }}}
	f := func(after time.Duration, rev uint64, want bool) {
		t.Helper()
		now = now.Add(after)
		must.Equal(t, s.expired(&checkpoint{Lease: now.Add(-time.Hour)}, rev), want, "after %v: expired", after)
	}
	f(0, 7, false)
	f(7*time.Second, 7, false)
	f(7*time.Second, 7, false)
	f(time.Second, 7, true)
	f(time.Second, 8, false) // renewed
	f(time.Hour, 8, false)   // NATS was away
}
