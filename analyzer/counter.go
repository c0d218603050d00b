package analyzer

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// other is the label value that stands for all beyond Config.MaxLabelValues.
const other = "other"

// series is one counter's labels; its fields are in the order in which a tally's counts are sorted.
type series struct {
	metric                                                  string
	service, version, environment, agent, stage             string
	provider, model, status, cause, rootCause, rule, severe string
}

func (s *series) compare(o *series) int {
	return cmp.Or(
		cmp.Compare(s.metric, o.metric), cmp.Compare(s.service, o.service), cmp.Compare(s.version, o.version),
		cmp.Compare(s.environment, o.environment), cmp.Compare(s.agent, o.agent), cmp.Compare(s.stage, o.stage),
		cmp.Compare(s.provider, o.provider), cmp.Compare(s.model, o.model), cmp.Compare(s.status, o.status),
		cmp.Compare(s.cause, o.cause), cmp.Compare(s.rootCause, o.rootCause), cmp.Compare(s.rule, o.rule),
		cmp.Compare(s.severe, o.severe),
	)
}

// labels are the non-empty labels of s; to Prometheus an empty label is an absent one.
func (s *series) labels() map[string]string {
	m := make(map[string]string, 12)
	for _, l := range [...][2]string{
		{"service", s.service},
		{"service_version", s.version},
		{"environment", s.environment},
		{"agent", s.agent},
		{"stage", s.stage},
		{"provider", s.provider},
		{"model", s.model},
		{"status", s.status},
		{"cause", s.cause},
		{"root_cause", s.rootCause},
		{"rule", s.rule},
		{"severity", s.severe},
	} {
		if l[1] != "" {
			m[l[0]] = l[1]
		}
	}
	return m
}

// exampleKey is what an Example stands for.
type exampleKey struct{ service, stage, cause, rootCause string }

// maxExamples bounds the examples of a second.
const maxExamples = 256

// counter adds up the open second and closes it.
type counter struct {
	partition int
	epoch     uint64
	limit     int

	started  bool
	closed   int64 // the last closed second
	second   int64 // the open second that has counts, when counts is not empty
	counts   map[series]uint64
	examples map[exampleKey]Example
	need     uint64 // oldest sequence that the counts were made from

	hour   int64
	values [7]map[string]struct{} // label values seen in the hour
}

func newCounter(cfg *Config) *counter {
	c := &counter{
		partition: cfg.Partition, epoch: cfg.Epoch, limit: cfg.MaxLabelValues,
		counts: make(map[series]uint64), examples: make(map[exampleKey]Example),
	}
	for i := range c.values {
		c.values[i] = make(map[string]struct{})
	}
	return c
}

// moveTo closes the seconds before now and passes them to publish: the one that has counts, and the last one, so that
// time moves on for the reader when nothing is counted.
func (c *counter) moveTo(now time.Time, publish func(Tally)) {
	s := now.Unix()
	if !c.started {
		c.started, c.closed = true, s-1
		return
	}
	if s-1 <= c.closed {
		return
	}
	if len(c.counts) > 0 && c.second < s {
		publish(c.take())
	}
	if c.closed < s-1 {
		c.closed = s - 1
		publish(Tally{Partition: c.partition, Epoch: c.epoch, Second: c.closed})
	}
}

// base returns the labels that all metrics of an exchange share, each limited in distinct values.
func (c *counter) base(e *Exchange, now time.Time) series {
	if h := now.Unix() / 3600; h != c.hour {
		// A limit for ever would turn tomorrow's service versions into "other".
		c.hour = h
		for i := range c.values {
			clear(c.values[i])
		}
	}
	l := &e.Labels
	return series{
		service: c.limited(0, l.Service), version: c.limited(1, l.ServiceVersion), environment: c.limited(2, l.Environment),
		agent: c.limited(3, l.Agent), stage: c.limited(4, l.Stage), provider: c.limited(5, e.Provider), model: c.limited(6, e.Model),
	}
}

func (c *counter) limited(label int, v string) string {
	if v == "" {
		return v
	}
	seen := c.values[label]
	if _, ok := seen[v]; ok {
		return v
	}
	if len(seen) >= c.limit {
		return other
	}
	seen[v] = struct{}{}
	return v
}

// exchange counts e, which was made from need and later sequences; ex is its example when it failed.
func (c *counter) exchange(e *Exchange, ex Example, need uint64, now time.Time) {
	s := c.base(e, now)
	s.metric = MetricCalls
	if e.Retry > 0 {
		s.metric = MetricRetries
	}
	c.add(s, need, now)
	if !e.Failed || e.Retry > 0 {
		return
	}
	s.metric, s.status, s.cause, s.rootCause = MetricFailed, strconv.Itoa(e.Status), e.Cause, e.RootCause
	c.add(s, need, now)
	k := exampleKey{s.service, s.stage, s.cause, s.rootCause}
	if _, ok := c.examples[k]; ok || len(c.examples) < maxExamples {
		ex.Labels = s.labels()
		c.examples[k] = ex
	}
}

// finding counts f of exchange e.
func (c *counter) finding(e *Exchange, f *Finding, need uint64, now time.Time) {
	s := c.base(e, now)
	s.metric, s.rule, s.severe, s.rootCause = MetricFindings, f.Rule, string(f.Severity), f.RootCause
	c.add(s, need, now)
}

func (c *counter) add(s series, need uint64, now time.Time) {
	if len(c.counts) == 0 {
		c.second, c.need = max(now.Unix(), c.closed+1), need
	}
	c.need = min(c.need, need)
	c.counts[s]++
}

// take closes the second that has counts.
func (c *counter) take() Tally {
	t := Tally{Partition: c.partition, Epoch: c.epoch, Second: c.second, Counts: make([]Count, 0, len(c.counts))}
	all := make([]series, 0, len(c.counts))
	for s := range c.counts {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b series) int { return a.compare(&b) })
	for i := range all {
		t.Counts = append(t.Counts, Count{Metric: all[i].metric, Labels: all[i].labels(), N: c.counts[all[i]]})
	}
	for _, ex := range c.examples {
		t.Examples = append(t.Examples, ex)
	}
	slices.SortFunc(t.Examples, func(a, b Example) int { return cmp.Compare(a.Exchange, b.Exchange) })
	clear(c.counts)
	clear(c.examples)
	c.closed, c.need = c.second, 0
	return t
}
