package ruletest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/tsdb"
)

// A store contains the series of one test up to the current step; the states of the alerts are series too.
type store struct {
	*tsdb.DB
	input    []input
	start    time.Time
	interval time.Duration            // interval between values
	states   map[string]labels.Labels // state series of the last step
}

// input is one input series of the test.
type input struct {
	lset   labels.Labels
	values []parser.SequenceValue
	next   int // index of the first value not appended yet
}

var promql = parser.NewParser(parser.Options{})

// openStore returns a store for the series of g. The caller must call Close.
func openStore(g *group, step time.Duration) (*store, error) {
	s := &store{interval: time.Duration(g.Interval), states: map[string]labels.Labels{}}
	var err error
	if s.start, err = g.start(); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, in := range g.InputSeries {
		lset, values, err := promql.ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			return nil, fmt.Errorf("parse series %s: %w", in.Series, err)
		}
		if known[lset.String()] {
			return nil, fmt.Errorf("duplicate series %s", in.Series)
		}
		known[lset.String()] = true
		for _, v := range values {
			if v.Histogram != nil {
				return nil, fmt.Errorf("series %s has histograms, which llmtap does not support", in.Series)
			}
		}
		s.input = append(s.input, input{lset: lset, values: values})
	}
	s.DB = tsdb.Open(tsdb.Options{Step: step})
	return s, nil
}

// load appends the values up to ts.
func (s *store) load(ts time.Time) (first error) {
	for i := range s.input {
		in := &s.input[i]
		for ; in.next < len(in.values); in.next++ {
			at := s.start.Add(time.Duration(in.next) * s.interval)
			if at.After(ts) {
				break
			}
			v := in.values[in.next]
			if v.Omitted {
				continue
			}
			if _, err := s.Append(0, in.lset, at, v.Value); err != nil && first == nil {
				first = fmt.Errorf("series %s: %w", in.lset, err)
			}
		}
	}
	return first
}

// appendStates appends the series ALERTS and ALERTS_FOR_STATE, as Prometheus does.
func (s *store) appendStates(ts time.Time, list []*rules.Rule) error {
	now := map[string]labels.Labels{}
	var errs []error
	add := func(lset labels.Labels, v float64) {
		now[lset.String()] = lset
		_, err := s.Append(0, lset, ts, v)
		errs = append(errs, err)
	}
	for _, inst := range active(list) {
		b := labels.NewBuilder(labels.FromMap(inst.Labels))
		b.Set(model.AlertNameLabel, inst.Rule.Name)
		b.Set(model.MetricNameLabel, "ALERTS_FOR_STATE")
		add(b.Labels(), float64(inst.ActiveAt.Unix()))
		b.Set(model.MetricNameLabel, "ALERTS")
		b.Set("alertstate", "pending")
		if inst.Firing {
			b.Set("alertstate", "firing")
		}
		add(b.Labels(), 1)
	}
	old := s.states
	s.states = now
	for k, lset := range old {
		if _, ok := now[k]; !ok {
			_, err := s.Append(0, lset, ts, math.Float64frombits(value.StaleNaN))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// active returns the active instances of all rules, in no particular order.
func active(list []*rules.Rule) (all []*rules.Instance) {
	for _, r := range list {
		for _, inst := range r.Active {
			all = append(all, inst)
		}
	}
	return all
}
