package natsserver

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// BenchmarkSubjects measures the memory of the server for one subject of a stream. llmtap has a subject for each kind of event,
// service and shard: up to 512 for a service whose calls are requests and responses.
func BenchmarkSubjects(b *testing.B) {
	for _, n := range []int{50_000, 500_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				cfg := Default()
				cfg.Dir, cfg.Port, cfg.Logger = b.TempDir(), -1, slog.New(slog.DiscardHandler)
				s, err := Start(b.Context(), cfg)
				must.Do(b, err)
				nc, err := nats.Connect(s.URL(), nats.Token(s.Token()))
				must.Do(b, err)
				js, err := natsjs.New(nc, natsjs.WithPublishAsyncMaxPending(4000))
				must.Do(b, err)
				must.Do(b, must.Err(js.CreateStream(b.Context(), natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Storage: natsjs.FileStorage})))
				before := heap()
				for i := range n {
					must.Do(b, must.Err(js.PublishAsync(fmt.Sprintf("s.request.checkout-%d.%02x", i/256, i%256), []byte("x"))))
					if i%2000 == 1999 {
						<-js.PublishAsyncComplete()
					}
				}
				<-js.PublishAsyncComplete()
				time.Sleep(3 * time.Second) // until blocks have left the memory
				b.ReportMetric(float64(heap()-before)/float64(n), "B/subject")
				nc.Close()
				s.Shutdown()
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
