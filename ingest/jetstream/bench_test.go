package jetstream

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// benchEvents returns n events with distinct ids and bodies of size bytes.
func benchEvents(n, size int) []*event.Event {
	events := make([]*event.Event, n)
	body := make([]byte, size)
	for i := range events {
		events[i] = testEvent(i, 0)
		events[i].Body = body
	}
	return events
}

func BenchmarkPublish(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("%dKB", size/1000), func(b *testing.B) {
			c, ctx := startNATS(b).connect(b)
			p, e := c.NewPublisher(256), benchEvents(1, size)[0]
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				e := *e
				e.Exchange = fmt.Sprintf("%016x", rand.Uint64())
				must.Do(b, p.Publish(ctx, &e))
			}
			must.Do(b, p.Flush(ctx))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("%dKB", size/1000), func(b *testing.B) {
			c, ctx := startNATS(b).connect(b)
			count := 200_000_000 / size
			p := c.NewPublisher(256)
			for _, e := range benchEvents(count, size) {
				must.Do(b, p.Publish(ctx, e))
			}
			must.Do(b, p.Flush(ctx))
			b.SetBytes(int64(size * count))
			b.ReportAllocs()
			for b.Loop() { // one op reads the whole stream, including opening the reader
				r := openReader(b, ctx, c, "a")
				for left := count; left > 0; {
					msgs, err := r.Next(ctx, 1000, time.Second)
					must.Do(b, err)
					left -= len(msgs)
				}
				must.Do(b, r.Close(ctx))
			}
			b.ReportMetric(float64(b.N*count)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkReadPartitions reads all partitions concurrently over one connection, like a process that owns all of them.
func BenchmarkReadPartitions(b *testing.B) {
	const size, count = 10_000, 20_000
	for _, n := range []int{1, 2, 4} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			c, ctx := startNATS(b).connect(b)
			if n > 1 {
				repartition(b, ctx, c, n)
			}
			p, inPartition := c.NewPublisher(256), make([]int, n)
			for i, e := range benchEvents(count, size) {
				e.Labels.Conversation = fmt.Sprint("c", i/10)
				inPartition[int(e.Shard())%n]++
				must.Do(b, p.Publish(ctx, e))
			}
			must.Do(b, p.Flush(ctx))
			b.SetBytes(size * count)
			for b.Loop() { // one op reads the whole stream
				var g errgroup.Group
				for part, left := range inPartition {
					g.Go(func() error {
						r, err := c.OpenReader(ctx, ReaderConfig{Partition: part, Partitions: n, Owner: "a"})
						if err != nil {
							return err
						}
						for left > 0 {
							msgs, err := r.Next(ctx, 1000, time.Second)
							if err != nil {
								return err
							}
							left -= len(msgs)
						}
						return r.Close(ctx)
					})
				}
				must.Do(b, g.Wait())
			}
			b.ReportMetric(float64(b.N*count)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
