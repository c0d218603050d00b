package collector

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
	"github.com/llmtap/llmtap/sinks/sinktest"
)

// ClickHouse knows what the calls cost that the analyzer measures.
func TestSpent(t *testing.T) {
	t.Parallel()
	slowtest.SkipShort(t, "starts ClickHouse")
	sink := collectortest.OpenClickHouse(t)

	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	to := from.Add(90 * time.Minute)
	b := sinktest.Rows(0, 9)
	changes := []func(e *analyzer.Exchange){
		func(*analyzer.Exchange) {},
		func(e *analyzer.Exchange) { e.StoredAt = from.Add(80 * time.Minute) },
		func(e *analyzer.Exchange) {
			e.StoredAt, e.StartedAt = from.Add(-time.Nanosecond), from.Add(-time.Second)
		},
		func(e *analyzer.Exchange) { e.StoredAt = to },
		func(e *analyzer.Exchange) { e.Failed, e.Status = true, 400 },
		func(e *analyzer.Exchange) { e.Retry = 1 },
		func(e *analyzer.Exchange) { e.ErrorType = analyzer.ErrorCancelled },
		func(e *analyzer.Exchange) { e.InputTokens, e.CachedTokens, e.OutputTokens = 0, 0, 0 },
		func(e *analyzer.Exchange) { e.Model = "new" },
	}
	for i, change := range changes {
		e := &b.Exchanges[i]
		e.Labels.Service, e.Labels.Environment, e.Provider, e.Model = "shop", "prod", "deepseek", "deepseek-chat"
		e.StartedAt, e.StoredAt = from.Add(time.Minute), from.Add(2*time.Minute)
		e.Status, e.Failed, e.Retry, e.ErrorType, e.Origin = 200, false, 0, "", "hook"
		e.InputTokens, e.CachedTokens, e.OutputTokens = 1000, 400, 100
		change(e)
	}
	must.Do(t, sink.Write(t.Context(), b))
	got := map[int64]engine.Spent{}
	for _, x := range must.Get(spent(t.Context(), sink, price.Default(), from, to))(t) {
		got[x.Hour.Unix()] = x
	}
	cost := uint64(221) // 600 * 0.28 + 400 * 0.028 + 100 * 0.42
	want := map[int64]engine.Spent{}
	for _, x := range []engine.Spent{
		{Hour: from, Service: "shop", Environment: "prod", Microdollars: cost, Unpriced: 1}, {Hour: from.Add(time.Hour), Service: "shop", Environment: "prod", Microdollars: cost},
	} {
		want[x.Hour.Unix()] = x
	}
	equal := func(a, b engine.Spent) bool { a.Hour, b.Hour = a.Hour.UTC(), b.Hour.UTC(); return a == b }
	if !maps.EqualFunc(want, got, equal) {
		t.Error(cmp.Diff(want, got))
	}
}
