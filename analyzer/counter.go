package analyzer

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/analyzer/signals"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// other is the label value that replaces values beyond Config.MaxLabelValues.
const other = "other"

// Labels of a series, in the sort order of a tally's counts. The first is the name of the metric.
const (
	labelMetric = iota
	labelService
	labelVersion
	labelEnvironment
	labelAgent
	labelStage
	labelProvider
	labelModel
	labelTool // labels from service to tool have a limited number of values
	labelStatus
	labelCause // of a failed call, or of the call that a signal is about
	labelRootCause
	labelRule
	labelSeverity
	labelTransport
	labelEnded
	labelConfidence // see package toolreply
	labelReason     // why the cache was not read, see package promptcache, or why texts are not stored, see package content
	labels
)

var labelNames = [labels]string{
	"", "service", "service_version", "environment", "agent", "stage", "provider", "model", "tool", "status", "cause", "root_cause", "rule", "severity",
	"transport", "ended", "confidence", "reason",
}

// series contains the label values of a counter.
type series [labels]string

// labels returns the non-empty labels of s, because Prometheus treats an empty label as absent.
func (s *series) labels() map[string]string {
	n := 0
	for _, v := range s[labelService:] {
		if v != "" {
			n++
		}
	}
	m := make(map[string]string, n)
	for i, v := range s[labelService:] {
		if v != "" {
			m[labelNames[labelService+i]] = v
		}
	}
	return m
}

// Limits per second, so that a tally fits into a NATS message of 1 MiB.
const (
	maxExamples     = 256
	maxExampleText  = 512       // bytes per text of an example
	maxExampleBytes = 256 << 10 // estimated JSON bytes of all examples
	maxCountBytes   = 512 << 10 // estimated JSON bytes of all counts; further series are counted as "other"
	maxMeasured     = 384 << 10 // estimated JSON bytes of all counts above which nothing more is measured
	maxLabelBytes   = 128
)

// A count is the increment of a series.
type count struct {
	series   series
	n        uint64
	measured *Measured // of MetricCalls; nil if nothing was measured
	reusable uint64    // of MetricCalls: what MetricCacheReusable counts
	next     *count    // another series with the same hash
}

// counter accumulates the tally of the current second.
type counter struct {
	partition int
	epoch     uint64
	limit     int
	prices    *price.Lookup

	started  bool
	closed   int64 // newest closed second
	second   int64 // the second to which counts belong
	seed     maphash.Seed
	counts   map[uint64]*count // by hash of the series, because a map would allocate a copy of keys as large as these
	all      []*count          // of counts; elements beyond its length are reused
	cached   int               // of these, the ones with reusable tokens
	examples map[exampleKey]Example
	users    map[Hit]map[uint16]struct{} // buckets
	limits   []RateLimit                 // sorted
	minSeq   uint64                      // oldest sequence among the counted events

	countBytes, exampleBytes, userBytes, limitBytes int // estimated JSON bytes

	hour   int64
	values [labelTool + 1]map[string]struct{} // label values seen in this hour
	newest [labelTool + 1]string              // of values, the newest one of each label, which the next call often has
}

func newCounter(cfg *Config) *counter {
	c := &counter{
		partition: cfg.Partition, epoch: cfg.Epoch, limit: cfg.MaxLabelValues, prices: price.NewLookup(cfg.Prices),
		seed: maphash.MakeSeed(), counts: make(map[uint64]*count), examples: make(map[exampleKey]Example), users: make(map[Hit]map[uint16]struct{}),
	}
	for i := range c.values {
		c.values[i] = make(map[string]struct{})
	}
	return c
}

// moveTo closes the seconds before now. It passes to publish the second with counts, if any, and the last second, so
// that the reader's time advances even if nothing is counted.
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

// base returns the labels common to all metrics of an exchange, each with a limited number of values.
func (c *counter) base(metric string, l *event.Labels, provider, model string, now time.Time) series {
	c.newHour(now)
	s := series{metric, l.Service, l.ServiceVersion, l.Environment, l.Agent, l.Stage, provider, model}
	for i := labelService; i <= labelModel; i++ {
		s[i] = c.limited(i, s[i])
	}
	return s
}

// newHour clears the label values when the hour changes: a permanent limit would turn tomorrow's service versions into
// "other".
func (c *counter) newHour(now time.Time) {
	if h := now.Unix() / 3600; h != c.hour {
		c.hour = h
		for i := range c.values {
			clear(c.values[i])
		}
		clear(c.newest[:])
	}
}

func (c *counter) limited(label int, v string) string {
	if v == "" || v == c.newest[label] {
		return v
	}
	if len(v) > maxLabelBytes {
		v = strings.Clone(limit.Text(v, maxLabelBytes))
	}
	seen := c.values[label]
	if _, ok := seen[v]; !ok {
		if len(seen) >= c.limit {
			return other
		}
		seen[v] = struct{}{}
	}
	c.newest[label] = v
	return v
}

// exchange counts p and the replies in it to calls of replied, see settle. minSeq is the oldest sequence of its events. ex
// builds an example of p and is called only for failures; isNew reports whether the cause is new. broken is what is known of
// a break of the provider's cache, see memory.cache.
func (c *counter) exchange(p *pending, replied [2][]*session.Call, ex func() Example, broken *signals.Failure, isNew bool, minSeq uint64, now time.Time) {
	e := &p.row
	metric := MetricCalls
	switch {
	case e.Retry > 0:
		metric = MetricRetries
	case !e.Failed && e.ErrorType == ErrorCancelled:
		metric = MetricCancelled
	}
	s := c.base(metric, &e.Labels, e.Provider, e.Model, now)
	for _, calls := range replied {
		for _, call := range calls {
			if p.repliesTo(call) {
				c.reply(p, s, call, minSeq, now)
			}
		}
	}
	c.rateLimits(&s, p.limits, now)
	n := c.add(&s, 1, minSeq, now)
	if metric == MetricCalls && measures(p) {
		c.measure(n, p)
		c.cache(p, s, n, broken, minSeq, now)
	}
	if metric == MetricCalls && odds[e.Ended].summary != "" {
		odd := s
		odd[labelMetric], odd[labelEnded] = MetricOdd, e.Ended
		c.add(&odd, 1, minSeq, now)
		c.example(&odd, func() Example { return oddExample(p) }, maxExamples/2, maxExampleBytes/2)
	}
	if !e.Failed || e.Retry > 0 {
		return
	}
	s[labelMetric], s[labelStatus], s[labelCause], s[labelRootCause] = MetricFailed, strconv.Itoa(e.Status), e.Cause, e.RootCause
	c.add(&s, 1, minSeq, now)
	if isNew {
		first := s
		first[labelMetric] = MetricNew
		c.add(&first, 1, minSeq, now)
	}
	c.example(&s, ex, maxExamples, maxExampleBytes)
	c.hit(&s, e.Labels.User)
}

// reply counts the reply to call, which is new in the request of p. s has the labels of p.
func (c *counter) reply(p *pending, s series, call *session.Call, minSeq uint64, now time.Time) {
	s[labelMetric], s[labelTool] = MetricToolReplies, c.limited(labelTool, call.Name)
	c.add(&s, 1, minSeq, now)
	if p.loop != nil {
		s := s
		s[labelMetric] = MetricRepeated
		c.add(&s, 1, minSeq, now)
	}
	if call.ReplyError != "" {
		s[labelMetric], s[labelConfidence] = MetricToolErrors, call.ReplyError
		c.add(&s, 1, minSeq, now)
		c.example(&s, func() Example { return toolErrorExample(p, call) }, maxExamples/2, maxExampleBytes/2)
	}
}

// cache counts what became of the provider's cache in p, whose labels s has and which calls counts.
func (c *counter) cache(p *pending, s series, calls *count, broken *signals.Failure, minSeq uint64, now time.Time) {
	e := &p.row
	v := &e.Cache
	if !e.CacheReported || v.Reusable <= 0 {
		return
	}
	if calls.reusable == 0 {
		c.cached++
		c.countBytes += s.jsonBytes()
	}
	calls.reusable += uint64(v.Reusable)
	if v.Missed <= 0 {
		return
	}
	s[labelMetric], s[labelReason] = MetricCacheMissed, v.Reason
	c.add(&s, uint64(v.Missed), minSeq, now)
	if loss := p.cacheLoss(c.prices); loss > 0 {
		s[labelMetric] = MetricCacheLoss
		c.add(&s, loss, minSeq, now)
	}
	if broken != nil {
		s[labelMetric] = MetricCacheBroken
		c.add(&s, 1, minSeq, now)
		c.example(&s, func() Example { return cacheExample(p, broken) }, maxExamples/2, maxExampleBytes/2)
	}
}

// measure adds what was measured of p, a call that n counts, unless the second has too much.
func (c *counter) measure(n *count, p *pending) {
	if c.countBytes > maxMeasured {
		return
	}
	if n.measured == nil {
		n.measured = newMeasured()
	} else {
		c.countBytes -= n.measured.jsonBytes()
	}
	n.measured.add(p, c.prices)
	c.countBytes += n.measured.jsonBytes()
}

// exampleKey identifies the series that share an example.
type exampleKey struct{ metric, service, stage, cause, rootCause, rule, ended, reason string }

// example replaces the example of s by the result of build, unless c would then have more than n examples, or more bytes
// of examples than bytes.
func (c *counter) example(s *series, build func() Example, n, bytes int) {
	k := exampleKey{s[labelMetric], s[labelService], s[labelStage], s[labelCause], s[labelRootCause], s[labelRule], s[labelEnded], s[labelReason]}
	old, known := c.examples[k]
	if !known && len(c.examples) >= n {
		return
	}
	x := build()
	x.Labels = s.labels()
	if size := c.exampleBytes + x.jsonBytes() - old.jsonBytes(); size <= bytes {
		c.examples[k], c.exampleBytes = x, size
	}
}

// finding counts f. about is the failure that a signal is about; for a violation, it has only the ledger's entry of the
// defect and the text of the failed call. Examples of findings use at most half of the space for examples, so that failed
// calls have theirs.
func (c *counter) finding(f *Finding, about *signals.Failure, minSeq uint64, now time.Time) {
	s := c.base(MetricFindings, &f.Labels, f.Provider, f.Model, now)
	s[labelRule], s[labelSeverity], s[labelCause], s[labelRootCause] = f.Rule, string(f.Severity), about.Cause, cmp.Or(f.RootCause, about.RootCause)
	c.add(&s, 1, minSeq, now)
	c.example(&s, func() Example { return findingExample(f, about, now) }, maxExamples/2, maxExampleBytes/2)
	c.hit(&s, f.Labels.User)
}

// process counts n dropped exchanges or lost events of a process.
func (c *counter) process(metric string, p *process, n, minSeq uint64, now time.Time) {
	if n > 0 {
		s := c.base(metric, &event.Labels{Service: p.service, Environment: p.environment}, "", "", now)
		c.add(&s, n, minSeq, now)
	}
}

// uncaptured counts n calls over a transport that no hook captured. The labels are those of a process.
func (c *counter) uncaptured(l *event.Labels, transport string, n, minSeq uint64, now time.Time) {
	s := c.base(MetricUncaptured, &event.Labels{Service: l.Service, Environment: l.Environment}, "", "", now)
	s[labelTransport] = transport
	c.add(&s, n, minSeq, now)
}

// textsDropped counts a call whose texts are not stored.
func (c *counter) textsDropped(e *Exchange, minSeq uint64, now time.Time) {
	s := c.base(MetricTextsDropped, &event.Labels{Service: e.Labels.Service, Environment: e.Labels.Environment}, "", "", now)
	s[labelReason] = e.TextsDropped.String()
	c.add(&s, 1, minSeq, now)
}

// add adds n to the count of s, which it folds if the second has too many series, and returns the count.
func (c *counter) add(s *series, n, minSeq uint64, now time.Time) *count {
	if len(c.counts) == 0 {
		c.second, c.minSeq = max(now.Unix(), c.closed+1), minSeq
	}
	c.minSeq = min(c.minSeq, minSeq)
	hash := maphash.Comparable(c.seed, *s)
	x := c.find(s, hash)
	if x == nil {
		size := s.jsonBytes()
		if c.countBytes+size > maxCountBytes {
			s.fold()
			hash = maphash.Comparable(c.seed, *s)
			x = c.find(s, hash)
		}
		c.countBytes += size // repeated for folded series, which does not matter beyond the limit
	}
	if x == nil {
		x = c.newCount(s, hash)
	}
	x.n += n
	return x
}

// find returns the count of s, which has a hash, or nil.
func (c *counter) find(s *series, hash uint64) *count {
	x := c.counts[hash]
	for x != nil && x.series != *s {
		x = x.next
	}
	return x
}

// newCount adds a count of s, which has a hash.
func (c *counter) newCount(s *series, hash uint64) *count {
	n := len(c.all)
	if c.all = slices.Grow(c.all, 1)[:n+1]; c.all[n] == nil {
		c.all[n] = new(count)
	}
	x := c.all[n]
	*x = count{series: *s, next: c.counts[hash]}
	c.counts[hash] = x
	return x
}

// fold sets the non-empty labels of s from service to tool to "other".
func (s *series) fold() {
	for i := labelService; i <= labelTool; i++ {
		if s[i] != "" {
			s[i] = other
		}
	}
}

// jsonBytes returns the approximate JSON size of a count of s.
func (s *series) jsonBytes() int { return 256 + jsonBytes(s[:]...) }

func (x *Example) jsonBytes() int {
	if x.Labels == nil {
		return 0
	}
	n := 512 + jsonBytes(x.Exchange, x.Conversation, x.ErrorText, x.Rule, x.ToolCallID, x.ToolName, x.Summary, x.Evidence, x.Fix, x.FirstVersion, x.LastClean)
	for _, v := range x.Labels {
		n += jsonBytes(v)
	}
	return n
}

// jsonBytes returns an upper bound on the size of ss in JSON.
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

// compareExamples orders the examples of a tally.
func compareExamples(a, b *Example) int {
	kind := func(x *Example) int {
		if x.Finding {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Exchange, b.Exchange), kind(a)-kind(b), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.ToolCallID, b.ToolCallID),
		cmp.Compare(a.Message, b.Message), cmp.Compare(a.Summary, b.Summary), cmp.Compare(a.Labels["root_cause"], b.Labels["root_cause"]))
}

// reusable appends the counts of MetricCacheReusable to counts, in the order of all.
func reusable(counts []Count, all []*count) []Count {
	for _, n := range all {
		if n.reusable > 0 {
			counts = append(counts, Count{Metric: MetricCacheReusable, Labels: n.series.labels(), N: n.reusable})
		}
	}
	return counts
}

// take closes the second with counts and returns its tally.
func (c *counter) take() Tally {
	t := Tally{Partition: c.partition, Epoch: c.epoch, Second: c.second, Counts: make([]Count, 0, len(c.all)+c.cached)}
	slices.SortFunc(c.all, func(a, b *count) int { return slices.Compare(a.series[:], b.series[:]) })
	shared := -1 // index of the next count of MetricCacheReusable, which share their labels with calls and precede them in the order
	for i, n := range c.all {
		x := Count{Metric: n.series[labelMetric], N: n.n, Measured: n.measured}
		if shared < 0 && x.Metric >= MetricCalls {
			shared = len(t.Counts)
			t.Counts = reusable(t.Counts, c.all[i:])
		}
		if n.reusable > 0 {
			x.Labels = t.Counts[shared].Labels
			shared++
		} else {
			x.Labels = n.series.labels()
		}
		t.Counts = append(t.Counts, x)
	}
	for _, ex := range c.examples {
		t.Examples = append(t.Examples, ex)
	}
	slices.SortFunc(t.Examples, func(a, b Example) int { return compareExamples(&a, &b) })
	t.Users = c.takeUsers()
	t.RateLimits, c.limits, c.limitBytes = c.limits, nil, 0
	clear(c.counts)
	clear(c.examples)
	c.all = c.all[:0]
	c.closed, c.minSeq, c.countBytes, c.exampleBytes, c.cached = c.second, 0, 0, 0, 0
	return t
}
