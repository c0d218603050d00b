// Package tsdb is an in-memory time series database that evaluates PromQL. It consists of Prometheus's head block and
// query engine.
package tsdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// Options configure a DB.
type Options struct {
	Dir       string        // parent of the directory for scratch files; if empty, the system's temporary directory
	Retention time.Duration // minimum retention of samples
	Lookback  time.Duration // maximum age of a series' current sample; 0: 5 minutes, the default of Prometheus
	Step      time.Duration // step of subqueries that do not specify one
}

// A DB stores series. Its methods must not be called concurrently.
type DB struct {
	dir    string
	head   *tsdb.Head
	engine *promql.Engine
}

// Open returns an empty DB. The caller must call Close.
func Open(o Options) (*DB, error) {
	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("create directory of samples: %w", err)
		}
	}
	dir, err := os.MkdirTemp(o.Dir, "llmtap-alerts-")
	if err != nil {
		return nil, fmt.Errorf("create directory of samples: %w", err)
	}
	h := tsdb.DefaultHeadOptions()
	h.ChunkDirRoot = dir
	h.ChunkRange = (2 * o.Retention).Milliseconds()
	h.StripeSize = 512
	h.IsolationDisabled = true // there is no concurrent use
	head, err := tsdb.NewHead(nil, nil, nil, nil, h, tsdb.NewHeadStats())
	if err == nil {
		err = head.Init(math.MinInt64)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open samples: %w", err), os.RemoveAll(dir))
	}
	return &DB{dir: dir, head: head, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: o.Lookback,
		EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{}),
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.Step.Milliseconds() },
	})}, nil
}

// Close closes the DB and deletes its files.
func (db *DB) Close() error {
	return errors.Join(db.engine.Close(), db.head.Close(), os.RemoveAll(db.dir))
}

// Querier implements storage.Queryable.
func (db *DB) Querier(mint, maxt int64) (storage.Querier, error) {
	return tsdb.NewBlockQuerier(tsdb.NewRangeHeadWithIsolationDisabled(db.head, mint, maxt), mint, maxt)
}

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

// Append calls write with an appender and commits the appended samples, even if write fails.
func (db *DB) Append(ctx context.Context, write func(Appender) error) error {
	app := db.head.AppenderV2(ctx)
	if err := errors.Join(write(Appender{app}), app.Commit()); err != nil {
		return fmt.Errorf("append samples: %w", err)
	}
	return nil
}

// An Appender appends samples.
type Appender struct{ v2 storage.AppenderV2 }

// Append adds one sample. ref is the reference of the series that an earlier call returned, or 0.
func (a Appender) Append(ref storage.SeriesRef, lset labels.Labels, ts time.Time, v float64) (storage.SeriesRef, error) {
	return a.v2.Append(ref, lset, 0, ts.UnixMilli(), v, nil, nil, storage.AOptions{})
}

// Truncate deletes samples older than before, once they span at least 10 minutes.
func (db *DB) Truncate(before time.Time) error {
	if db.head.MinTime() >= before.Add(-10*time.Minute).UnixMilli() {
		return nil
	}
	if err := db.head.Truncate(before.UnixMilli()); err != nil {
		return fmt.Errorf("truncate samples: %w", err)
	}
	return nil
}
