package natsserver

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// The server keeps blocks of the event stream in memory for cacheExpire.
func TestCacheExpire(t *testing.T) {
	s, err := Start(t.Context(), config(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if expire, _, err := cacheExpireOf(s.nats, event.StreamEvents); expire != nil || err != nil {
		t.Fatalf("without a stream: %v, %v", expire, err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}}); err != nil {
		t.Fatal(err)
	}
	expire, lock, err := cacheExpireOf(s.nats, event.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	value := func() time.Duration {
		lock.RLock()
		defer lock.RUnlock()
		return *expire
	}
	for deadline := time.Now().Add(5 * time.Second); value() != cacheExpire; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("blocks are kept for %v", value())
		}
	}
}
