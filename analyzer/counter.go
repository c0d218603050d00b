package analyzer

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
)

// other is the label value for values beyond Config.MaxLabelValues.
const other = "other"

// series is the labels of a counter. Its fields are in the sort order of a tally's counts.
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

// labels returns the non-empty labels of s; for Prometheus an empty label is an absent one.
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

// exampleKey is what an Example represents.
type exampleKey struct{ service, stage, cause, rootCause string }

// Bounds of a second, so that its tally fits into a NATS message of 1 MiB.
const (
	maxExamples     = 256
	maxExampleText  = 512       // bytes of each text of an example
	maxExampleBytes = 256 << 10 // of JSON, estimated
	maxCountBytes   = 512 << 10 // of JSON, estimated; further series are counted as "other"
	maxLabelBytes   = 128
)

// counter sums up the current second and closes it.
type counter struct {
	partition int
	epoch     uint64
	limit     int

	started  bool
	closed   int64 // the last closed second
	second   int64 // of counts, when they are not empty
	counts   map[series]uint64
	examples map[exampleKey]Example
	minSeq   uint64 // oldest sequence that the counts were made from

	countBytes, exampleBytes int // of JSON, estimated

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

// moveTo closes the seconds before now and passes them to publish: the one with counts, and the last one, so that time
// advances for the reader even when nothing is counted.
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

// base returns the labels that all metrics of an exchange share, each with a bounded number of values.
func (c *counter) base(l *event.Labels, provider, model string, now time.Time) series {
	c.newHour(now)
	return series{
		service: c.limited(0, l.Service), version: c.limited(1, l.ServiceVersion), environment: c.limited(2, l.Environment),
		agent: c.limited(3, l.Agent), stage: c.limited(4, l.Stage), provider: c.limited(5, provider), model: c.limited(6, model),
	}
}

// newHour forgets the values of the hour before: a permanent bound would turn tomorrow's service versions into "other".
func (c *counter) newHour(now time.Time) {
	if h := now.Unix() / 3600; h != c.hour {
		c.hour = h
		for i := range c.values {
			clear(c.values[i])
		}
	}
}

func (c *counter) limited(label int, v string) string {
	if v == "" {
		return v
	}
	if len(v) > maxLabelBytes {
		v = strings.Clone(limit.Text(v, maxLabelBytes))
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

// exchange counts e, which was made from minSeq and later sequences. ex makes its example if it failed; isNew says that its
// cause is new.
func (c *counter) exchange(e *Exchange, ex func() Example, isNew bool, minSeq uint64, now time.Time) {
	s := c.base(&e.Labels, e.Provider, e.Model, now)
	switch {
	case e.Retry > 0:
		s.metric = MetricRetries
	case !e.Failed && e.ErrorType == ErrorCancelled:
		s.metric = MetricCancelled
	default:
		s.metric = MetricCalls
	}
	c.add(s, 1, minSeq, now)
	if !e.Failed || e.Retry > 0 {
		return
	}
	s.metric, s.status, s.cause, s.rootCause = MetricFailed, strconv.Itoa(e.Status), e.Cause, e.RootCause
	s = c.add(s, 1, minSeq, now)
	if isNew {
		first := s
		first.metric = MetricNew
		c.add(first, 1, minSeq, now)
	}
	k := exampleKey{s.service, s.stage, s.cause, s.rootCause}
	old, known := c.examples[k]
	if !known && len(c.examples) >= maxExamples {
		return
	}
	x := ex()
	x.Labels = s.labels()
	if n := c.exampleBytes + x.jsonBytes() - old.jsonBytes(); n <= maxExampleBytes {
		c.examples[k], c.exampleBytes = x, n
	}
}

// finding counts f.
func (c *counter) finding(f *Finding, minSeq uint64, now time.Time) {
	s := c.base(&f.Labels, f.Provider, f.Model, now)
	s.metric, s.rule, s.severe, s.rootCause = MetricFindings, f.Rule, string(f.Severity), f.RootCause
	c.add(s, 1, minSeq, now)
}

// process counts n events or exchanges of a process.
func (c *counter) process(metric string, p *process, n, minSeq uint64, now time.Time) {
	if n == 0 {
		return
	}
	c.newHour(now)
	c.add(series{metric: metric, service: c.limited(0, p.service), environment: c.limited(2, p.environment)}, n, minSeq, now)
}

// add counts n of s, or of its folded series when the second has too many. It returns the counted series.
func (c *counter) add(s series, n, minSeq uint64, now time.Time) series {
	if len(c.counts) == 0 {
		c.second, c.minSeq = max(now.Unix(), c.closed+1), minSeq
	}
	c.minSeq = min(c.minSeq, minSeq)
	if _, ok := c.counts[s]; !ok {
		size := s.jsonBytes()
		if c.countBytes+size > maxCountBytes {
			s = s.folded()
		}
		c.countBytes += size // counted again for folded series, which no longer matters
	}
	c.counts[s] += n
	return s
}

// folded returns s without the labels that distinguish it from others of its metric.
func (s series) folded() series {
	for _, v := range [...]*string{&s.service, &s.version, &s.environment, &s.agent, &s.stage, &s.provider, &s.model} {
		if *v != "" {
			*v = other
		}
	}
	return s
}

// jsonBytes returns the approximate size of a count of s in a message.
func (s *series) jsonBytes() int {
	return 256 + jsonBytes(s.metric, s.service, s.version, s.environment, s.agent, s.stage, s.provider, s.model, s.status, s.cause, s.rootCause, s.rule, s.severe)
}

func (x *Example) jsonBytes() int {
	if x.Labels == nil {
		return 0
	}
	n := 512 + jsonBytes(x.Exchange, x.Conversation, x.ErrorText, x.Rule, x.ToolCallID, x.Summary, x.Evidence, x.Fix, x.FirstVersion, x.LastClean)
	for _, v := range x.Labels {
		n += jsonBytes(v)
	}
	return n
}

// jsonBytes returns an upper bound of the size of the strings in JSON.
func jsonBytes(ss ...string) (n int) {
	for _, s := range ss {
		for i := range len(s) {
			if b := s[i]; b < ' ' || b > '~' || b == '"' || b == '\\' || b == '<' || b == '>' || b == '&' {
				n += 5
			}
		}
		n += len(s)
	}
	return n
}

// take closes the second with counts.
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
	c.closed, c.minSeq, c.countBytes, c.exampleBytes = c.second, 0, 0, 0
	return t
}
