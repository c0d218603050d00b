package natsserver

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The account of hooks costs a little for each event.
func BenchmarkPublish(b *testing.B) {
	for _, who := range []string{"collector", "hook"} {
		b.Run(who, func(b *testing.B) {
			cfg := Default()
			cfg.Dir, cfg.Port = filepath.Join(b.TempDir(), "nats"), -1
			s := must.Get(Start(b.Context(), cfg))(b)
			defer s.Shutdown()
			connect := func(token string) jetstream.JetStream {
				nc := must.Get(nats.Connect(s.URL(), nats.Token(token)))(b)
				b.Cleanup(nc.Close)
				js := must.Get(jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256)))(b)
				return js
			}
			all := connect(s.Token())
			must.Get(all.CreateStream(b.Context(), jetstream.StreamConfig{Name: event.StreamEvents, Subjects: []string{event.SubjectAll}}))(b)
			js := all
			if who == "hook" {
				js = connect("")
			}
			data := make([]byte, 10<<10)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				must.Do(b, must.Err(js.PublishAsync("llmtap.v1.request.checkout-agent.00", data)))
			}
			select {
			case <-js.PublishAsyncComplete():
			case <-time.After(30 * time.Second):
				b.Fatal("not acknowledged")
			}
		})
	}
}
