package ruletest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/llmtap/llmtap/alerts"
)

// A store holds the series of one test, up to the time that they were loaded to, and what the rules made of them.
type store struct {
	dir    string
	head   *tsdb.Head
	engine *promql.Engine
	input  []loaded
	start  time.Time
	step   time.Duration            // between values
	states map[string]labels.Labels // of alerts, as of the last step
}

// loaded is one series of the input.
type loaded struct {
	lset   labels.Labels
	values []parser.SequenceValue
	next   int // not appended yet
}

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// openStore parses the series of g. The caller calls close.
func openStore(g *group, step time.Duration) (*store, error) {
	s := &store{step: time.Duration(g.Interval), states: map[string]labels.Labels{}}
	var err error
	if s.start, err = g.start(); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, in := range g.InputSeries {
		lset, values, err := newParser().ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			return nil, fmt.Errorf("read series %s: %w", in.Series, err)
		}
		if known[lset.String()] {
			return nil, fmt.Errorf("series %s is given twice", in.Series)
		}
		known[lset.String()] = true
		for _, v := range values {
			if v.Histogram != nil {
				return nil, fmt.Errorf("series %s has histograms; llmtap counts none", in.Series)
			}
		}
		s.input = append(s.input, loaded{lset: lset, values: values})
	}
	if s.dir, err = os.MkdirTemp("", "llmtap-ruletest-"); err != nil {
		return nil, fmt.Errorf("create directory of samples: %w", err)
	}
	o := tsdb.DefaultHeadOptions()
	o.ChunkDirRoot = s.dir
	o.StripeSize = 512
	o.IsolationDisabled = true // there is one goroutine
	s.head, err = tsdb.NewHead(nil, nil, nil, nil, o, tsdb.NewHeadStats())
	if err == nil {
		err = s.head.Init(math.MinInt64)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open samples: %w", err), os.RemoveAll(s.dir))
	}
	s.engine = promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: newParser(),
		NoStepSubqueryIntervalFn: func(int64) int64 { return step.Milliseconds() },
	})
	return s, nil
}

func (s *store) close() error {
	return errors.Join(s.engine.Close(), s.head.Close(), os.RemoveAll(s.dir))
}

// Querier implements storage.Queryable.
func (s *store) Querier(mint, maxt int64) (storage.Querier, error) {
	return tsdb.NewBlockQuerier(tsdb.NewRangeHeadWithIsolationDisabled(s.head, mint, maxt), mint, maxt)
}

// load appends the values up to ts.
func (s *store) load(ctx context.Context, ts time.Time) error {
	app := s.head.AppenderV2(ctx)
	var first error
	for i := range s.input {
		in := &s.input[i]
		for ; in.next < len(in.values); in.next++ {
			at := s.start.Add(time.Duration(in.next) * s.step)
			if at.After(ts) {
				break
			}
			v := in.values[in.next]
			if v.Omitted {
				continue
			}
			if _, err := app.Append(0, in.lset, 0, at.UnixMilli(), v.Value, nil, nil, storage.AOptions{}); err != nil && first == nil {
				first = fmt.Errorf("append to series %s: %w", in.lset, err)
			}
		}
	}
	return errors.Join(first, app.Commit())
}

// keepStates writes the series ALERTS and ALERTS_FOR_STATE, as Prometheus does.
func (s *store) keepStates(ctx context.Context, ts time.Time, active []alerts.RuleAlert) error {
	app := s.head.AppenderV2(ctx)
	var errs []error
	now := map[string]labels.Labels{}
	add := func(lset labels.Labels, v float64) {
		_, err := app.Append(0, lset, 0, ts.UnixMilli(), v, nil, nil, storage.AOptions{})
		errs = append(errs, err)
	}
	put := func(lset labels.Labels, v float64) {
		now[lset.String()] = lset
		add(lset, v)
	}
	for _, a := range active {
		b := labels.NewBuilder(labels.FromMap(a.Labels))
		b.Set(model.AlertNameLabel, a.Name)
		b.Set(model.MetricNameLabel, "ALERTS_FOR_STATE")
		put(b.Labels(), float64(a.Since.Unix()))
		b.Set(model.MetricNameLabel, "ALERTS")
		b.Set("alertstate", stateOf(&a))
		put(b.Labels(), 1)
	}
	for k, lset := range s.states {
		if _, ok := now[k]; !ok {
			add(lset, math.Float64frombits(value.StaleNaN))
		}
	}
	s.states = now
	if err := errors.Join(append(errs, app.Commit())...); err != nil {
		return fmt.Errorf("append states of alerts: %w", err)
	}
	return nil
}

func stateOf(a *alerts.RuleAlert) string {
	if a.Firing {
		return "firing"
	}
	return "pending"
}

// query evaluates an expression at ts.
func (s *store) query(ctx context.Context, expr string, ts time.Time) (promql.Vector, error) {
	q, err := s.engine.NewInstantQuery(ctx, s, nil, expr, ts)
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
	default:
		return nil, fmt.Errorf("evaluate query: result is a %s, not a vector", res.Value.Type())
	}
}
