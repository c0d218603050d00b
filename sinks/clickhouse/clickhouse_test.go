package clickhouse_test

import (
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	sinktest.Run(t,
		func(t *testing.T) sinks.Sink {
			if strings.Contains(t.Name(), "cancelled") {
				return openDSN(t, freshDSN(t)) // the server may store the rows of a cancelled write after the test
			}
			return open(t)
		},
		func(t *testing.T, s sinks.Sink) map[string]uint64 {
			return must.Get(s.(*clickhouse.Sink).Counts(t.Context()))(t)
		})
}
