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

// The labels of a series, in the sort order of a tally's counts. The first is the name of the metric.
const (
	labelMetric = iota
	labelService
	labelVersion
	labelEnvironment
	labelAgent
	labelStage
	labelProvider
	labelModel // the labels from service to model have a bounded number of values
	labelStatus
	labelCause
	labelRootCause
	labelRule
	labelSeverity
	labels
)

var labelNames = [labels]string{
	"", "service", "service_version", "environment", "agent", "stage", "provider", "model", "status", "cause", "root_cause", "rule", "severity",
}

// series is the labels of a counter.
type series [labels]string

// labels returns the non-empty labels of s; for Prometheus an empty label is an absent one.
func (s *series) labels() map[string]string {
	m := make(map[string]string, labels)
	for i, v := range s[labelService:] {
		if v != "" {
			m[labelNames[labelService+i]] = v
		}
	}
	return m
}

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
	examples map[[4]string]Example // by service, stage, cause and root cause
	minSeq   uint64                // oldest sequence that the counts were made from

	countBytes, exampleBytes int // of JSON, estimated

	hour   int64
	values [labelModel + 1]map[string]struct{} // label values seen in the hour
}

func newCounter(cfg *Config) *counter {
	c := &counter{
		partition: cfg.Partition, epoch: cfg.Epoch, limit: cfg.MaxLabelValues,
		counts: make(map[series]uint64), examples: make(map[[4]string]Example),
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
func (c *counter) base(metric string, l *event.Labels, provider, model string, now time.Time) series {
	c.newHour(now)
	s := series{metric, l.Service, l.ServiceVersion, l.Environment, l.Agent, l.Stage, provider, model}
	for i := labelService; i <= labelModel; i++ {
		s[i] = c.limited(i, s[i])
	}
	return s
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
	metric := MetricCalls
	switch {
	case e.Retry > 0:
		metric = MetricRetries
	case !e.Failed && e.ErrorType == ErrorCancelled:
		metric = MetricCancelled
	}
	s := c.base(metric, &e.Labels, e.Provider, e.Model, now)
	c.add(s, 1, minSeq, now)
	if !e.Failed || e.Retry > 0 {
		return
	}
	s[labelMetric], s[labelStatus], s[labelCause], s[labelRootCause] = MetricFailed, strconv.Itoa(e.Status), e.Cause, e.RootCause
	s = c.add(s, 1, minSeq, now)
	if isNew {
		first := s
		first[labelMetric] = MetricNew
		c.add(first, 1, minSeq, now)
	}
	k := [4]string{s[labelService], s[labelStage], s[labelCause], s[labelRootCause]}
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
	s := c.base(MetricFindings, &f.Labels, f.Provider, f.Model, now)
	s[labelRule], s[labelSeverity], s[labelRootCause] = f.Rule, string(f.Severity), f.RootCause
	c.add(s, 1, minSeq, now)
}

// process counts n events or exchanges of a process.
func (c *counter) process(metric string, p *process, n, minSeq uint64, now time.Time) {
	if n > 0 {
		c.add(c.base(metric, &event.Labels{Service: p.service, Environment: p.environment}, "", "", now), n, minSeq, now)
	}
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
	for i := labelService; i <= labelModel; i++ {
		if s[i] != "" {
			s[i] = other
		}
	}
	return s
}

// jsonBytes returns the approximate size of a count of s in a message.
func (s *series) jsonBytes() int { return 256 + jsonBytes(s[:]...) }

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
	slices.SortFunc(all, func(a, b series) int { return slices.Compare(a[:], b[:]) })
	for i := range all {
		t.Counts = append(t.Counts, Count{Metric: all[i][labelMetric], Labels: all[i].labels(), N: c.counts[all[i]]})
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
