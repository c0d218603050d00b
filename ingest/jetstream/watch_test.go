package jetstream

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A watch sees the values of its keys at once, and after a restart of NATS all of them, whatever changed in between.
func TestWatch(t *testing.T) {
	t.Parallel()
	n := startNATS(t)
	c, ctx := n.connect(t)
	other, _ := n.connect(t)
	kv := must.Get(c.KV(ctx, event.BucketAlerts))(t)
	written := must.Get(other.KV(ctx, event.BucketAlerts))(t)
	must.Do(t, written.Put(ctx, "a.1", []byte("1")))
	must.Do(t, written.Put(ctx, "b.1", []byte("1")))
	must.Do(t, written.Put(ctx, "other", []byte("1")))

	var mu sync.Mutex
	got, replaced := map[string]string{}, 0
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		kv.Watch(watching, []string{"a.*", "b.*"}, func(values map[string][]byte) {
			mu.Lock()
			defer mu.Unlock()
			replaced++
			clear(got)
			for k, v := range values {
				got[k] = string(v)
			}
		}, func(key string, value []byte) {
			mu.Lock()
			defer mu.Unlock()
			if got[key] = string(value); value == nil {
				delete(got, key)
			}
		})
	}()
	want := func(within time.Duration, want map[string]string) {
		t.Helper()
		var have map[string]string
		for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			have = maps.Clone(got)
			mu.Unlock()
			if maps.Equal(have, want) {
				return
			}
		}
		t.Fatal(cmp.Diff(want, have))
	}
	want(5*time.Second, map[string]string{"a.1": "1", "b.1": "1"})
	must.Do(t, written.Put(ctx, "a.2", []byte("2")))
	must.Do(t, written.Put(ctx, "other", []byte("2")))
	want(time.Second, map[string]string{"a.1": "1", "a.2": "2", "b.1": "1"})
	must.Do(t, written.kv.Delete(ctx, "a.1"))
	want(time.Second, map[string]string{"a.2": "2", "b.1": "1"})

	_, revision, err := written.Get(ctx, "b.1")
	must.Do(t, err)
	must.Do(t, written.Purge(ctx, "b.1", revision)) // without a marker
	n.restart()
	must.Do(t, other.retry(ctx, func(ctx context.Context) error { return written.Put(ctx, "b.2", []byte("3")) }))
	want(20*time.Second, map[string]string{"a.2": "2", "b.2": "3"})
	must.Do(t, written.Put(ctx, "a.2", []byte("4")))
	want(time.Second, map[string]string{"a.2": "4", "b.2": "3"})
	stop()
	<-done
	if replaced < 2 {
		t.Errorf("all values were read %d times", replaced)
	}
}

// Reading all values ends although they are purged meanwhile.
func TestValuesDuringPurge(t *testing.T) {
	t.Parallel()
	c, ctx := startNATS(t).connect(t)
	kv := must.Get(c.KV(ctx, event.BucketAlerts))(t)
	for begun, n := time.Now(), 0; time.Since(begun) < stallTimeout && n < 300; n++ {
		must.Do(t, kv.Put(ctx, "a.1", []byte("1")))
		_, revision, err := kv.Get(ctx, "a.1")
		must.Do(t, err)
		purged := make(chan error, 1)
		go func() { purged <- kv.Purge(ctx, "a.1", revision) }()
		must.Get(kv.Values(ctx, "a.*"))(t)
		must.Do(t, <-purged)
	}
}
