package clickhouse_test

import (
	"fmt"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// Equal maps are stored in the same order, so that ClickHouse groups them.
func TestMapsAreSorted(t *testing.T) {
	t.Parallel()
	s := open(t)
	b := sinktest.Rows(0, 50)
	for i := range b.Exchanges {
		m := map[string]string{}
		for k := range 12 {
			m[fmt.Sprint("k", k)] = "v"
		}
		b.Exchanges[i].Settings, b.Exchanges[i].Attrs = m, m
	}
	must.Do(t, s.Write(t.Context(), b))
	must.Equal(t, query(t, s, "SELECT uniqExact(settings), uniqExact(attributes), any(length(settings)), count() FROM exchanges_final", nil), "1\t1\t12\t50\n", "values")
}
