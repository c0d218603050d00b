package natsserver

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// cacheExpire is how long the server keeps a written or read block of the event stream in memory.
const cacheExpire = 250 * time.Millisecond

// expireCacheSooner sets cacheExpire for the event stream, once it exists. nats-server keeps blocks that were written or read
// for 10 s. While calls of 10 KB were stored as fast as 2 cores can, these were 224 MB of the heap, and the process spent a
// quarter of its CPU on collecting garbage within memory.limit. With 1 s they were 48 to 72 MB; 250 ms save another fifth of
// the collections. The server has a setting for it (FileStoreConfig.CacheExpire), but neither its options nor the
// configuration of a stream reach it. If a future version has no such field, the server needs the memory again, and
// TestCacheExpire fails.
func (s *Server) expireCacheSooner(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		expire, lock, err := cacheExpireOf(s.nats, event.StreamEvents)
		if err != nil {
			s.cfg.Logger.Warn("the embedded NATS needs more memory", "err", err)
			return
		}
		if expire != nil {
			lock.Lock()
			*expire = cacheExpire
			lock.Unlock()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// cacheExpireOf returns FileStoreConfig.CacheExpire of a stream and the lock that guards it, or nil if the stream does not exist
// yet.
func cacheExpireOf(n *server.Server, name string) (expire *time.Duration, lock *sync.RWMutex, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("nats-server %s has no field for the expiry of blocks: %v", server.VERSION, r)
		}
	}()
	js := reflect.ValueOf(n.GlobalAccount()).Elem().FieldByName("js")
	if js.IsNil() {
		return nil, nil, nil
	}
	stream := valueOf(js.Elem().FieldByName("streams"), name, lockOf(js.Elem()))
	if !stream.IsValid() {
		return nil, nil, nil
	}
	store := stream.Elem().FieldByName("store").Elem().Elem() // a *fileStore
	field := store.FieldByName("fcfg").FieldByName("CacheExpire")
	if field.Type() != reflect.TypeFor[time.Duration]() {
		return nil, nil, fmt.Errorf("nats-server %s has another type for the expiry of blocks: %v", server.VERSION, field.Type())
	}
	return (*time.Duration)(field.Addr().UnsafePointer()), lockOf(store), nil
}

// valueOf returns the value of a key of m, which lock guards.
func valueOf(m reflect.Value, key string, lock *sync.RWMutex) reflect.Value {
	lock.RLock()
	defer lock.RUnlock() // also after a panic
	return m.MapIndex(reflect.ValueOf(key))
}

// lockOf returns the field mu of a struct.
func lockOf(v reflect.Value) *sync.RWMutex {
	mu := v.FieldByName("mu")
	if mu.Type() != reflect.TypeFor[sync.RWMutex]() {
		panic(fmt.Sprintf("the lock is a %v", mu.Type()))
	}
	return (*sync.RWMutex)(mu.Addr().UnsafePointer())
}
