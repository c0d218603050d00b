package jetstream

import (
	"context"
	"fmt"
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
		if expected {
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
func (k *KV) Values(ctx context.Context, patterns ...string) (values map[string][]byte, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = k.watch(ctx, patterns, func(all map[string][]byte) {
		values = all
		stop()
	}, func(string, []byte) {})
	if values != nil {
		return values, nil
	}
	return nil, err
}

// watch is Watch until an error or the end of ctx.
func (k *KV) watch(ctx context.Context, patterns []string, replace func(map[string][]byte), change func(string, []byte)) error {
	w, err := k.kv.WatchFiltered(ctx, append([]string(nil), patterns...)) // it changes its argument
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.bucket, err)
	}
	defer func() { _ = w.Stop() }() // a watcher that fails to stop ends with the connection
	values := map[string][]byte{}   // nil after the first replace
	for {
		select {
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return fmt.Errorf("watch %s: %w", k.bucket, errInterrupted)
			case e == nil:
				replace(values)
				values = nil
				continue
			}
			value := e.Value()
			if e.Operation() != natsjs.KeyValuePut {
				value = nil
			}
			switch {
			case values == nil:
				change(e.Key(), value)
			case value != nil:
				values[e.Key()] = value
			}
		case <-ctx.Done():
			return fmt.Errorf("watch %s: %w", k.bucket, ctx.Err())
		}
	}
}
