package tsdb

import (
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A query sees only the series of its context, whatever it selects.
func TestWithOnly(t *testing.T) {
	db := Open(Options{})
	t.Cleanup(func() { must.Do(t, db.Close()) })
	now := time.Unix(1_790_000_000, 0)
	for i, service := range []string{"a", "b", "b"} {
		must.Get(db.Append(0, labels.FromStrings("__name__", "calls", "service", service, "n", string(rune('0'+i))), now, 1))(t)
	}
	ctx := WithOnly(t.Context(), func(l labels.Labels) bool { return l.Get("service") == "b" })
	f := func(expr string, want float64) {
		t.Helper()
		v := must.Get(db.Query(ctx, expr, now))(t)
		if len(v) != 1 || v[0].F != want {
			t.Errorf("%s: %v, not %v", expr, v, want)
		}
	}
	f(`sum(calls)`, 2)
	f(`sum({__name__=~".+"})`, 2)
	f(`count(calls{service="a"}) or vector(0)`, 0)
	f(`count(calls{service="a"} or calls)`, 2)
	v := must.Get(db.Query(WithOnly(ctx, nil), "sum(calls)", now))(t)
	must.Equal(t, v[0].F, 3.0, "all")

	q := must.Get(db.Shared(&sync.Mutex{}).Querier(now.UnixMilli()-1000, now.UnixMilli()))(t)
	n := 0
	for set := q.Select(ctx, false, &storage.SelectHints{Start: now.UnixMilli() - 1000, End: now.UnixMilli(), Func: "series"}); set.Next(); {
		n++
	}
	must.Equal(t, n, 2, "shared series")
}
