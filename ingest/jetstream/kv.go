package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// Errors of a KV that callers branch on.
var (
	ErrKeyNotFound = errors.New("key not found")
	ErrKeyConflict = errors.New("key was changed by someone else")
	ErrClosed      = errors.New("the connection is closed") // by Close: no use to try again
)

// A KV is one key-value bucket. Keys are [-/_=.a-zA-Z0-9]+.
type KV struct {
	bucket string
	kv     natsjs.KeyValue
	js     natsjs.JetStream
}

// KV opens a bucket that Ensure has made.
func (c *Conn) KV(ctx context.Context, bucket string) (*KV, error) {
	kv, err := c.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return &KV{bucket: bucket, kv: kv, js: c.js}, nil
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

// Each calls fn with every key, its value and its revision, in no order, until fn returns an error. It reads the whole
// bucket at once, so it is much faster than Keys and Get.
func (k *KV) Each(ctx context.Context, fn func(key string, value []byte, revision uint64) error) error {
	w, err := k.kv.WatchAll(ctx, natsjs.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("read %s: %w", k.bucket, err)
	}
	defer func() { _ = w.Stop() }() // a watcher that cannot be stopped ends with the connection
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return fmt.Errorf("read %s: %w", k.bucket, errBroken)
			case e == nil:
				return nil // these were all
			}
			if err := fn(e.Key(), e.Value(), e.Revision()); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", k.bucket, ctx.Err())
		}
	}
}

// Forget removes key, if it has no newer revision than this one. Unlike Delete it leaves nothing behind: a bucket from
// which very many keys were deleted is full of markers that say so.
func (k *KV) Purge(ctx context.Context, key string, revision uint64) error {
	stream, err := k.js.Stream(ctx, "KV_"+k.bucket)
	if err == nil {
		err = stream.Purge(ctx, natsjs.WithPurgeSubject("$KV."+k.bucket+"."+key), natsjs.WithPurgeSequence(revision+1))
	}
	return k.wrap("forget", key, err)
}

func (k *KV) wrap(verb, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, natsjs.ErrKeyNotFound), errors.Is(err, natsjs.ErrKeyDeleted):
		err = ErrKeyNotFound
	case errors.Is(err, natsjs.ErrKeyExists), errors.Is(err, natsjs.ErrKeyRevisionMismatch):
		err = ErrKeyConflict
	case errors.Is(err, nats.ErrConnectionClosed):
		err = ErrClosed
	}
	return fmt.Errorf("%s key %s of %s: %w", verb, key, k.bucket, err)
}
