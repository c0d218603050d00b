package clickhouse_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb/chdbtest"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// nativeDSN returns the DSN of a fresh database over the native protocol.
func nativeDSN(t *testing.T) string {
	t.Helper()
	u := must.Get(url.Parse(freshDSN(t)))(t)
	if u.Scheme != "http" {
		t.Skip("not the embedded server")
	}
	u.Scheme, u.Host = "clickhouse", chdbtest.StartNative(t, u.Host)
	return u.String()
}

// Rows that are written over the native protocol, and read over it, equal those over HTTP, including texts and times that are
// difficult to encode.
func TestNativeProtocol(t *testing.T) {
	t.Parallel()
	b := sinktest.Rows(0, len(sinktest.Strings))
	for i, text := range sinktest.Strings {
		b.Exchanges[i].ErrorText, b.Exchanges[i].Labels.Stage, b.Exchanges[i].Attrs = text, text, map[string]string{text: text}
		b.Exchanges[i].Lead, b.Exchanges[i].Marked, b.Exchanges[i].Tools = []string{text, ""}, map[uint32]string{7: text}, nil
		b.Findings[i].Summary, b.ToolCalls[i].Name, b.Contents[i].Body = text, text, text
		b.Alerts[i].Labels, b.Alerts[i].Shares = map[string]string{"stage": text}, nil
	}
	for i, at := range []time.Time{{}, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)} {
		b.Exchanges[i].StartedAt, b.Exchanges[i].InputTokens, b.Exchanges[i].Status = at, -1<<63, -1
		b.ToolCalls[i].AnsweredAt, b.Contents[i].SeenAt, b.Alerts[i].EndedAt = at, at, at
	}
	http, native := open(t), openDSN(t, nativeDSN(t))
	for _, s := range []*clickhouse.Sink{http, native} {
		must.Do(t, s.Write(t.Context(), b))
		must.Do(t, s.Write(t.Context(), b))
	}
	for table := range clickhouse.ColumnNames() {
		sql := "SELECT * FROM " + table + "_final ORDER BY ALL"
		want := must.Get(http.Query(t.Context(), sql, nil))(t)
		got := must.Get(native.Query(t.Context(), sql, nil))(t)
		if d := cmp.Diff(want.Rows, got.Rows); d != "" || len(want.Rows) != len(sinktest.Strings) {
			t.Errorf("%s has %d rows (-HTTP +native):\n%.2000s", table, len(want.Rows), d)
		}
	}
}
