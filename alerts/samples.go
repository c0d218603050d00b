package alerts

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/llmtap/llmtap/alerts/tsdb"
	"github.com/llmtap/llmtap/analyzer"
)

// otherValue stands for the values of a label beyond Config.MaxLabelValues.
const otherValue = "other"

// maxExampleText bounds what is kept of the texts of an example.
const maxExampleText = 512

// A series is one counter: its total for PromQL, its increments for exact counts, and its newest examples.
type series struct {
	metric string
	gauge  bool // it ends at the first step without a value
	labels map[string]string
	lset   labels.Labels // with the metric's name
	ref    storage.SeriesRef
	value  float64
	active int64 // step that last added to it
	first  int64 // Unix second of the first count of that step
	points []point
	// examples are of up to maxExamples conversations, newest first.
	examples []*analyzer.Example
}

// A point is what one step added to a series.
type point struct {
	step int64 // Unix seconds
	n    uint64
}

// between returns what was counted in the steps of (from, to].
func (s *series) between(from, to int64) uint64 {
	var n uint64
	for i := len(s.points) - 1; i >= 0 && s.points[i].step > from; i-- {
		if s.points[i].step <= to {
			n += s.points[i].n
		}
	}
	return n
}

// samples holds the series of all tallies: as a Prometheus tsdb head for PromQL, and as exact increments over the last
// window seconds for evidence. It is not safe for concurrent use.
type samples struct {
	*tsdb.DB
	cfg    Config
	m      *metrics
	window int64 // seconds that points are kept

	series map[string]*series        // by the bytes of lset
	values map[string]map[string]int // by label and value: how many live series have it
	key    []byte                    // scratch
}

// openSamples returns an empty store; window is the longest window of any rule.
func openSamples(cfg Config, window time.Duration, m *metrics) (*samples, error) {
	db, err := tsdb.Open(tsdb.Options{
		Dir: cfg.TSDBDir, Retention: cfg.Retention, Lookback: 2 * cfg.EvaluationInterval, Step: cfg.EvaluationInterval,
	})
	if err != nil {
		return nil, err
	}
	return &samples{
		DB: db, cfg: cfg, m: m, window: int64(window.Seconds()), series: map[string]*series{}, values: map[string]map[string]int{},
	}, nil
}

// apply counts tallies at step and writes a sample of every live series. step is in Unix seconds and only grows.
func (s *samples) apply(ctx context.Context, step int64, tallies []tally) error {
	err := s.Append(ctx, func(app tsdb.Appender) error { return s.append(app, step, tallies) })
	if err != nil {
		return err
	}
	s.m.series.Set(float64(len(s.series)))
	return s.Truncate(time.Unix(step-s.window, 0).Add(-s.cfg.Retention))
}

// append goes on after an error, so that one bad series cannot silence the others, and returns the first.
func (s *samples) append(app tsdb.Appender, step int64, tallies []tally) (first error) {
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, t := range tallies {
		for i := range t.Counts {
			keep(s.count(app, step, t.Second, &t.Counts[i]))
		}
		for _, g := range t.gauges {
			if e, _ := s.of(g.Metric, g.Labels); e != nil {
				e.gauge, e.value, e.active = true, g.Value, step
			}
		}
		for i := range t.Examples {
			s.keepExample(&t.Examples[i])
		}
	}
	for key, c := range s.series {
		if idle := step - c.active; idle > int64(s.cfg.Retention.Seconds()) || c.gauge && idle > 0 {
			s.end(key, c)
			continue
		}
		c.trim(step - s.window)
		keep(c.append(app, step))
	}
	return first
}

func (s *samples) count(app tsdb.Appender, step, second int64, c *analyzer.Count) error {
	if c.N == 0 {
		return nil
	}
	e, started := s.of(c.Metric, c.Labels)
	if e == nil {
		return nil
	}
	var err error
	if started {
		err = e.append(app, step-int64(s.cfg.EvaluationInterval.Seconds())) // the zero it starts from
	}
	e.value += float64(c.N)
	if e.active != step {
		e.active, e.first = step, second
	}
	if n := len(e.points); n > 0 && e.points[n-1].step == step {
		e.points[n-1].n += c.N
	} else {
		e.points = append(e.points, point{step, c.N})
	}
	return err
}

// of returns the series of a metric with labels kv, and whether it is new; nil if there are too many series.
func (s *samples) of(metric string, kv map[string]string) (e *series, started bool) {
	kv = s.capLabels(kv, true)
	key, lset := s.keyOf(metric, kv)
	if e := s.series[key]; e != nil {
		return e, false
	}
	if len(s.series) >= s.cfg.MaxSeries {
		s.m.countsDropped.WithLabelValues("max_series").Inc()
		return nil, false
	}
	e = &series{metric: metric, labels: kv, lset: lset}
	s.series[key] = e
	for k, v := range kv {
		if s.values[k] == nil {
			s.values[k] = map[string]int{}
		}
		s.values[k][v]++
	}
	return e, true
}

func (s *samples) end(key string, c *series) {
	delete(s.series, key)
	for k, v := range c.labels {
		if s.values[k][v]--; s.values[k][v] == 0 {
			delete(s.values[k], v)
		}
	}
}

func (s *series) append(app tsdb.Appender, step int64) error {
	ref, err := app.Append(s.ref, s.lset, time.Unix(step, 0), s.value)
	s.ref = ref
	return err
}

// trim forgets the points of steps up to from.
func (s *series) trim(from int64) {
	i := 0
	for i < len(s.points) && s.points[i].step <= from {
		i++
	}
	if i > 0 {
		s.points = append(s.points[:0], s.points[i:]...)
	}
}

// capLabels copies kv without empty values and with values beyond the bound replaced.
func (s *samples) capLabels(kv map[string]string, counted bool) map[string]string {
	out := make(map[string]string, len(kv))
	for k, v := range kv {
		if v == "" {
			continue
		}
		v = strings.ToValidUTF8(v, "\ufffd")
		if known := s.values[k]; known[v] == 0 && v != otherValue && len(known) >= s.cfg.MaxLabelValues {
			if v = otherValue; counted {
				s.m.valuesReplaced.WithLabelValues(k).Inc()
			}
		}
		out[k] = v
	}
	return out
}

func (s *samples) keyOf(metric string, kv map[string]string) (string, labels.Labels) {
	b := labels.NewScratchBuilder(len(kv) + 1)
	b.Add(model.MetricNameLabel, metric)
	for k, v := range kv {
		b.Add(k, v)
	}
	b.Sort()
	lset := b.Labels()
	s.key = lset.Bytes(s.key)
	return string(s.key), lset
}

// keepExample keeps x with the failed series it stands for.
func (s *samples) keepExample(x *analyzer.Example) {
	key, _ := s.keyOf(analyzer.MetricFailed, s.capLabels(x.Labels, false))
	if e := s.series[key]; e != nil {
		c := *x
		c.ErrorText, c.Summary, c.Evidence, c.Fix = clip(c.ErrorText), clip(c.Summary), clip(c.Evidence), clip(c.Fix)
		c.FirstVersion, c.LastClean = clip(c.FirstVersion), clip(c.LastClean)
		e.examples = addExample(e.examples, &c, maxExamples)
	}
}

// clip bounds a text and gives it memory of its own.
func clip(text string) string {
	if len(text) <= maxExampleText {
		return text
	}
	return strings.ToValidUTF8(text[:maxExampleText], "") + "…"
}
