package engine

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/storage"
)

// A Sample is the value of one series.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a PromQL expression over the samples at a time. They reach back Config.Retention. An evaluation of rules waits
// for it, so callers with many times must call it for one at a time.
func (e *Engine) Query(ctx context.Context, expr string, at time.Time) ([]Sample, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.New("query samples: the engine is closed")
	}
	v, err := e.samples.Query(ctx, expr, at)
	if err != nil {
		return nil, err
	}
	out := make([]Sample, len(v))
	for i, s := range v {
		out[i] = Sample{s.Metric.Map(), s.F}
	}
	return out, nil
}

// Queryable returns the samples for a PromQL engine of the caller. They reach back Config.Retention. Its queries may run at any
// time; the evaluation of rules waits only while samples are copied.
func (e *Engine) Queryable() storage.Queryable { return e.samples.Shared(&e.mu) }

// Health reports whether e evaluates the rules about llmtap itself.
func (e *Engine) Health() bool { return e.health }

// A Current is the current value of one series.
type Current struct {
	Metric string
	Labels map[string]string // must not be modified
	Value  float64
	Gauge  bool
	Since  time.Time // the value of a counter was zero before this time
}

// Current returns the current value of each live series, in no order.
func (e *Engine) Current() []Current {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Current, 0, len(e.samples.series))
	for _, s := range e.samples.series {
		out = append(out, Current{s.metric, s.labels, s.value, s.gauge, time.Unix(s.since, 0).UTC()})
	}
	return out
}
