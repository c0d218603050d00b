package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

// resyncInterval is the time after which a Watch reads all values again. It bounds the age of a value that was purged, of
// which a watch is not notified.
const resyncInterval = 5 * time.Minute

// Watch follows the keys that match one of patterns, such as "silence.*", until ctx ends. It calls replace with all values,
// then change with each new value, which is nil if the key was deleted. It calls replace again whenever values may have been
// missed, and every few minutes. It retries after errors, which it logs.
func (k *KV) Watch(ctx context.Context, patterns []string, replace func(values map[string][]byte), change func(key string, value []byte)) {
	wait, logged := newBackOff(5*time.Second), time.Time{}
	for ctx.Err() == nil {
		intact, stop := k.conn.whileIntact(ctx)
		resync, cancel := context.WithTimeout(intact, resyncInterval)
		err := k.watch(resync, patterns, func(values map[string][]byte) {
			wait.Reset()
			replace(values)
		}, change)
		expected := resync.Err() != nil
		cancel()
		stop()
		if expected || errors.Is(err, errStalled) {
			continue
		}
		if time.Since(logged) >= failureLogInterval {
			logged = time.Now()
			k.conn.log.Warn("watch of stored values failed, retrying", "bucket", k.bucket, "err", err)
		}
		_ = sleep(ctx, wait.NextBackOff()) // the loop checks ctx
	}
}

// Values returns the current values of the keys that match one of patterns, such as "silence.*".
func (k *KV) Values(ctx context.Context, patterns ...string) (map[string][]byte, error) {
	entries, err := k.current(ctx, patterns)
	if err != nil {
		return nil, err
	}
	return values(entries), nil
}

func values(entries map[string]natsjs.KeyValueEntry) map[string][]byte {
	m := make(map[string][]byte, len(entries))
	for key, e := range entries {
		m[key] = e.Value()
	}
	return m
}

// Each calls fn with each key, value and revision, unordered, until fn returns an error.
func (k *KV) Each(ctx context.Context, fn func(key string, value []byte, revision uint64) error) error {
	entries, err := k.current(ctx, []string{natsjs.AllKeys})
	if err != nil {
		return err
	}
	for key, e := range entries {
		if err := fn(key, e.Value(), e.Revision()); err != nil {
			return err
		}
	}
	return nil
}

// current returns the entries that match one of patterns, by key.
func (k *KV) current(ctx context.Context, patterns []string) (map[string]natsjs.KeyValueEntry, error) {
	for {
		w, err := k.start(ctx, patterns)
		if err != nil {
			return nil, err
		}
		entries, err := k.initial(ctx, w)
		_ = w.Stop() // a watcher that fails to stop ends with the connection
		if !errors.Is(err, errStalled) {
			return entries, err
		}
	}
}

// watch is Watch until an error or the end of ctx.
func (k *KV) watch(ctx context.Context, patterns []string, replace func(map[string][]byte), change func(string, []byte)) error {
	w, err := k.start(ctx, patterns)
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }() // a watcher that fails to stop ends with the connection
	entries, err := k.initial(ctx, w)
	if err != nil {
		return err
	}
	replace(values(entries))
	for {
		e, err := k.next(ctx, w)
		switch {
		case err != nil:
			return err
		case e == nil:
		case e.Operation() == natsjs.KeyValuePut:
			change(e.Key(), e.Value())
		default:
			change(e.Key(), nil)
		}
	}
}

func (k *KV) start(ctx context.Context, patterns []string) (natsjs.KeyWatcher, error) {
	w, err := k.kv.WatchFiltered(ctx, slices.Clone(patterns)) // it changes its argument
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", k.bucket, err)
	}
	return w, nil
}

// stallTimeout is the time without a value after which the rest of the current values does not arrive.
const stallTimeout = 2 * time.Second

// errStalled means that the end of the current values was not announced. The client counts those that exist when the watch
// starts. If one of them is purged before it is sent, the count is never reached.
var errStalled = errors.New("the current values did not arrive")

// initial returns the entries that exist when w starts, by key, or errStalled.
func (k *KV) initial(ctx context.Context, w natsjs.KeyWatcher) (map[string]natsjs.KeyValueEntry, error) {
	entries := map[string]natsjs.KeyValueEntry{}
	for {
		ctx, cancel := context.WithTimeoutCause(ctx, stallTimeout, errStalled)
		e, err := k.next(ctx, w)
		cancel()
		switch {
		case err != nil:
			return nil, err
		case e == nil:
			return entries, nil
		case e.Operation() == natsjs.KeyValuePut:
			entries[e.Key()] = e
		default:
			delete(entries, e.Key())
		}
	}
}

// next returns the next entry, or nil at the end of the current ones.
func (k *KV) next(ctx context.Context, w natsjs.KeyWatcher) (natsjs.KeyValueEntry, error) {
	select {
	case e, ok := <-w.Updates():
		if !ok {
			return nil, fmt.Errorf("watch %s: %w", k.bucket, errInterrupted)
		}
		return e, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("watch %s: %w", k.bucket, context.Cause(ctx))
	}
}
