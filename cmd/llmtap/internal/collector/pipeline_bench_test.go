package collector

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/content"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// BenchmarkPipeline measures the path of an event after JetStream: reading, analyzing, storing. An op is one exchange (a
// request of about the named size and its response); bytes are those of both bodies.
func BenchmarkPipeline(b *testing.B) {
	for _, size := range []int{10 << 10, 100 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) { benchmarkPipeline(b, size) })
	}
}

func benchmarkPipeline(b *testing.B, size int) {
	n := min(20_000, 256<<20/size)
	conn, bytes := benchStream(b, n, size)
	p := &pipelineBench{conn: conn, n: n, bytes: bytes}
	p.step(b, "consume", false, nil)
	p.step(b, "consume+scan", true, nil)
	p.step(b, "consume+scan+store", true, benchSink(b))
}

// A pipelineBench is a stream of n exchanges and the durations of the steps so far.
type pipelineBench struct {
	conn  *jetstream.Conn
	n     int
	bytes int64
	took  []time.Duration // per exchange, by step
}

// benchStream publishes n exchanges and returns the connection and the total size of the bodies.
func benchStream(b *testing.B, n, size int) (*jetstream.Conn, int64) {
	conn := collectortest.ConnectNATS(b, collectortest.StartNATS(b, ""), nil)
	pub := conn.NewPublisher(0)
	var bytes int64
	for i := range n {
		for _, ev := range collectortest.Exchange(i, size) {
			bytes += int64(len(ev.Body))
			must.Do(b, pub.Publish(b.Context(), ev))
		}
	}
	must.Do(b, pub.Flush(b.Context()))
	return conn, bytes
}

// newBenchAnalyzer returns an analyzer as llmtap up configures it by default; it stores bodies if rows are stored.
func newBenchAnalyzer(b *testing.B, stores bool) *analyzer.Analyzer {
	an := analyzer.New(analyzer.Default(), rules.InOrder, nil)
	if stores {
		redactor := must.Get(redact.NewRedactor(redact.Config{Kinds: redact.Kinds}))(b)
		an.KeepContents(func(string) bool { return true }, content.NewRedactor(redactor).Append)
	}
	return an
}

func benchSink(b *testing.B) sinks.Sink {
	if _, err := chdb.FindLibrary(b.Context(), chdb.LibraryConfig{}); err != nil {
		b.Skipf("SKIPPED, this benchmark requires ClickHouse: %v", err)
	}
	cfg := chdb.Default()
	cfg.Dir = b.TempDir()
	srv := must.Get(chdb.Start(context.WithoutCancel(b.Context()), cfg))(b)
	b.Cleanup(func() { srv.Close(context.WithoutCancel(b.Context())) })
	chCfg := clickhouse.Default()
	chCfg.DSN = srv.DSN()
	sink := must.Get(clickhouse.Open(b.Context(), chCfg, slog.New(slog.DiscardHandler), nil))(b)
	b.Cleanup(func() { sink.Close() })
	return sink
}

// step processes the exchanges b.N times. The last of the three steps reports the share of each.
func (p *pipelineBench) step(b *testing.B, name string, scan bool, sink sinks.Sink) {
	var took time.Duration
	b.Run(name, func(b *testing.B) {
		b.SetBytes(p.bytes / int64(p.n))
		b.ReportAllocs()
		done := 0
		b.ResetTimer()
		for done < b.N {
			done += readStream(b, p.conn, min(p.n, b.N-done), scan, sink)
		}
		took = b.Elapsed() / time.Duration(b.N)
		b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		if len(p.took) == 2 {
			share := func(d time.Duration) float64 { return 100 * float64(d) / float64(took) }
			b.ReportMetric(share(p.took[0]), "%consume")
			b.ReportMetric(share(p.took[1]-p.took[0]), "%scan")
			b.ReportMetric(share(took-p.took[1]), "%store")
		}
	})
	p.took = append(p.took, took)
}

// readStream processes n exchanges with a new analyzer and returns n.
func readStream(b *testing.B, conn *jetstream.Conn, n int, scan bool, sink sinks.Sink) int {
	b.StopTimer()
	an := newBenchAnalyzer(b, sink != nil)
	reader := must.Get(conn.OpenReader(b.Context(), jetstream.ReaderConfig{Partitions: 1, Owner: "bench"}))(b)
	defer func() {
		must.Do(b, reader.Close(context.WithoutCancel(b.Context())))
	}()
	var out analyzer.Output
	b.StartTimer()
	defer b.StopTimer()
	for events := 0; events < 2*n; {
		msgs := must.Get(reader.Next(b.Context(), min(readBatch, 2*n-events), time.Second))(b)
		events += len(msgs)
		if !scan {
			continue
		}
		for i := range msgs {
			an.Process(msgs[i].Event, analyzer.Position{Seq: msgs[i].Seq, Time: msgs[i].Time}, true, &out)
		}
		if sink != nil && (len(out.Exchanges) >= 10_000 || events >= 2*n) {
			rows := sinks.Batch{
				Exchanges: out.Exchanges, Findings: out.Findings, ToolCalls: out.ToolCalls, Runs: out.Runs, Contents: out.Contents, History: out.History,
			}
			must.Do(b, sink.Write(b.Context(), &rows))
		} else if sink != nil {
			continue
		}
		out.Reset()
	}
	return n
}
