package natsserver

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The server keeps blocks of the event stream in memory for cacheExpire.
func TestCacheExpire(t *testing.T) {
	s := must.Get(Start(t.Context(), config(t)))(t)
	defer s.Shutdown()
	nc := must.Get(nats.Connect(s.URL()))(t)
	defer nc.Close()
	js := must.Get(jetstream.New(nc))(t)
	if expire, _, err := cacheExpireOf(s.nats, event.StreamEvents); expire != nil || err != nil {
		t.Fatalf("without a stream: %v, %v", expire, err)
	}
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}}))(t)
	expire, lock, err := cacheExpireOf(s.nats, event.StreamEvents)
	must.Do(t, err)
	value := func() time.Duration {
		lock.RLock()
		defer lock.RUnlock()
		return *expire
	}
	must.Wait(t, "blocks are kept for cacheExpire", func() bool { return value() == cacheExpire })
}
