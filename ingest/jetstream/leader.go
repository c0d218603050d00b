package jetstream

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// LeaderTTL is the TTL of the lease of a role of which one process at a time is active: another one takes over at most this
// long after the last renewal.
const LeaderTTL = 8 * time.Second

// earlierTTL is the TTL of a lease of a role that an earlier version wrote, without its TTL.
const earlierTTL = 15 * time.Second

// Times of a lease of a role, as parts of its TTL.
//
//	0    1/8   2/8        3/4               1
//	renewed ──> renewed ──> … the leader stops … another process may lead
//
// A leader that cannot renew stops early, so that a request that it has sent ends before another process leads. Until then
// it can try twice for as long as it takes NATS to restart or to elect a leader.
const (
	renewals  = 8 // a leader renews, and a standby looks, at TTL/renewals
	attempts  = 4 // an attempt to renew ends after TTL/attempts, because a lost response never comes
	interrupt = 2 // a standby that could not look for TTL/interrupt starts to wait anew
)

// A Term is a period during which this process holds the lease of a role.
type Term struct {
	// Epoch increases with every term of every process. If it is one more than that of the last term of this process, no
	// other process has led in between.
	Epoch uint64

	lease   *lease
	renewed atomic.Pointer[time.Time] // when the request of the last renewal was sent
}

func newTerm(l *lease) *Term {
	l.limit = l.ttl / attempts
	t := &Term{Epoch: l.cp.Epoch, lease: l}
	t.renewed.Store(&l.taken)
	return t
}

// Held reports whether this process may act as the leader. Unlike the end of a context, it takes effect at once in a process
// that was suspended, and that another one has therefore replaced.
func (t *Term) Held() bool {
	since, now := *t.renewed.Load(), t.lease.c.now()
	// The monotonic clock does not advance while the machine is suspended, and the other one may be set back.
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0))) < t.limit()
}

// limit is the time after a renewal for which the lease is held.
func (t *Term) limit() time.Duration { return t.lease.ttl * 3 / 4 }

// WithLease runs fn while this process holds the lease of the role name, and stands by while another process holds it. The
// context of fn ends when the lease is lost or cannot be renewed; fn should then return within a quarter of ttl. WithLease
// then stands by and calls fn again. It returns the error of fn, or nil when ctx ends.
//
// The clocks of the processes need not agree: a lease expires for a process that sees no renewal for its TTL.
func (c *Conn) WithLease(ctx context.Context, name, owner string, ttl time.Duration, fn func(ctx context.Context, t *Term) error) error {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return err
	}
	standby := standby{c: c}
	for waiting := false; ; {
		l, err := c.takeLease(ctx, kv, "lease."+name, owner, ttl, standby.expired, func(_ context.Context, cp *checkpoint) error {
			cp.TTL = ttl
			return nil
		})
		var held *LeaseHeldError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &held):
			if !waiting {
				c.log.Info("another process holds the lease, standing by", "lease", name, "owner", held.Owner)
			}
			waiting = true
			if sleep(ctx, max(min(ttl/renewals, standby.expires.Sub(c.now())), time.Millisecond)) != nil {
				return nil
			}
			continue
		case err != nil:
			return err
		}
		waiting = false
		c.log.Info("took the lease", "lease", name)
		lost, err := newTerm(l).run(ctx, fn)
		if !lost {
			return err
		}
		c.log.Warn("lease lost", "lease", name)
	}
}

// A standby waits for the lease of another process to expire.
type standby struct {
	c       *Conn
	rev     uint64    // revision of the lease
	expires time.Time // when it expires, by the clock of this process
	read    time.Time // when it was last read
}

// expired reports whether the lease, which was just read, was not renewed for its TTL. Times at which the standby cannot
// read it do not count, because its owner then cannot renew it either: they are not worth a change of the leader.
func (s *standby) expired(cp *checkpoint, rev uint64) bool {
	ttl, now := cmp.Or(cp.TTL, earlierTTL), s.c.now()
	if rev != s.rev || now.Sub(s.read) > ttl/interrupt {
		s.rev, s.expires = rev, now.Add(ttl)
	}
	s.read = now
	return !now.Before(s.expires)
}

// run calls fn and renews the lease until fn returns.
func (t *Term) run(ctx context.Context, fn func(context.Context, *Term) error) (lost bool, err error) {
	l := t.lease
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while fn ends
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if err := t.renew(renewing); renewing.Err() == nil {
			cancel(errors.Join(ErrLeaseLost, err))
		}
	}()
	err = fn(ctx, t)
	stop()
	<-renewed
	if errors.Is(context.Cause(ctx), ErrLeaseLost) {
		return true, err
	}
	if err := l.release(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, ErrLeaseLost) {
		l.c.log.Warn("lease not released; it expires", "lease", l.key, "err", err)
	}
	return false, err
}

// errNotRenewed means that NATS or this process was too slow to renew a lease.
var errNotRenewed = errors.New("the lease was not renewed in time")

// renew renews the lease until ctx ends or the lease is lost.
func (t *Term) renew(ctx context.Context) error {
	l := t.lease
	for {
		last := *t.renewed.Load()
		if err := sleep(ctx, last.Add(l.ttl/renewals).Sub(l.c.now())); err != nil {
			return err
		}
		if !t.Held() {
			return errNotRenewed
		}
		start := l.c.now()
		write, cancel := context.WithTimeout(ctx, last.Add(t.limit()).Sub(start))
		err := l.write(write, func(*checkpoint) {})
		cancel()
		if err != nil {
			return err
		}
		if !t.Held() {
			return errNotRenewed
		}
		t.renewed.Store(&start)
	}
}
