package tsdb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/llmtap/llmtap/analyzer/dist"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Queries over histograms return what they return over the same samples in Prometheus's head block, also after samples were truncated
// and while others are appended, and quantiles are those of the values.
func TestHistogram(t *testing.T) {
	o := tsdb.DefaultHeadOptions()
	o.ChunkDirRoot, o.ChunkRange, o.IsolationDisabled = t.TempDir(), (6 * time.Hour).Milliseconds(), true
	head := must.Get(tsdb.NewHead(nil, nil, nil, nil, o, tsdb.NewHeadStats()))(t)
	must.Do(t, head.Init(math.MinInt64))
	defer head.Close()
	db := Open(Options{Lookback: 2 * time.Minute, Step: time.Minute})
	defer db.Close()
	rnd := rand.New(rand.NewPCG(1, 1))
	start := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	units := []float64{1, 1000, 1e6}
	sums := make([]dist.Dist, len(units))
	var refs [3]storage.SeriesRef
	var now time.Time
	for minute := range 90 {
		now = start.Add(time.Duration(minute) * time.Minute)
		app := head.Appender(t.Context())
		for i, unit := range units {
			lset := labels.FromStrings("__name__", "h", "i", fmt.Sprint(i))
			if minute == 0 {
				must.Get(app.AppendHistogram(0, lset, now.Add(-time.Minute).UnixMilli(), nil, newHistogram(unit).float(&dist.Dist{})))(t)
			}
			var d dist.Dist
			if minute%7 != 3 {
				for range rnd.IntN(200) {
					d.Add(uint64(2000 * math.Exp(rnd.NormFloat64())))
				}
			}
			refs[i] = must.Get(db.AppendHistogram(refs[i], lset, now, time.Minute, &d, unit))(t)
			sums[i].Merge(&d)
			must.Get(app.AppendHistogram(0, lset, now.UnixMilli(), nil, newHistogram(unit).float(&sums[i])))(t)
		}
		must.Do(t, app.Commit())
		if minute == 80 {
			db.Truncate(now.Add(-70 * time.Minute))
		}
	}
	var mu heldMutex
	for _, expr := range []string{
		"histogram_quantile(0.95, rate(h[5m]))", "histogram_quantile(0.5, increase(h[1h]))", "histogram_count(increase(h[10m]))", "histogram_sum(rate(h[5m]))",
		"histogram_count(h)", "histogram_quantile(0.9, sum(rate(h{i=\"1\"}[20m])))", "count(h)",
	} {
		got := must.Get(db.Query(t.Context(), expr, now))(t)
		shared := must.Get(must.Get(db.engine.NewInstantQuery(t.Context(), db.Shared(&mu), nil, expr, now))(t).Exec(t.Context()).Vector())(t)
		want := must.Get(must.Get(db.engine.NewInstantQuery(t.Context(), prometheus{head}, nil, expr, now))(t).Exec(t.Context()).Vector())(t)
		must.Equal(t, len(want) > 0, true, "%s", expr)
		compare(t, expr, got, want)
		compare(t, expr+", shared", shared, want)
	}
	for i, s := range must.Get(db.Query(t.Context(), "histogram_quantile(0.95, increase(h[1h]))", now))(t) {
		exact := 2000 * math.Exp(1.645) / units[i]
		if s.F < exact*0.85 || s.F > exact*1.19 {
			t.Errorf("in units of %g: %g, want %g", units[i], s.F, exact)
		}
	}
	must.Fail(t, must.Err(db.AppendHistogram(refs[0], labels.EmptyLabels(), now, time.Minute, &dist.Dist{}, 1)), "", "an old sample is accepted")
	db.Truncate(now.Add(time.Hour))
	must.Equal(t, len(db.refs), 0, "series without samples")
	bytes := 0
	for range 60 {
		var d dist.Dist
		for range 600 {
			d.Add(uint64(2000 * math.Exp(0.6*rnd.NormFloat64())))
		}
		bytes += len(encodeDist(&d))
	}
	t.Logf("an hour of 10 calls a second takes %d bytes, and 32 for each minute", bytes)
}
