package jetstream

import (
	"context"
	"errors"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// Errors of a KV that callers branch on.
var (
	ErrKeyNotFound = errors.New("key not found")
	ErrKeyConflict = errors.New("key was changed by someone else")
)

// A KV is one key-value bucket. Keys are [-/_=.a-zA-Z0-9]+.
type KV struct {
	bucket string
	kv     natsjs.KeyValue
}

// KV opens a bucket that Ensure has made.
func (c *Conn) KV(ctx context.Context, bucket string) (*KV, error) {
	kv, err := c.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return &KV{bucket: bucket, kv: kv}, nil
}

// Get returns the value of key and its revision, or ErrKeyNotFound.
func (k *KV) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	e, err := k.kv.Get(ctx, key)
	if err != nil {
		return nil, 0, k.wrap("get", key, err)
	}
	return e.Value(), e.Revision(), nil
}

// Put sets key whatever it was.
func (k *KV) Put(ctx context.Context, key string, value []byte) error {
	_, err := k.kv.Put(ctx, key, value)
	return k.wrap("put", key, err)
}

// Update sets key if it still has this revision, or does not exist and revision is 0, and returns the new revision;
// else it returns ErrKeyConflict.
func (k *KV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var err error
	if revision == 0 {
		revision, err = k.kv.Create(ctx, key, value)
	} else {
		revision, err = k.kv.Update(ctx, key, value, revision)
	}
	return revision, k.wrap("update", key, err)
}

// Delete removes key; it is no error when key does not exist.
func (k *KV) Delete(ctx context.Context, key string) error {
	return k.wrap("delete", key, k.kv.Delete(ctx, key))
}

// Keys returns all keys, in no order.
func (k *KV) Keys(ctx context.Context) ([]string, error) {
	keys, err := k.kv.Keys(ctx)
	if errors.Is(err, natsjs.ErrNoKeysFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list keys of %s: %w", k.bucket, err)
	}
	return keys, nil
}

func (k *KV) wrap(verb, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsjs.ErrKeyNotFound), errors.Is(err, natsjs.ErrKeyDeleted):
		err = ErrKeyNotFound
	case errors.Is(err, natsjs.ErrKeyExists), errors.Is(err, natsjs.ErrKeyRevisionMismatch):
		err = ErrKeyConflict
	}
	return fmt.Errorf("%s key %s of %s: %w", verb, key, k.bucket, err)
}
