package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/llmtap/llmtap/ingest/event"
)

// Hold runs fn while this process holds the lease called name, and stands by while another one does. The context of fn
// ends when the lease is lost, or could not be renewed for its whole time; then Hold stands by again and calls fn anew.
// It returns fn's own error, or nil when ctx ends.
func (c *Conn) WithLease(ctx context.Context, name, owner string, ttl time.Duration, fn func(ctx context.Context) error) error {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return err
	}
	for standby := false; ; {
		l, err := c.takeLease(ctx, kv, "lease."+name, owner, ttl, func(*checkpoint) {})
		var held *LeaseHeldError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &held):
			if !standby {
				c.log.Info("another process holds the lease, standing by", "lease", name, "owner", held.Owner)
			}
			standby = true
			if sleep(ctx, max(ttl/8, time.Millisecond)) != nil {
				return nil
			}
			continue
		case err != nil:
			return err
		}
		standby = false
		lost, err := l.during(ctx, fn)
		if !lost {
			return err
		}
		c.log.Warn("lease lost", "lease", name)
	}
}

// during runs fn, and renews the lease until fn returns.
func (l *lease) during(ctx context.Context, fn func(context.Context) error) (lost bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if err := l.renewInTime(ctx); ctx.Err() == nil {
			cancel(errors.Join(ErrLeaseLost, err))
		}
	}()
	err = fn(ctx)
	lost = errors.Is(context.Cause(ctx), ErrLeaseLost)
	cancel(nil)
	<-renewed
	if !lost {
		if rerr := l.release(context.WithoutCancel(ctx)); rerr != nil && !errors.Is(rerr, ErrLeaseLost) {
			l.c.log.Warn("lease not given back; it ends by itself", "lease", l.key, "err", rerr)
		}
	}
	return lost, err
}

// renewInTime renews the lease until ctx ends. Unlike renew it gives up when the lease has ended: a process that NATS does
// not answer cannot know who holds it now.
func (l *lease) renewInTime(ctx context.Context) error {
	for {
		until := time.Now().Add(l.ttl)
		if err := sleep(ctx, l.ttl/3); err != nil {
			return err
		}
		write, cancel := context.WithDeadline(ctx, until)
		err := l.write(write, func(*checkpoint) {})
		cancel()
		if err != nil {
			return err
		}
	}
}

// membersKey holds who is there.
const membersKey = "members"

// Present says that owner is there for the next ttl, and returns how many are. It is called again before ttl is over.
func (c *Conn) Heartbeat(ctx context.Context, owner string, ttl time.Duration) (int, error) {
	n := 0
	err := c.members(ctx, func(m map[string]time.Time) {
		now := c.now()
		maps.DeleteFunc(m, func(_ string, until time.Time) bool { return until.Before(now) })
		m[owner] = now.Add(ttl).UTC()
		n = len(m)
	})
	return n, err
}

// Leave says that owner is no longer there.
func (c *Conn) Deregister(ctx context.Context, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.members(ctx, func(m map[string]time.Time) { delete(m, owner) })
}

func (c *Conn) members(ctx context.Context, change func(map[string]time.Time)) error {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return err
	}
	return c.retry(ctx, func(ctx context.Context) error {
		for {
			m := map[string]time.Time{}
			b, revision, err := kv.Get(ctx, membersKey)
			if err != nil && !errors.Is(err, ErrKeyNotFound) {
				return err
			}
			if err == nil && json.Unmarshal(b, &m) != nil {
				m = map[string]time.Time{} // everyone writes itself anew
			}
			change(m)
			if b, err = json.Marshal(m); err != nil {
				return fmt.Errorf("encode who is there: %w", err)
			}
			if _, err = kv.Update(ctx, membersKey, b, revision); !errors.Is(err, ErrKeyConflict) {
				return err
			}
		}
	})
}
