package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// A Store persists small values across restarts. Get returns nil, nil for a missing key. Keys match [a-z0-9.-]+. It is safe
// for concurrent use.
type Store interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
}

// A SharedStore is a Store that several processes write in turns.
type SharedStore interface {
	Store
	// Turn changes whenever another process may have written since the last call.
	Turn() uint64
}

const (
	// maxRecords bounds the records in memory; other records are only in the Store.
	maxRecords = 1000
	putTimeout = 5 * time.Second
)

// Records is a notifier's state, one value per group. It is in a Store and, for the latest groups, also in memory. It
// is not safe for concurrent use.
type Records[T any] struct {
	store   Store // if nil, records are only in memory
	prefix  string
	account string // distinguishes receivers with the same prefix
	log     *slog.Logger
	values  map[string]T
	turn    uint64 // of a SharedStore, when values were read
}

// NewRecords returns the records of a notifier. If store is nil, records are kept only in memory. If
// logger is nil, errors are discarded.
func NewRecords[T any](store Store, prefix, account string, logger *slog.Logger) *Records[T] {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	r := &Records[T]{store: store, prefix: prefix, account: account, log: logger, values: map[string]T{}}
	if s, ok := store.(SharedStore); ok {
		r.turn = s.Turn()
	}
	return r
}

// Refresh forgets the records in memory, and returns true, if another process may have written since they were read: it may have
// sent other messages, or for another incident.
func (r *Records[T]) Refresh() bool {
	s, ok := r.store.(SharedStore)
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
func (r *Records[T]) Load(ctx context.Context, group string) (v T, ok bool) {
	r.Refresh()
	v, ok, err := r.Read(ctx, group)
	if err != nil {
		r.unreadable(group, err)
	}
	return v, ok
}

// Read is Load for a receiver that can wait: it returns an error if the Store cannot be read, and it does not call Refresh. A value that
// no receiver can read counts as missing.
func (r *Records[T]) Read(ctx context.Context, group string) (v T, ok bool, err error) {
	if v, ok = r.values[group]; ok || r.store == nil {
		return v, ok, nil
	}
	ok, err = getJSON(ctx, r.store, r.key(group), &v)
	switch {
	case errors.Is(err, errUnreadable):
		r.unreadable(group, err)
		return *new(T), false, nil
	case err != nil:
		return *new(T), false, err
	case ok:
		r.Keep(group, v)
	}
	return v, ok, nil
}

func (r *Records[T]) unreadable(group string, err error) {
	r.log.Error("notifier state is unreadable; the group may be notified again", "notifier", r.prefix, "group", group, "error", err)
}

// Keep stores v in memory only.
func (r *Records[T]) Keep(group string, v T) {
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
func (r *Records[T]) Save(ctx context.Context, group string, v T) {
	r.Keep(group, v)
	if r.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTimeout)
	defer cancel()
	if err := putJSON(ctx, r.store, r.key(group), v); err != nil {
		r.log.Error("notifier state not stored; after a restart the group may be notified again", "notifier", r.prefix, "group", group, "error", err)
	}
}

func (r *Records[T]) key(group string) string { return r.prefix + "." + digest(8, r.account+group) }

// errUnreadable is returned for a value that is not JSON of the expected type.
var errUnreadable = errors.New("decode")

func getJSON(ctx context.Context, s Store, key string, v any) (found bool, err error) {
	b, err := s.Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", key, err)
	}
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("%w %s: %w", errUnreadable, key, err)
	}
	return true, nil
}

func putJSON(ctx context.Context, s Store, key string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	if err := s.Put(ctx, key, b); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}
