// Package sent stores what a notifier has sent, so that a restart does not repeat it, and other values of an alerts.Store.
package sent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

const (
	// maxRecords bounds the records in memory; other records are only in the Store.
	maxRecords  = 1000
	saveTimeout = 5 * time.Second
)

// A Set is a notifier's state, one value per group. It is in a Store and, for the latest groups, also in memory. It
// is not safe for concurrent use.
type Set[T any] struct {
	store   alerts.Store // if nil, records are only in memory
	prefix  string
	account string // distinguishes receivers with the same prefix
	log     *slog.Logger
	values  map[string]T
	turn    uint64 // of a SharedStore, when values were read
}

// New returns the records of a notifier. If store is nil, records are kept only in memory. If
// logger is nil, errors are discarded.
func New[T any](store alerts.Store, prefix, account string, logger *slog.Logger) *Set[T] {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	r := &Set[T]{store: store, prefix: prefix, account: account, log: logger, values: map[string]T{}}
	if s, ok := store.(alerts.SharedStore); ok {
		r.turn = s.Turn()
	}
	return r
}

// Refresh forgets the records in memory, and returns true, if another process may have written since they were read: it may have
// sent other messages, or for another incident.
func (r *Set[T]) Refresh() bool {
	s, ok := r.store.(alerts.SharedStore)
	if !ok {
		return false
	}
	turn := s.Turn()
	if turn == r.turn {
		return false
	}
	r.turn = turn
	clear(r.values)
	return true
}

// Load returns the record of a group. An unreadable record is logged and counts as missing. The receiver may then get a
// notification twice, which is better than not at all.
func (r *Set[T]) Load(ctx context.Context, group string) (v T, ok bool) {
	r.Refresh()
	v, ok, err := r.Read(ctx, group)
	if err != nil {
		r.unreadable(group, err)
	}
	return v, ok
}

// Read is Load for a receiver that can wait: it returns an error if the Store cannot be read, and it does not call Refresh. A value that
// no receiver can read counts as missing.
func (r *Set[T]) Read(ctx context.Context, group string) (v T, ok bool, err error) {
	if v, ok = r.values[group]; ok || r.store == nil {
		return v, ok, nil
	}
	ok, err = Get(ctx, r.store, r.key(group), &v)
	switch {
	case errors.Is(err, ErrUnreadable):
		r.unreadable(group, err)
		return *new(T), false, nil
	case err != nil:
		return *new(T), false, err
	case ok:
		r.Keep(group, v)
	}
	return v, ok, nil
}

func (r *Set[T]) unreadable(group string, err error) {
	r.log.Error("notifier state is unreadable; the group may be notified again", "notifier", r.prefix, "group", group, "error", err)
}

// Keep stores v in memory only.
func (r *Set[T]) Keep(group string, v T) {
	if _, ok := r.values[group]; !ok && len(r.values) >= maxRecords {
		for k := range r.values {
			delete(r.values, k)
			break
		}
	}
	r.values[group] = v
}

// Save stores v in memory and in the Store, even if ctx has ended. Errors are only logged, so they do not delay
// notifications.
func (r *Set[T]) Save(ctx context.Context, group string, v T) {
	r.Keep(group, v)
	if r.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	if err := Put(ctx, r.store, r.key(group), v); err != nil {
		r.log.Error("notifier state not stored; after a restart the group may be notified again", "notifier", r.prefix, "group", group, "error", err)
	}
}

func (r *Set[T]) key(group string) string {
	return r.prefix + "." + alerts.GroupID(r.account+group)
}

// ErrUnreadable is returned for a value that is not JSON of the expected type.
var ErrUnreadable = errors.New("decode")

// Get decodes the value of key into v and reports whether there is one.
func Get(ctx context.Context, s alerts.Store, key string, v any) (found bool, err error) {
	b, err := s.Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%w %s: %w", ErrUnreadable, key, err)
	}
	return true, nil
}

// Put stores v as the value of key.
func Put(ctx context.Context, s alerts.Store, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if err := s.Put(ctx, key, b); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}
