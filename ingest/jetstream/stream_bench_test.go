package jetstream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// BenchmarkStream measures what settings of the event stream cost: publishing and reading 100 MB of bodies, which are real
// texts. CPU seconds are of client and server together; disk is what the stream keeps per byte of bodies.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{10_000, 100_000} {
		for name, change := range map[string]func(*natsjs.StreamConfig){
			"default":                  func(*natsjs.StreamConfig) {},
			"compressed":               func(c *natsjs.StreamConfig) { c.Compression = natsjs.S2Compression },
			"without duplicate checks": func(c *natsjs.StreamConfig) { c.Duplicates = 100 * time.Millisecond },
			"asynchronous writes":      func(c *natsjs.StreamConfig) { c.PersistMode = natsjs.AsyncPersistMode },
		} {
			b.Run(fmt.Sprintf("%dKB/%s", size/1000, name), func(b *testing.B) { benchmarkStream(b, size, change) })
		}
	}
}

func benchmarkStream(b *testing.B, size int, change func(*natsjs.StreamConfig)) {
	text := sources(b, 20_000_000)
	count := 100_000_000 / size
	var publishing, reading, disk float64
	b.SetBytes(int64(size * count))
	for b.Loop() {
		b.StopTimer()
		n := startNATS(b)
		c, ctx := n.connect(b)
		cfg := c.streams()[0]
		change(&cfg)
		must.Do(b, c.js.DeleteStream(ctx, event.StreamEvents))
		_, err := c.js.CreateStream(ctx, cfg)
		must.Do(b, err)
		b.StartTimer()
		begun := slowtest.Processor(b).Seconds()
		p := c.NewPublisher(256)
		for i := range count {
			e := testEvent(i, 0)
			at := i * 7919 * 13 % (len(text) - size)
			e.Body = text[at : at+size]
			must.Do(b, p.Publish(ctx, e))
		}
		must.Do(b, p.Flush(ctx))
		published := slowtest.Processor(b).Seconds()
		publishing += published - begun
		r := openReader(b, ctx, c, "a")
		readAll(b, ctx, r, count)
		reading += slowtest.Processor(b).Seconds() - published
		must.Do(b, r.Close(ctx))
		b.StopTimer()
		disk += float64(diskUsage(b, n.cfg.Dir)) / float64(size*count)
		b.StartTimer()
	}
	gb := float64(size*count) / 1e9 * float64(b.N)
	b.ReportMetric(publishing/gb, "publish-cpu-s/GB")
	b.ReportMetric(reading/gb, "read-cpu-s/GB")
	b.ReportMetric(disk/float64(b.N), "disk/byte")
}

func readAll(b *testing.B, ctx context.Context, r *Reader, count int) {
	for left := count; left > 0; {
		msgs := must.Get(r.Next(ctx, 1000, time.Second))(b)
		left -= len(msgs)
	}
}

// sources returns n bytes of Go's own sources.
func sources(b *testing.B, n int) (text []byte) {
	files, err := filepath.Glob(filepath.Join(runtime.GOROOT(), "src", "*", "*.go")) //nolint:staticcheck // a benchmark has Go's sources
	must.Do(b, err)
	for _, f := range files {
		data := must.Get(os.ReadFile(f))(b)
		if text = append(text, data...); len(text) >= n {
			return text[:n]
		}
	}
	if len(text) < 1_000_000 {
		b.Skip("NOT MEASURED: Go's sources are not installed")
	}
	return text
}

func diskUsage(b *testing.B, dir string) (n int64) {
	must.Do(b, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".blk") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}))
	return n
}

// BenchmarkFrames measures what publishing, storing, reading and decoding costs, by the size of bodies and the number of events in
// a message. CPU seconds are of client and server together.
func BenchmarkFrames(b *testing.B) {
	for _, size := range []int{1000, 3000, 10_000} {
		for _, events := range []int{1, 4, 16, event.MaxFrameEvents} {
			b.Run(fmt.Sprintf("%dKB/%d", size/1000, events), func(b *testing.B) { benchmarkFrames(b, size, events) })
		}
	}
}

func benchmarkFrames(b *testing.B, size, inFrame int) {
	text := sources(b, 20_000_000)
	count := 100_000_000 / size
	var cpu float64
	b.SetBytes(int64(size * count))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c, ctx := startNATS(b).connect(b)
		events := benchEvents(count, 0)
		for i, e := range events {
			at := i * 7919 * 13 % (len(text) - size)
			e.Labels.Conversation, e.Body = "c1", text[at:at+size]
		}
		runtime.GC()
		b.StartTimer()
		begun := slowtest.Processor(b).Seconds()
		p := c.NewPublisher(256)
		for i, e := range events {
			for must.Do(b, p.mu.lock(ctx)); p.full(); {
				must.Do(b, p.waitOldest(ctx))
			}
			p.gather(e, event.PartBytes, p.send)
			if (i+1)%inFrame == 0 {
				p.release(event.PartBytes, p.send)
			}
			p.mu.unlock()
		}
		must.Do(b, p.Flush(ctx))
		r := openReader(b, ctx, c, "a")
		readAll(b, ctx, r, count)
		cpu += slowtest.Processor(b).Seconds() - begun
		must.Do(b, r.Close(ctx))
	}
	b.ReportMetric(cpu/(float64(size*count)/1e9*float64(b.N)), "cpu-s/GB")
}
