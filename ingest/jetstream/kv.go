package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// Errors of a KV.
var (
	ErrKeyNotFound = errors.New("key not found")
	ErrKeyConflict = errors.New("key was changed concurrently")
	ErrNoBucket    = natsjs.ErrBucketNotFound               // by KV
	ErrClosed      = errors.New("the connection is closed") // permanent, returned after Close
)

// A KV is a key-value bucket. Keys match [-/_=.a-zA-Z0-9]+.
type KV struct {
	bucket string
	kv     natsjs.KeyValue
	conn   *Conn
}

// KV opens a bucket created by Ensure.
func (c *Conn) KV(ctx context.Context, bucket string) (*KV, error) {
	kv, err := c.js.KeyValue(ctx, bucket)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return &KV{bucket: bucket, kv: kv, conn: c}, nil
}

// Get returns the value and revision of key, or ErrKeyNotFound.
func (k *KV) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	e, err := k.kv.Get(ctx, key)
	if err != nil {
		return nil, 0, k.wrap("get", key, err)
	}
	return e.Value(), e.Revision(), nil
}

// Put sets key unconditionally.
func (k *KV) Put(ctx context.Context, key string, value []byte) error {
	_, err := k.kv.Put(ctx, key, value)
	return k.wrap("put", key, err)
}

// Update sets key if it has the given revision (0: key does not exist) and returns the new revision; otherwise it
// returns ErrKeyConflict.
func (k *KV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	var err error
	if revision == 0 {
		revision, err = k.kv.Create(ctx, key, value)
	} else {
		revision, err = k.kv.Update(ctx, key, value, revision)
	}
	return revision, k.wrap("update", key, err)
}

// Purge removes key unless it has a newer revision. It leaves no delete marker.
func (k *KV) Purge(ctx context.Context, key string, revision uint64) error {
	stream, err := k.conn.js.Stream(ctx, "KV_"+k.bucket)
	if err == nil {
		err = stream.Purge(ctx, natsjs.WithPurgeSubject("$KV."+k.bucket+"."+key), natsjs.WithPurgeSequence(revision+1))
	}
	return k.wrap("purge", key, err)
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
