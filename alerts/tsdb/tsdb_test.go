package tsdb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Queries return exactly what they return over the same samples in Prometheus's head block.
func TestEqualsPrometheus(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		equalsPrometheus(t, seed)
	}
}

// queries select by metric and label, with ranges that are multiples of the interval, and others.
var queries = []string{
	"increase(c[10m1ms])", "increase(c[10m])", "rate(c[4m30s1ms])", "increase(c[1h1ms])", "increase(c[10m1ms] offset 10m)", "increase(c[33s])",
	"sum by (kind) (round(increase(c[1m1ms])))", `increase(c{kind=~"counter|gap"}[1m])`, `rate({i="3"}[7m])`, "increase(c[5m] @ end())",
	"c", "c offset 7m", "changes(c[10m])", "resets(c[10m])", "delta(c[10m])", "irate(c[1m])", "count_over_time(c[17m1ms])", "min_over_time(c[20m])",
	"max_over_time(increase(c[1m])[10m:30s])", "absent(c)", "absent_over_time(c[3m])", "last_over_time(c[2m])", "quantile_over_time(0.3, c[10m])",
	"increase(c[10s])", "increase(c[1s])", `{kind!=""}`, "timestamp(c)", "sum(rate(c[10m:7s]))",
	"sum by (kind, i) (c) / on (i, kind) group_left max by (kind, i) (c)", "c > 5 unless (c offset 1m)", "-c", "topk(2, c)", "vector(time() + 1)",
	`count_values("v", c @ start())`, `sum by (x) (label_replace(c, "x", "$1", "kind", "(.).*"))`,
}

func equalsPrometheus(t *testing.T, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	interval := []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}[rnd.IntN(3)]
	o := tsdb.DefaultHeadOptions()
	o.ChunkDirRoot, o.ChunkRange, o.IsolationDisabled = t.TempDir(), (6 * time.Hour).Milliseconds(), true
	head, err := tsdb.NewHead(nil, nil, nil, nil, o, tsdb.NewHeadStats())
	if err == nil {
		err = head.Init(math.MinInt64)
	}
	must.Do(t, err)
	defer head.Close()
	db := Open(Options{Lookback: 2 * interval, Step: interval})
	defer db.Close()
	reference := newEngine(Options{Lookback: 2 * interval, Step: interval}, parser.NewParser(parser.Options{}))

	kinds := []string{"counter", "slow", "late", "gap", "reset", "gauge", "irregular", "large", "stale"}
	refs, values := make([]storage.SeriesRef, 3*len(kinds)), make([]float64, 3*len(kinds))
	start := time.Unix(1_700_000_000, 0).Truncate(time.Minute)
	steps := int(80 * time.Minute / interval)
	born := rnd.IntN(steps)
	var now time.Time
	for step := range steps {
		now = start.Add(time.Duration(step) * interval)
		app := head.Appender(t.Context())
		for i := range refs {
			at, v := now, &values[i]
			switch kinds[i%len(kinds)] {
			case "counter":
				*v += float64(rnd.IntN(200))
			case "slow":
				*v += float64(rnd.IntN(300) / 299)
			case "late":
				if step < born {
					continue
				}
				if step > born {
					*v += float64(rnd.IntN(3))
				}
			case "gap":
				if *v += float64(rnd.IntN(2)); step/(40+i)%3 == 1 {
					continue
				}
			case "reset":
				if *v += float64(rnd.IntN(5)); rnd.IntN(100) == 0 {
					*v = float64(rnd.IntN(3))
				}
			case "gauge":
				*v = []float64{rnd.Float64(), math.Copysign(0, -1), math.Inf(1), -3, 7}[rnd.IntN(5)]
			case "irregular":
				if *v++; rnd.IntN(3) == 0 {
					continue
				}
				at = at.Add(time.Duration(rnd.IntN(2)) * time.Millisecond)
			case "large":
				*v += math.Ldexp(1, rnd.IntN(60))
			case "stale":
				if *v++; rnd.IntN(50) == 0 {
					*v = math.Float64frombits(value.StaleNaN)
				} else if math.IsNaN(*v) {
					*v = 1
				}
			}
			lset := labels.FromStrings("__name__", "c", "kind", kinds[i%len(kinds)], "i", fmt.Sprint(i))
			refs[i] = must.Get(db.Append(refs[i]*storage.SeriesRef(rnd.IntN(2)), lset, at, *v))(t)
			must.Get(app.Append(0, lset, at.UnixMilli(), *v))(t)
		}
		must.Do(t, app.Commit())
		if step > 0 && step%(steps/4) == 0 {
			db.Truncate(now.Add(-71 * time.Minute))
		}
	}
	for range 10 {
		ts := now.Add(-time.Duration(rnd.IntN(10)) * interval / 3)
		for _, expr := range queries {
			got := must.Get(db.Query(t.Context(), expr, ts))(t)
			q := must.Get(reference.NewInstantQuery(t.Context(), prometheus{head}, nil, expr, ts))(t)
			res := q.Exec(t.Context())
			want := must.Get(res.Vector())(t)
			compare(t, fmt.Sprintf("seed %d: %s at %v, interval %v", seed, expr, ts.UTC(), interval), got, want)
			q.Close()
		}
	}
}

func compare(t *testing.T, name string, got, want promql.Vector) {
	t.Helper()
	byLabels := func(a, b promql.Sample) int { return labels.Compare(a.Metric, b.Metric) }
	slices.SortFunc(got, byLabels)
	slices.SortFunc(want, byLabels)
	if !slices.EqualFunc(got, want, func(a, b promql.Sample) bool {
		return labels.Equal(a.Metric, b.Metric) && a.T == b.T && math.Float64bits(a.F) == math.Float64bits(b.F)
	}) {
		t.Errorf("%s:\ngot  %v\nwant %v", name, got, want)
	}
}

// prometheus implements storage.Queryable by a head block.
type prometheus struct{ *tsdb.Head }

func (p prometheus) Querier(mint, maxt int64) (storage.Querier, error) {
	return tsdb.NewBlockQuerier(tsdb.NewRangeHeadWithIsolationDisabled(p.Head, mint, maxt), mint, maxt)
}

// Series end when all their samples are truncated, a reference may outlive its series, and a sample must be newer than the last.
func TestTruncate(t *testing.T) {
	db := Open(Options{})
	defer db.Close()
	at := time.Unix(1_700_000_000, 0)
	a, b := labels.FromStrings("__name__", "c", "i", "a"), labels.FromStrings("__name__", "c", "i", "b")
	var refs [2]storage.SeriesRef
	add := func(i int, lset labels.Labels, at time.Time) {
		t.Helper()
		refs[i] = must.Get(db.Append(refs[i], lset, at, 1))(t)
	}
	for i := range 3600 {
		add(0, a, at.Add(time.Duration(i)*time.Second))
		if i < 1800 {
			add(1, b, at.Add(time.Duration(i)*time.Second))
		}
	}
	db.Truncate(at.Add(9 * time.Minute))
	must.Equal(t, len(db.names["c"][0].blocks), 3600/maxBlock, "blocks, all of them")
	db.Truncate(at.Add(45 * time.Minute))
	if n := len(db.names["c"]); n != 1 || len(db.refs) != 1 || len(db.hashes) != 1 || len(db.names["c"][0].blocks) != 4 {
		t.Errorf("%d series, %d references, %d hashes", n, len(db.refs), len(db.hashes))
	}
	add(1, b, at.Add(time.Hour))
	must.Do(t, must.Err(db.Append(refs[1], b, at.Add(time.Hour), 1)), "the same sample again")
	must.Fail(t, must.Err(db.Append(refs[1], b, at.Add(time.Hour), 2)), "", "another value at the time of the last sample is accepted")
	must.Fail(t, must.Err(db.Append(refs[1], b, at, 1)), "", "an old sample is accepted")
}
