package engine

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/tsdb"
	"github.com/llmtap/llmtap/analyzer"
)

// otherValue replaces the values of a label beyond Config.MaxLabelValues.
const otherValue = "other"

// maxExampleText bounds each text of a stored example, in bytes.
const maxExampleText = 512

// A series is one counter or gauge.
type series struct {
	metric   string
	gauge    bool // a gauge ends at the first step without a value
	labels   map[string]string
	lset     labels.Labels // labels, including the metric's name
	ref      storage.SeriesRef
	value    float64
	active   int64               // last step with a count
	since    int64               // second at which the value was zero
	first    int64               // second of the first count in that step
	points   []point             // increments in the last window, in order of time
	stage    *stage              // of calls and odd answers; nil if it is not known yet
	examples []*analyzer.Example // from up to maxExamples conversations, newest first
}

// A point is the increment of a series in one second. The seconds of a step are those before it. Points are small, because a
// busy series has one for each second of the window.
type point struct {
	at uint32 // Unix seconds, until 2106
	n  uint32 // saturates
}

func (p point) second() int64 { return int64(p.at) }

// between returns the sum of the increments in the seconds [from, to). If both are steps, it is the increase from one
// step to the other.
func (s *series) between(from, to int64) uint64 {
	var n uint64
	for i := len(s.points) - 1; i >= 0 && s.points[i].second() >= from; i-- {
		if s.points[i].second() < to {
			n += uint64(s.points[i].n)
		}
	}
	return n
}

// last returns the last second in [from, to) with an increment, or 0.
func (s *series) last(from, to int64) int64 {
	for i := len(s.points) - 1; i >= 0 && s.points[i].second() >= from; i-- {
		if s.points[i].second() < to {
			return s.points[i].second()
		}
	}
	return 0
}

// add adds n to the increment in a second.
func (s *series) add(second int64, n uint64) {
	i := len(s.points)
	for i > 0 && s.points[i-1].second() > second { // another partition was ahead
		i--
	}
	if i == 0 || s.points[i-1].second() < second {
		s.points = slices.Insert(s.points, i, point{at: uint32(second)})
		i++
	}
	s.points[i-1].n = uint32(min(uint64(s.points[i-1].n)+n, math.MaxUint32))
}

// samples contains the series of all tallies, both in a time series database for PromQL and as exact increments for
// evidence. The increments cover the last window seconds. It is not safe for concurrent use.
type samples struct {
	*tsdb.DB
	cfg      Config
	m        *metrics
	window   int64                           // in seconds
	series   map[string]*series              // by the metric and the labels, see find
	services map[string]map[*series]struct{} // the series of each service, so that evidence does not scan the others
	cap      labelCap
	versions *versions
	usuals   *usuals // nil: they are not learned
	limits   limits
	budgets  *budgets                         // nil: they are not counted
	measured map[versionStage][]measuredPoint // of the last window, in order of time

	compared      []Gauge // result of the last compareVersions
	comparedAt    int64   // the last step at which all versions were compared
	comparedYoung int64   // the same of those that are young

	key   []byte   // scratch
	names []string // scratch
}

// newSamples returns empty samples; window is the longest window of any rule.
func newSamples(cfg Config, window time.Duration, v *versions, m *metrics) *samples {
	return &samples{
		DB:  tsdb.Open(tsdb.Options{Lookback: 2 * cfg.EvaluationInterval, Step: cfg.EvaluationInterval}),
		cfg: cfg, m: m, window: int64(window.Seconds()), series: map[string]*series{}, versions: v, limits: limits{},
		services: map[string]map[*series]struct{}{}, measured: map[versionStage][]measuredPoint{},
		cap: labelCap{limit: cfg.MaxLabelValues, replaced: m.valuesReplaced, live: map[string]map[string]int{}},
	}
}

// apply counts tallies at step and appends a sample to every live series. Steps must increase.
func (s *samples) apply(step int64, tallies []tally, gauges []Gauge) error {
	s.versions.observe(tallies)
	err := s.append(step, tallies, gauges)
	s.m.series.Set(float64(len(s.series)))
	s.Truncate(time.Unix(step-s.window, 0).Add(-s.cfg.Retention))
	return err
}

// append continues after errors and returns the first one, so that one bad series cannot silence the others.
func (s *samples) append(step int64, tallies []tally, gauges []Gauge) (first error) {
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	s.usuals.begin(step)
	for _, t := range tallies {
		for i := range t.Counts {
			keep(s.count(step, t.Second, &t.Counts[i]))
		}
		for i := range t.Examples {
			s.addExample(&t.Examples[i])
		}
		for i := range t.RateLimits {
			s.limits.add(t.Second, &t.RateLimits[i])
		}
		s.set(step, t.gauges)
	}
	s.set(step, gauges)
	s.set(step, s.compareVersions(step))
	s.set(step, s.usuals.end(step))
	s.set(step, s.limits.gauges(step))
	s.set(step, s.budgets.end(step))
	keep(s.appendHistograms())
	for key, c := range s.series {
		if idle := step - c.active; idle > int64(s.cfg.Retention.Seconds()) || c.gauge && idle > 0 {
			s.remove(key, c)
			continue
		}
		c.trim(step - s.window)
		keep(c.append(s.DB, step))
	}
	return first
}

func (s *samples) set(step int64, gauges []Gauge) {
	for _, g := range gauges {
		if c, _ := s.of(g.Metric, g.Labels); c != nil {
			c.gauge, c.value, c.active = true, g.Value, step
		}
	}
}

func (s *samples) count(step, second int64, n *analyzer.Count) error {
	if n.N == 0 {
		return nil
	}
	s.budgets.count(step, n)
	c, err := s.increase(step, second, n.Metric, n.Labels, float64(n.N))
	if c == nil {
		return err
	}
	second = max(second, step-int64(s.cfg.EvaluationInterval.Seconds())) // a late count belongs to this step
	c.add(second, n.N)
	s.usuals.count(c, n)
	s.countMeasured(c, second, n)
	return errors.Join(err, s.money(step, second, n))
}

// money adds what the calls of n cost.
func (s *samples) money(step, second int64, n *analyzer.Count) (err error) {
	if n.Measured == nil {
		return nil
	}
	if sum := n.Measured.Cost.Sum; sum > 0 {
		_, err = s.increase(step, second, rules.MetricCost, n.Labels, float64(sum)/1e6)
	}
	if unpriced := n.Measured.Unpriced; unpriced > 0 && err == nil {
		_, err = s.increase(step, second, rules.MetricUnpriced, n.Labels, float64(unpriced))
	}
	return err
}

// increase increases a counter at step. It returns nil if there are too many series.
func (s *samples) increase(step, second int64, metric string, kv map[string]string, by float64) (c *series, err error) {
	c, isNew := s.of(metric, kv)
	if c == nil {
		return nil, nil
	}
	if isNew {
		c.since = step - int64(s.cfg.EvaluationInterval.Seconds())
		err = c.append(s.DB, c.since) // a zero one step earlier
	}
	c.value += by
	if c.active != step {
		c.active, c.first = step, second
	}
	return c, err
}

// of returns the series of a metric with labels kv and whether it is new. It returns nil if there are too many series.
func (s *samples) of(metric string, kv map[string]string) (c *series, isNew bool) {
	if c := s.find(metric, kv); c != nil { // labels of live series are within the limits
		return c, false
	}
	kv = s.cap.apply(kv, true)
	if c := s.find(metric, kv); c != nil {
		return c, false
	}
	if len(s.series) >= s.cfg.MaxSeries {
		s.m.countsDropped.WithLabelValues("max_series").Inc()
		return nil, false
	}
	b := labels.NewBuilder(labels.FromMap(kv))
	c = &series{metric: metric, labels: kv, lset: b.Set(model.MetricNameLabel, metric).Labels()}
	s.series[string(s.key)] = c
	if s.services[kv["service"]] == nil {
		s.services[kv["service"]] = map[*series]struct{}{}
	}
	s.services[kv["service"]][c] = struct{}{}
	s.cap.add(kv)
	return c, true
}

// find returns the live series of a metric with labels kv, or nil. It sets s.key to its key.
func (s *samples) find(metric string, kv map[string]string) *series {
	s.names = s.names[:0]
	for k, v := range kv {
		if v != "" {
			s.names = append(s.names, k)
		}
	}
	slices.Sort(s.names)
	s.key = appendString(s.key[:0], metric)
	for _, k := range s.names {
		s.key = appendString(appendString(s.key, k), kv[k])
	}
	return s.series[string(s.key)]
}

// appendString appends the length and the bytes of v.
func appendString(b []byte, v string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// remove removes a series that has ended.
func (s *samples) remove(key string, c *series) {
	delete(s.series, key)
	service := c.labels["service"]
	if delete(s.services[service], c); len(s.services[service]) == 0 {
		delete(s.services, service)
	}
	s.cap.remove(c.labels)
}

func (s *series) append(db *tsdb.DB, step int64) error {
	ref, err := db.Append(s.ref, s.lset, time.Unix(step, 0), s.value)
	s.ref = ref
	return err
}

// trim removes the points before from.
func (s *series) trim(from int64) {
	i := 0
	for i < len(s.points) && s.points[i].second() < from {
		i++
	}
	if i > 0 {
		s.points = append(s.points[:0], s.points[i:]...)
	}
}

// addExample adds x to the series that counts its failed call, finding, odd answer, error of a tool, or call that missed the cache.
func (s *samples) addExample(x *analyzer.Example) {
	metric := analyzer.MetricFailed
	switch {
	case x.Labels["ended"] != "":
		metric = analyzer.MetricOdd
	case x.Labels["confidence"] != "":
		metric = analyzer.MetricToolErrors
	case x.Labels["reason"] != "":
		metric = analyzer.MetricCacheBroken
	case x.Finding:
		metric = analyzer.MetricFindings
	}
	if c := s.find(metric, s.cap.apply(x.Labels, false)); c != nil {
		x := *x
		x.ErrorText, x.Summary, x.Evidence, x.Fix = clip(x.ErrorText), clip(x.Summary), clip(x.Evidence), clip(x.Fix)
		x.FirstVersion, x.LastClean = clip(x.FirstVersion), clip(x.LastClean)
		c.examples = insertExample(c.examples, &x)
	}
}

// clip truncates text to maxExampleText bytes; a truncated text is a copy.
func clip(text string) string {
	if len(text) <= maxExampleText {
		return text
	}
	return strings.ToValidUTF8(text[:maxExampleText], "") + "…"
}

// A labelCap bounds the distinct values of each label of the live series.
type labelCap struct {
	limit    int
	replaced *prometheus.CounterVec    // by label
	live     map[string]map[string]int // number of series by label and value
}

// apply returns a copy of kv without empty values, in which otherValue replaces new values beyond the limit. If count
// is set, the replacements are counted.
func (c *labelCap) apply(kv map[string]string, count bool) map[string]string {
	out := make(map[string]string, len(kv))
	for k, v := range kv {
		if v == "" {
			continue
		}
		v = strings.ToValidUTF8(v, "\ufffd")
		if live := c.live[k]; live[v] == 0 && v != otherValue && len(live) >= c.limit {
			if v = otherValue; count {
				c.replaced.WithLabelValues(k).Inc()
			}
		}
		out[k] = v
	}
	return out
}

// add counts the values of a new series.
func (c *labelCap) add(kv map[string]string) {
	for k, v := range kv {
		if c.live[k] == nil {
			c.live[k] = map[string]int{}
		}
		c.live[k][v]++
	}
}

// remove removes the values of a series that has ended.
func (c *labelCap) remove(kv map[string]string) {
	for k, v := range kv {
		if c.live[k][v]--; c.live[k][v] == 0 {
			delete(c.live[k], v)
		}
	}
}
