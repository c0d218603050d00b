package httpevents

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// benchEvent returns a request with a body of size bytes, JSON with texts, as a string of the payload.
func benchEvent(size int) *event.Event {
	body := fmt.Appendf(nil, `{"model":"gpt-5","messages":[{"role":"user","content":"%s"}]}`,
		bytes.Repeat([]byte("Read the file \\\"main.go\\\" and fix the error.\\n"), size/46))
	return &event.Event{
		Kind: event.Request, Time: now, Labels: event.Labels{Service: "checkout", Environment: "prod", Stage: "Planner", Conversation: "c-1"},
		URL: "https://api.openai.com/v1/chat/completions", Method: "POST", Instance: "1234", Seq: 1, Capture: event.CaptureFull, Origin: event.OriginHTTP,
		ContentType: "application/json", SDK: "go/0.1.0", Body: body,
	}
}

var benchSizes = []int{1 << 10, 10 << 10, 100 << 10}

// perPayload returns 64 events per payload, but at most 1 MiB, as hooks send them.
func perPayload(size int) int { return max(1, min(64, (1<<20)/size)) }

// BenchmarkStore stores the same events over HTTP and by publishing them to NATS, from four clients. One op is one event.
func BenchmarkStore(b *testing.B) {
	for _, size := range benchSizes {
		e := benchEvent(size)
		measure := func(name string, batch func(b *testing.B, r *rig, n int, payload []byte) []byte) {
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, name), func(b *testing.B) {
				r := start(b)
				b.SetBytes(int64(len(e.Body)))
				b.ReportAllocs()
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var clients sync.WaitGroup
				for range 4 {
					clients.Go(func() {
						per := int64(perPayload(size))
						var payload []byte
						for n := left.Add(-per) + per; n > 0; n = left.Add(-per) + per {
							payload = batch(b, r, int(min(n, per)), payload[:0])
						}
					})
				}
				clients.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
		measure("nats", func(b *testing.B, r *rig, n int, payload []byte) []byte {
			events := make([]*event.Event, n)
			for i := range events {
				one := *e
				one.Exchange = uuid.NewString()
				events[i] = &one
			}
			if _, err := r.conn.PublishBatch(b.Context(), events); err != nil {
				b.Error(err)
			}
			return payload
		})
		measure("http", func(b *testing.B, r *rig, n int, payload []byte) []byte {
			one := *e
			for range n {
				one.Exchange = uuid.NewString()
				payload = append(one.AppendJSON(payload), '\n')
			}
			a := r.post("application/x-ndjson", payload)
			must.Equal(b, a.Accepted, n, "%+v", a)
			return payload
		})
	}
}

// BenchmarkDecode decodes payloads as hooks send them. One op is one event.
func BenchmarkDecode(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			n := perPayload(size)
			var payload []byte
			for range n {
				e := benchEvent(size)
				e.Exchange = uuid.NewString()
				payload = append(e.AppendJSON(payload), '\n')
			}
			b.SetBytes(int64(len(benchEvent(size).Body)))
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= n {
				must.Equal(b, len(must.Get(decoded("application/x-ndjson", string(payload)))(b).events), n, "events")
			}
		})
	}
}
