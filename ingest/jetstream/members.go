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

// membersKey is the key of BucketCheckpoint with the live processes: by owner, when their heartbeat expires.
const membersKey = "members"

// Heartbeat registers owner as live for the next ttl and returns the number of live processes. Callers repeat it before
// ttl has passed.
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
				members = map[string]time.Time{} // each process registers again
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
