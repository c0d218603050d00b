package clickhouse_test

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// BenchmarkWrite stores 10,000 exchanges per write, every tenth a failure with its finding. MB/s is of the rows in
// memory (sinks.Batch.Bytes).
func BenchmarkWrite(b *testing.B) {
	s := open(b)
	const n = 10_000
	first := 0
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		rows := sinktest.Rows(first, n)
		batch := &sinks.Batch{Exchanges: rows.Exchanges, Findings: rows.Findings[:n/10]}
		first += n
		b.SetBytes(int64(batch.Bytes()))
		b.StartTimer()
		must.Do(b, s.Write(b.Context(), batch))
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
}
