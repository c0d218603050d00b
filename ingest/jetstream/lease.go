package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// DefaultLeaseTTL is how long a dead owner keeps a lease.
const DefaultLeaseTTL = 15 * time.Second

// Errors of leases.
var (
	ErrLeaseHeld = errors.New("another process holds the lease")
	ErrLeaseLost = errors.New("another process took the lease over")
)

// A LeaseHeldError wraps ErrLeaseHeld and says who holds the lease, and until when at least.
type LeaseHeldError struct {
	Owner string
	Until time.Time // by the owner's clock
}

func (e *LeaseHeldError) Error() string {
	return fmt.Sprintf("%v: %s, until %s", ErrLeaseHeld, e.Owner, e.Until.Format(time.RFC3339))
}

func (e *LeaseHeldError) Unwrap() error { return ErrLeaseHeld }

// checkpoint is what a partition's key in the bucket holds.
type checkpoint struct {
	Stored     uint64    `json:"stored"`      // every effect of every sequence up to it is stored
	ReplayFrom uint64    `json:"replay_from"` // the oldest sequence that live state still needs
	Epoch      uint64    `json:"epoch"`       // one more each time the lease is taken
	Owner      string    `json:"owner"`       // "" when nobody holds the lease
	Lease      time.Time `json:"lease"`       // until when Owner holds it
	Stream     time.Time `json:"stream"`      // when the stream was created that the sequences belong to

	// Of more than one partition only.
	Clear   uint64 `json:"clear,omitempty"`   // up to it, nothing of the partition was left to read: losses are looked for after it
	Tallied int64  `json:"tallied,omitempty"` // second up to which the tallies of a former number of partitions count
}

// A lease is the right to move one partition's checkpoint. Every write is a compare-and-set, so that a process which
// only believes that it still holds the lease cannot move it.
type lease struct {
	c     *Conn
	kv    *KV
	key   string
	owner string
	ttl   time.Duration

	turn chan struct{} // holds the token of whoever may use the fields below
	cp   checkpoint
	rev  uint64
}

// takeLease takes the lease unless someone else holds it. A lease that owner itself holds is taken too: it is from a
// former life of the same process. adjust fits the checkpoint to the stream before it is written.
func (c *Conn) takeLease(ctx context.Context, kv *KV, key, owner string, ttl time.Duration, adjust func(*checkpoint)) (*lease, error) {
	l := &lease{c: c, kv: kv, key: key, owner: owner, ttl: ttl, turn: make(chan struct{}, 1)}
	err := c.retry(ctx, func(ctx context.Context) error {
		for {
			cp, rev, err := readCheckpoint(ctx, kv, key)
			if err != nil && !errors.Is(err, ErrKeyNotFound) {
				return err
			}
			if cp.Owner != "" && cp.Owner != owner && c.now().Before(cp.Lease) {
				return &LeaseHeldError{Owner: cp.Owner, Until: cp.Lease}
			}
			adjust(&cp)
			cp.Epoch++
			cp.Owner, cp.Lease = owner, c.now().Add(ttl).UTC()
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
	l.turn <- struct{}{}
	return l, nil
}

func readCheckpoint(ctx context.Context, kv *KV, key string) (checkpoint, uint64, error) {
	var cp checkpoint
	b, rev, err := kv.Get(ctx, key)
	if err != nil {
		return cp, 0, err
	}
	if err := json.Unmarshal(b, &cp); err != nil {
		return cp, 0, fmt.Errorf("read checkpoint %s: %w; delete the key to start at the stream's first event", key, err)
	}
	return cp, rev, nil
}

func (cp *checkpoint) encode() []byte {
	b, err := json.Marshal(cp)
	if err != nil {
		panic("BUG: encode checkpoint: " + err.Error()) // numbers, text and times of this century
	}
	return b
}

// write changes the checkpoint and renews the lease; it waits for a NATS that is away until ctx ends.
func (l *lease) write(ctx context.Context, change func(*checkpoint)) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	next := l.cp
	next.Lease = l.c.now().Add(l.ttl).UTC()
	change(&next)
	err := l.c.retry(ctx, func(ctx context.Context) error {
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

// afterConflict writes next over what is there if that is of this lease: a write whose answer was lost.
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

// release gives the lease back so that anyone may take it at once.
func (l *lease) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return l.write(ctx, func(cp *checkpoint) { cp.Owner, cp.Lease = "", time.Time{} })
}

// renew keeps the lease until ctx ends or the lease is lost; change may add to what is written.
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
