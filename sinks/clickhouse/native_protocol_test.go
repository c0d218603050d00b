package clickhouse_test

import (
	"net/url"
	"testing"

	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb/chdbtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// nativeDSN returns the DSN of a fresh database over the native protocol.
func nativeDSN(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(freshDSN(t))
	must(t, err)
	if u.Scheme != "http" {
		t.Skip("not the embedded server")
	}
	u.Scheme, u.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	return u.String()
}

// Rows are written and read over the native protocol. All tests use one database, because creating one takes longer than they do.
func TestNativeContract(t *testing.T) {
	dsn := nativeDSN(t)
	sinktest.Run(t,
		func(t *testing.T) sinks.Sink {
			s := openDSN(t, dsn)
			for table := range clickhouse.ColumnNames() {
				must(t, s.Exec(t.Context(), "TRUNCATE TABLE "+table))
			}
			return s
		},
		func(t *testing.T, s sinks.Sink) map[string]uint64 {
			n, err := s.(*clickhouse.Sink).Counts(t.Context())
			must(t, err)
			return n
		})
}
