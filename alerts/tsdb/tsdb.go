// Package tsdb is an in-memory time series database for PromQL. It evaluates queries with Prometheus's engine.
//
// # Why it does not use Prometheus's head block
//
// Rules are evaluated every second over windows of ten minutes to an hour. Prometheus's head decodes all samples in the
// window of every series: with 10,000 series, that took half of each evaluation, and five times as much with samples every
// second instead of every 5 s. increase() only needs the first and the last sample, and a block of this package contains no
// counter reset, so most samples are never read.
package tsdb

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
)

// Options configure a DB.
type Options struct {
	Lookback time.Duration // maximum age of a series' current sample; 0: 5 minutes, the default of Prometheus
	Step     time.Duration // step of subqueries that do not specify one
}

// A DB stores series. Queries may run concurrently; its other methods must not be called concurrently with any.
type DB struct {
	engine  *promql.Engine
	refs    map[storage.SeriesRef]*series
	hashes  map[uint64][]*series // by hash of the labels
	names   map[string][]*series // by metric, in order of creation
	lastRef storage.SeriesRef    // of the newest series
	oldest  int64                // time of the oldest sample or earlier
}

// Open returns an empty DB. The caller must call Close.
func Open(o Options) *DB {
	return &DB{
		refs: map[storage.SeriesRef]*series{}, hashes: map[uint64][]*series{}, names: map[string][]*series{}, oldest: math.MaxInt64,
		engine: newEngine(o, &cache{Parser: parser.NewParser(parser.Options{}), exprs: map[string]parser.Expr{}}),
	}
}

func newEngine(o Options, p parser.Parser) *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: o.Lookback, EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.Step.Milliseconds() },
	})
}

// Close releases the resources of the DB.
func (db *DB) Close() error { return db.engine.Close() }

// Querier implements storage.Queryable.
func (db *DB) Querier(mint, maxt int64) (storage.Querier, error) { return querier{db, mint, maxt}, nil }

// Query evaluates an expression at ts. It has the type template.QueryFunc.
func (db *DB) Query(ctx context.Context, expr string, ts time.Time) (promql.Vector, error) {
	q, err := db.engine.NewInstantQuery(ctx, db, nil, expr, ts)
	if err != nil {
		return nil, fmt.Errorf("prepare query: %w", err)
	}
	defer q.Close()
	res := q.Exec(ctx)
	if res.Err != nil {
		return nil, fmt.Errorf("evaluate query: %w", res.Err)
	}
	switch v := res.Value.(type) {
	case promql.Vector:
		return append(promql.Vector(nil), v...), nil
	case promql.Scalar:
		return promql.Vector{{T: v.T, F: v.V}}, nil
	}
	return nil, fmt.Errorf("evaluate query: result is a %s, not a vector", res.Value.Type())
}

// Append adds a sample, which must be newer than the last one of its series. ref is the reference of the series that an
// earlier call returned, or 0.
func (db *DB) Append(ref storage.SeriesRef, lset labels.Labels, ts time.Time, v float64) (storage.SeriesRef, error) {
	s := db.refs[ref]
	if s == nil {
		s = db.series(lset)
	}
	at, n := ts.UnixMilli(), len(s.blocks)
	switch {
	case n > 0 && at <= s.blocks[n-1].end():
		if b := &s.blocks[n-1]; at == b.end() && math.Float64bits(v) == math.Float64bits(b.last) {
			return s.ref, nil
		}
		return s.ref, fmt.Errorf("append sample of %s at %v: the series has a sample at %v", lset, ts.UTC(), time.UnixMilli(s.blocks[n-1].end()).UTC())
	case n > 0 && s.blocks[n-1].add(at, v):
		return s.ref, nil
	case n > 0:
		s.blocks[n-1].data = slices.Clone(s.blocks[n-1].data) // without unused capacity
	}
	s.blocks = append(s.blocks, block{start: at, n: 1, first: v, last: v})
	db.oldest = min(db.oldest, at)
	return s.ref, nil
}

// series returns the series of lset, which may be new.
func (db *DB) series(lset labels.Labels) *series {
	h := lset.Hash()
	for _, s := range db.hashes[h] {
		if labels.Equal(s.lset, lset) {
			return s
		}
	}
	db.lastRef++
	s, name := &series{ref: db.lastRef, lset: lset}, lset.Get(model.MetricNameLabel)
	db.refs[s.ref], db.hashes[h], db.names[name] = s, append(db.hashes[h], s), append(db.names[name], s)
	return s
}

// candidates returns the series of the metric that matchers select, or all series.
func (db *DB) candidates(matchers []*labels.Matcher) (list []*series) {
	for _, m := range matchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return db.names[m.Value]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(db.names)) {
		list = append(list, db.names[name]...)
	}
	return list
}

// Truncate deletes samples older than before, once they span at least 10 minutes.
func (db *DB) Truncate(before time.Time) {
	at := before.UnixMilli()
	if db.oldest >= at-(10*time.Minute).Milliseconds() {
		return
	}
	db.oldest = math.MaxInt64
	for _, s := range db.refs {
		if s.histogram != nil {
			if !s.histogram.truncate(at) {
				db.remove(s)
				continue
			}
			db.oldest = min(db.oldest, s.histogram.samples[0].at)
			continue
		}
		n := slices.IndexFunc(s.blocks, func(b block) bool { return b.end() >= at })
		if n < 0 {
			db.remove(s)
			continue
		}
		s.blocks = slices.Delete(s.blocks, 0, n)
		db.oldest = min(db.oldest, max(at, s.blocks[0].start))
	}
}

func (db *DB) remove(s *series) {
	delete(db.refs, s.ref)
	remove := func(list []*series) []*series { return slices.DeleteFunc(list, func(x *series) bool { return x == s }) }
	h, name := s.lset.Hash(), s.lset.Get(model.MetricNameLabel)
	if db.hashes[h] = remove(db.hashes[h]); len(db.hashes[h]) == 0 {
		delete(db.hashes, h)
	}
	if db.names[name] = remove(db.names[name]); len(db.names[name]) == 0 {
		delete(db.names, name)
	}
}
