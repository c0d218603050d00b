package chdb

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// BenchmarkInsert stores batches of 10,000 rows of about 0.5 KB.
func BenchmarkInsert(b *testing.B) {
	c := open(b, server(b))
	mustExec(b, c, `CREATE OR REPLACE TABLE bench (id UUID, ts DateTime64(6), service LowCardinality(String), labels Map(LowCardinality(String), String),
		body String CODEC(ZSTD(3))) ENGINE = MergeTree ORDER BY (service, ts)`)
	const rows = 10000
	body := strings.Repeat(`{"role":"assistant","content":"hello"} `, 12)
	labels := map[string]string{"environment": "prod", "version": "1.2.3"}
	b.SetBytes(int64(rows * (len(body) + 60)))
	for b.Loop() {
		batch, err := c.PrepareBatch(b.Context(), "INSERT INTO bench")
		must.Do(b, err)
		for i := range rows {
			id := uuid.UUID{byte(i), byte(i >> 8)}
			must.Do(b, batch.Append(id, int64(1_790_000_000_000_000+i), "planner", labels, body))
		}
		must.Do(b, batch.Send())
	}
	b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
