package collector

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	// actionKey is the prefix of the keys of actions that are not stored in ClickHouse yet.
	actionKey = "action."
	// maxActions bounds the actions of one process that wait for ClickHouse. Further ones are only queued and logged.
	maxActions = 1000
	// actionAge is the age from which the leader stores an action, because the process that had queued it has probably ended.
	actionAge = time.Minute
)

// actionRows writes the rows of actions. A row is in the bucket until ClickHouse has it, so that neither an outage of
// ClickHouse nor the end of a process loses who did what.
type actionRows struct {
	kv     *jetstream.KV
	rows   *sinks.Batcher
	logger *slog.Logger

	queue sync.Mutex // held while a row is queued, so that waiting has the order of the queue
	mu    sync.Mutex // guards waiting
	// waiting are the keys of queued rows, oldest first. There are at most maxActions, and those that restore adds.
	waiting []string
}

// add stores a new row.
func (a *actionRows) add(ctx context.Context, row *sinks.AlertAction) {
	a.queue.Lock()
	defer a.queue.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), actionTimeout)
	defer cancel()
	kept := false
	if a.count() < maxActions {
		value, err := json.Marshal(row)
		if err == nil {
			err = a.kv.Put(ctx, actionKey+row.ID, value)
		}
		if kept = err == nil; !kept {
			a.logger.Warn("row of an alert action is only in memory until ClickHouse has it", "action", row.Action, "actor", row.Actor, "err", err)
		}
	}
	switch err := a.enqueue(ctx, row); {
	case err == nil:
	case kept:
		a.logger.Warn("row of an alert action waits for ClickHouse", "action", row.Action, "actor", row.Actor, "err", err)
	default:
		a.logger.Error("row of an alert action is lost", "action", row.Action, "actor", row.Actor, "err", err)
	}
}

// enqueue adds a row to the queue, which deletes its key once ClickHouse has it. The caller holds queue.
func (a *actionRows) enqueue(ctx context.Context, row *sinks.AlertAction) error {
	key := actionKey + row.ID
	a.mu.Lock()
	a.waiting = append(a.waiting, key)
	a.mu.Unlock()
	// The newest commit of a batch confirms all rows that were queued before it.
	err := a.rows.Add(ctx, &sinks.Batch{Actions: []sinks.AlertAction{*row}}, func(ctx context.Context) error {
		for _, key := range a.confirm(key) {
			if err := a.delete(ctx, key); err != nil {
				a.logger.Warn("stored row of an alert action is still in NATS, and will be stored again", "err", err)
			}
		}
		return nil
	})
	if err != nil {
		a.mu.Lock()
		a.waiting = slices.DeleteFunc(a.waiting, func(k string) bool { return k == key })
		a.mu.Unlock()
	}
	return err
}

// confirm removes key and older keys from waiting, and returns them.
func (a *actionRows) confirm(key string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := slices.Index(a.waiting, key) + 1
	keys := slices.Clone(a.waiting[:n])
	a.waiting = slices.Delete(a.waiting, 0, n)
	return keys
}

func (a *actionRows) delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	return purgeKey(ctx, a.kv, key)
}

func (a *actionRows) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting)
}

// restore queues the rows that other processes, or earlier ones, have left in the bucket. Storing a row twice has no effect.
func (a *actionRows) restore(ctx context.Context, now time.Time) error {
	values, err := a.kv.Values(ctx, actionKey+"*")
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(values)) { // in order of time
		var row sinks.AlertAction
		if err := json.Unmarshal(values[key], &row); err != nil || actionKey+row.ID != key {
			a.logger.Error("deleting an unreadable alert action", "key", key, "err", err)
			if err := a.delete(ctx, key); err != nil {
				return err
			}
			continue
		}
		if now.Sub(row.At) < actionAge || a.queued(key) {
			continue
		}
		a.queue.Lock()
		ctx, cancel := context.WithTimeout(ctx, actionTimeout)
		err := a.enqueue(ctx, &row)
		cancel()
		a.queue.Unlock()
		if err != nil {
			return err // the queue is full
		}
	}
	return nil
}

func (a *actionRows) queued(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.waiting, key)
}
