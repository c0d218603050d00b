package alerts

import (
	"context"
	"errors"
	"time"
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
