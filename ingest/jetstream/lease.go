package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// DefaultLeaseTTL is the time after which the lease of a dead owner expires. It is short, because alerts about a partition wait
// for its next owner. An owner that is slow keeps its lease unless another process waits for it, and then loses no event.
const DefaultLeaseTTL = 6 * time.Second

// Errors of leases.
var (
	ErrLeaseHeld = errors.New("another process holds the lease")
	ErrLeaseLost = errors.New("another process took over the lease")
)

// A LeaseHeldError wraps ErrLeaseHeld with the owner and the earliest expiry of the lease.
type LeaseHeldError struct {
	Owner string
	Until time.Time // by the owner's clock
}

func (e *LeaseHeldError) Error() string {
	return fmt.Sprintf("%v: %s, until %s", ErrLeaseHeld, e.Owner, e.Until.Format(time.RFC3339))
}

func (e *LeaseHeldError) Unwrap() error { return ErrLeaseHeld }

// A checkpoint is the value of a partition's key in the bucket.
type checkpoint struct {
	Stored     uint64        `json:"stored"`          // the effects of all events up to this sequence are stored
	StoredAt   time.Time     `json:"stored_at"`       // timestamp of the event Stored; zero if it is unknown
	Shift      time.Duration `json:"shift,omitempty"` // of stream time at Stored, see Clock
	ReplayFrom uint64        `json:"replay_from"`     // the oldest sequence that live state needs
	Epoch      uint64        `json:"epoch"`           // incremented each time the lease is taken
	Owner      string        `json:"owner"`           // "" when the lease is free
	Lease      time.Time     `json:"lease"`           // expiry of Owner's lease
	Stream     time.Time     `json:"stream"`          // creation time of the stream that the sequences refer to

	// Set only for the lease of a role: without a renewal for this long, another process may take it.
	TTL time.Duration `json:"ttl,omitempty"`

	// Set only with several partitions.
	CaughtUp  uint64 `json:"caught_up,omitempty"`  // all events up to this sequence are stored or belong to other partitions; losses are counted after it
	LastTally int64  `json:"last_tally,omitempty"` // last second tallied before the last repartitioning
}

// A lease is the exclusive right to move one partition's checkpoint. Every write is a compare-and-set, so a process
// that has not noticed the expiry of its lease cannot move the checkpoint.
type lease struct {
	c     *Conn
	kv    *KV
	key   string
	owner string
	ttl   time.Duration
	taken time.Time     // when the request that took the lease was sent
	limit time.Duration // of one attempt to write; 0: requestTimeout

	mu  mutex // guards the rest
	cp  checkpoint
	rev uint64
}

// A mutex is a mutual exclusion lock with cancelable waiting.
type mutex chan struct{}

func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m mutex) unlock() { <-m }

// expired reports whether the lease of cp has expired by the clock of this process. Whoever takes a lease too early
// because of another clock does no harm, if all that its owner does is written with the checkpoint.
func (c *Conn) expired(cp *checkpoint, _ uint64) bool { return !c.now().Before(cp.Lease) }

// takeLease takes the lease if it is free or expired. A lease held by the same owner is taken too, because it
// belongs to a previous run of the same process. adjust makes the checkpoint consistent with the stream before the
// checkpoint is written.
func (c *Conn) takeLease(
	ctx context.Context, kv *KV, key, owner string, ttl time.Duration, expired func(cp *checkpoint, rev uint64) bool, adjust func(context.Context, *checkpoint) error,
) (*lease, error) {
	l := &lease{c: c, kv: kv, key: key, owner: owner, ttl: ttl, mu: make(mutex, 1)}
	err := c.retry(ctx, func(ctx context.Context) error {
		for {
			cp, rev, err := readCheckpoint(ctx, kv, key)
			if err != nil && !errors.Is(err, ErrKeyNotFound) {
				return err
			}
			if cp.Owner != "" && cp.Owner != owner && !expired(&cp, rev) {
				return &LeaseHeldError{Owner: cp.Owner, Until: cp.Lease}
			}
			if err := adjust(ctx, &cp); err != nil {
				return err
			}
			cp.Epoch++
			cp.Owner, l.taken = owner, c.now()
			cp.Lease = l.taken.Add(ttl).UTC()
			rev, err = kv.Update(ctx, key, cp.encode(), rev)
			if errors.Is(err, ErrKeyConflict) {
				continue
			}
			l.cp, l.rev = cp, rev
			return err
		}
	})
	if err != nil {
		return nil, fmt.Errorf("take lease %s: %w", key, err)
	}
	return l, nil
}

func readCheckpoint(ctx context.Context, kv *KV, key string) (checkpoint, uint64, error) {
	var cp checkpoint
	b, rev, err := kv.Get(ctx, key)
	if err != nil {
		return cp, 0, err
	}
	if err := json.Unmarshal(b, &cp); err != nil {
		return cp, 0, fmt.Errorf("read checkpoint %s: %w; delete the key to read the stream from its first event", key, err)
	}
	return cp, rev, nil
}

func (cp *checkpoint) encode() []byte {
	b, err := json.Marshal(cp)
	if err != nil {
		panic("BUG: encode checkpoint: " + err.Error()) // a checkpoint contains only numbers, text and valid times
	}
	return b
}

// write changes the checkpoint and renews the lease. While NATS is unreachable, it retries until ctx ends.
func (l *lease) write(ctx context.Context, change func(*checkpoint)) error {
	if err := l.mu.lock(ctx); err != nil {
		return err
	}
	defer l.mu.unlock()
	next := l.cp
	next.Lease = l.c.now().Add(l.ttl).UTC()
	change(&next)
	err := l.c.retry(ctx, func(ctx context.Context) error {
		if l.limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, l.limit)
			defer cancel()
		}
		rev, err := l.kv.Update(ctx, l.key, next.encode(), l.rev)
		if errors.Is(err, ErrKeyConflict) {
			rev, err = l.afterConflict(ctx, next)
		}
		if err == nil {
			l.rev = rev
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write checkpoint %s: %w", l.key, err)
	}
	l.cp = next
	return nil
}

// afterConflict writes next if the conflicting checkpoint has the epoch of this lease: it was then written by an
// earlier request whose response was lost.
func (l *lease) afterConflict(ctx context.Context, next checkpoint) (uint64, error) {
	cp, rev, err := readCheckpoint(ctx, l.kv, l.key)
	switch {
	case errors.Is(err, ErrKeyNotFound), err == nil && cp.Epoch != l.cp.Epoch:
		return 0, ErrLeaseLost
	case err != nil:
		return 0, err
	}
	rev, err = l.kv.Update(ctx, l.key, next.encode(), rev)
	if errors.Is(err, ErrKeyConflict) {
		return 0, ErrLeaseLost
	}
	return rev, err
}

// release frees the lease for the next owner.
func (l *lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return l.write(ctx, func(cp *checkpoint) { cp.Owner, cp.Lease = "", time.Time{} })
}

// renew renews the lease until ctx ends or the lease is lost. change may update the checkpoint.
func (l *lease) renew(ctx context.Context, change func(*checkpoint)) error {
	t := time.NewTicker(max(l.ttl/3, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if err := l.write(ctx, change); err != nil {
			return err
		}
	}
}

// membersKey is the key of BucketCheckpoint that contains the heartbeat expiry of each live process, by owner.
const membersKey = "members"

// Heartbeat registers owner as live for the next ttl and returns the number of live processes. Repeat it within ttl.
func (c *Conn) Heartbeat(ctx context.Context, owner string, ttl time.Duration) (live int, err error) {
	err = c.updateMembers(ctx, func(members map[string]time.Time) {
		now := c.now()
		maps.DeleteFunc(members, func(_ string, expires time.Time) bool { return expires.Before(now) })
		members[owner] = now.Add(ttl).UTC()
		live = len(members)
	})
	return live, err
}

// Deregister removes owner from the live processes.
func (c *Conn) Deregister(ctx context.Context, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.updateMembers(ctx, func(members map[string]time.Time) { delete(members, owner) })
}

func (c *Conn) updateMembers(ctx context.Context, change func(map[string]time.Time)) error {
	kv, err := c.KV(ctx, event.BucketCheckpoint)
	if err != nil {
		return err
	}
	return c.retry(ctx, func(ctx context.Context) error {
		for {
			members := map[string]time.Time{}
			b, revision, err := kv.Get(ctx, membersKey)
			if err != nil && !errors.Is(err, ErrKeyNotFound) {
				return err
			}
			if err == nil && json.Unmarshal(b, &members) != nil {
				members = map[string]time.Time{} // discard an invalid value; each process registers again
			}
			change(members)
			if b, err = json.Marshal(members); err != nil {
				return fmt.Errorf("encode the live processes: %w", err)
			}
			if _, err = kv.Update(ctx, membersKey, b, revision); !errors.Is(err, ErrKeyConflict) {
				return err
			}
		}
	})
}
