package clickhouse_test

import (
	"net"
	"net/url"
	"strconv"
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

// Rows are written and read over the native protocol.
func TestNativeContract(t *testing.T) {
	sinktest.Run(t,
		func(t *testing.T) sinks.Sink { return openDSN(t, nativeDSN(t)) },
		func(t *testing.T, s sinks.Sink) map[string]uint64 {
			n, err := s.(*clickhouse.Sink).Counts(t.Context())
			must(t, err)
			return n
		})
}

// All steps succeed over the native protocol, and over HTTP as the other protocol.
func TestVerifyNative(t *testing.T) {
	dsn := freshDSN(t)
	u, err := url.Parse(dsn)
	must(t, err)
	if u.Scheme != "http" {
		t.Skip("not the embedded server")
	}
	_, port, err := net.SplitHostPort(u.Host)
	must(t, err)
	u.Scheme, u.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	cfg := verifyConfig(t, u.String())
	cfg.OtherPort, err = strconv.Atoi(port)
	must(t, err)
	v, err := clickhouse.Verify(t.Context(), cfg)
	must(t, err)
	golden(t, "verify_native.txt", report(v))
}
