package collector

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

// A leasedStore stores the state of alerts in NATS. It refuses writes after the lease is lost: the state then belongs to
// another process.
type leasedStore struct {
	kv    *jetstream.KV
	lease *atomic.Pointer[context.Context] // ends with the lease; nil before the first one
}

func (s leasedStore) Get(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}

func (s leasedStore) Put(ctx context.Context, key string, value []byte) error {
	if lease := s.lease.Load(); lease != nil && errors.Is(context.Cause(*lease), jetstream.ErrLeaseLost) { //nolint:contextcheck // only its cause is read
		return fmt.Errorf("put key %s: %w", key, jetstream.ErrLeaseLost)
	}
	return s.kv.Put(ctx, key, value)
}

// A prefixedStore separates the state of one engine from that of another.
type prefixedStore struct {
	alerts.Store
	prefix string
}

func (s prefixedStore) Get(ctx context.Context, key string) ([]byte, error) {
	return s.Store.Get(ctx, s.prefix+key)
}

func (s prefixedStore) Put(ctx context.Context, key string, value []byte) error {
	return s.Store.Put(ctx, s.prefix+key, value)
}
