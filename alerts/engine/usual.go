package engine

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/storage"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/usual"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// maxStages bounds the stages of which it is known what is usual. A new stage replaces one without calls for stageIdle.
	maxStages = 2000
	stageIdle = 24 * 60 // minutes
	// stageEnd is the time without calls after which nothing is known of a stage, in minutes. A Baseline remembers as much.
	stageEnd = 4 * 7 * 24 * 60
	// usualShards is the number of values in the Store, so that none exceeds NATS's limit of 1 MiB with maxStages.
	usualShards = 32
	// storeUsualEvery is the time after which a shard is stored again, in minutes. The tallies since then are replayed, so it must be
	// below the time for which they are kept, 2 hours.
	storeUsualEvery = 16
	// maxUsual bounds a stored shard when it is read, in bytes.
	maxUsual = 64 << 20
)

// A measure is one of the measures of a stage.
type measure struct {
	name string // value of the label measure
	kind usual.Kind
	unit float64                          // of what is exported, in units of the samples
	of   func(s *stage, to *usual.Sample) // sets what the open minute of the stage has of it
}

const measureCount = 14

// measures are all measures. Their order is that of stored watches: new ones come last.
var measures = [measureCount]measure{
	{"duration", usual.Values, 1000, func(s *stage, to *usual.Sample) { to.Values = &s.measured.Duration }}, // seconds
	{"first_token", usual.Values, 1000, func(s *stage, to *usual.Sample) { to.Values = &s.measured.FirstToken }},
	{"input_tokens", usual.Values, 1, func(s *stage, to *usual.Sample) { to.Values = &s.measured.InputTokens }},
	{"output_tokens", usual.Values, 1, func(s *stage, to *usual.Sample) { to.Values = &s.measured.OutputTokens }},
	{"calls", usual.Amount, 1, func(s *stage, to *usual.Sample) { to.Amount = s.calls }},
	odd(analyzer.EndedLimit),
	odd(analyzer.EndedEmpty),
	odd(analyzer.EndedRefused),
	odd(analyzer.EndedFiltered),
	{"history", usual.Values, 1, func(s *stage, to *usual.Sample) { to.Values = &s.measured.History }},
	{"cost", usual.Values, 1e6, func(s *stage, to *usual.Sample) { to.Values = &s.measured.Cost }}, // dollars of a call
	{"spend", usual.Spend, 1e6, func(s *stage, to *usual.Sample) { to.Calls, to.Amount = s.calls, s.measured.Cost.Sum }},
	{"tool_errors", usual.Share, 1, func(s *stage, to *usual.Sample) { to.Calls, to.Amount = max(s.toolReplies, s.toolErrors), s.toolErrors }},
	{"cache", usual.Share, 1, func(s *stage, to *usual.Sample) { to.Calls, to.Amount = max(s.calls, s.cacheBroken), s.cacheBroken }},
}

// measureIndex returns the index of a measure, or -1.
func measureIndex(name string) int {
	return slices.IndexFunc(measures[:], func(m measure) bool { return m.name == name })
}

// odd is the share of answers that end in this way.
func odd(ended string) measure {
	return measure{analyzer.OddID(ended), usual.Share, 1, func(s *stage, to *usual.Sample) {
		to.Calls, to.Amount = max(s.calls, s.odd[ended]), s.odd[ended]
	}}
}

type stageKey struct{ service, environment, stage string }

func (k stageKey) shard() int {
	h := fnv.New32a()
	for _, s := range [...]string{k.service, "\x00", k.environment, "\x00", k.stage} {
		_, _ = io.WriteString(h, s)
	}
	return int(h.Sum32() % usualShards)
}

// A stage is what is known of a stage of a service, and what happened in the open minute.
type stage struct {
	watches  [measureCount]usual.Watch
	accepted [measureCount]int64 // Unix time of the last Accept of each measure
	firing   []Gauge             // as of the last minute
	seen     int64               // last minute with calls
	history  bool                // what is stored of its calls was learned, or is in the Store
	calls    uint64
	odd      map[string]uint64 // answers by how they ended
	measured analyzer.Measured

	toolReplies, toolErrors, cacheBroken uint64

	limits   [len(versioned)]int // see limit
	limitsAt int64

	histograms [len(histograms)]storage.SeriesRef
}

func newStage() *stage {
	s := &stage{odd: map[string]uint64{}}
	for i, m := range measures {
		s.watches[i] = *usual.New(m.kind)
	}
	return s
}

// usuals learn what is usual of each stage, and say what is unusual now, minute by minute. A minute is that of the step in which its
// calls are counted, so that the same tallies have the same results. Engine.mu guards them.
type usuals struct {
	cfg      usual.Config
	interval int64 // between steps, in seconds
	m        *metrics
	stages   map[stageKey]*stage
	open     int64 // the open minute; 0 before the first step
	began    bool  // a part of the open minute may be missing
	recorded bool  // the collector was running in the minute before the last step
	gauges   []Gauge
	loaded   bool               // the Store was read
	known    bool               // it knew some stage, or the stored calls of all stages were read
	learned  [usualShards]int64 // last minute that the stages of a shard have learned
	stored   [usualShards]int64 // last minute that the stored shard includes

	histograms []histogramMinute // of the minute that was closed last
}

func newUsuals(cfg Config, m *metrics) *usuals {
	return &usuals{cfg: usual.Config{PerMonth: cfg.FalseAlarms, Measures: len(measures)}, interval: int64(cfg.EvaluationInterval.Seconds()), m: m, stages: map[stageKey]*stage{}}
}

// count adds n, a count of c, to the open minute.
func (u *usuals) count(c *series, n *analyzer.Count) {
	if u == nil {
		return
	}
	switch n.Metric {
	case analyzer.MetricCalls, analyzer.MetricOdd, analyzer.MetricToolReplies, analyzer.MetricToolErrors, analyzer.MetricCacheBroken:
	default:
		return
	}
	if c.stage == nil {
		if c.stage = u.of(stageKey{c.labels["service"], c.labels["environment"], c.labels["stage"]}); c.stage == nil {
			return
		}
	}
	switch s := c.stage; n.Metric {
	case analyzer.MetricOdd:
		s.odd[c.labels["ended"]] += n.N
	case analyzer.MetricToolReplies:
		s.toolReplies += n.N
	case analyzer.MetricToolErrors:
		s.toolErrors += n.N
	case analyzer.MetricCacheBroken:
		s.cacheBroken += n.N
	default:
		s.calls += n.N
		if n.Measured != nil {
			s.measured.Merge(n.Measured)
		}
	}
}

// of returns the stage of k, or nil if there are too many.
func (u *usuals) of(k stageKey) *stage {
	s := u.stages[k]
	if s != nil {
		return s
	}
	if len(u.stages) >= maxStages && !u.makeRoom() {
		u.m.countsDropped.WithLabelValues("max_stages").Inc()
		return nil
	}
	s = newStage()
	s.seen, u.stages[k] = u.open, s
	return s
}

// makeRoom removes the stage that has been without calls for longest, if that is long.
func (u *usuals) makeRoom() bool {
	oldest := u.open - stageIdle
	var found *stageKey
	for k, s := range u.stages {
		if s.seen < oldest || s.seen == oldest && found != nil && less(k, *found) {
			oldest, found = s.seen, &k
		}
	}
	if found != nil {
		delete(u.stages, *found)
	}
	return found != nil
}

func less(a, b stageKey) bool { return compareStages(a, b) < 0 }

func compareStages(a, b stageKey) int {
	return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.environment, b.environment), cmp.Compare(a.stage, b.stage))
}

// begin prepares for the counts of a step.
func (u *usuals) begin(step int64) {
	if u == nil {
		return
	}
	if minute := (step - 1) / 60; minute > u.open { // the first step, or steps were skipped
		u.open, u.began = minute, true
	}
}

// end closes the open minute if the next step is in another one, and returns the gauges of what is unusual.
func (u *usuals) end(step int64) []Gauge {
	if u == nil {
		return nil
	}
	if next := (step + u.interval - 1) / 60; next > u.open {
		u.close(int(next - u.open))
		u.open, u.began = next, false
	}
	return u.gauges
}

// close lets each stage learn the open minute, of some minutes if a step is longer than one.
func (u *usuals) close(minutes int) {
	recorded := u.recorded && !u.began
	for k, s := range u.stages {
		if shard := k.shard(); u.open > u.learned[shard] {
			if s.calls > 0 {
				s.seen = u.open
			}
			if recorded {
				s.learn(k, minutes, time.Unix(60*u.open, 0).UTC(), u.cfg)
			}
		}
		u.histograms = s.appendTo(u.histograms, k, u.open, minutes)
		s.calls, s.toolReplies, s.toolErrors, s.cacheBroken = 0, 0, 0, 0
		clear(s.odd)
		s.measured.Reset()
	}
	for i := range u.learned {
		u.learned[i] = max(u.learned[i], u.open)
		if u.stored[i] == 0 {
			u.stored[i] = u.open - int64(i*storeUsualEvery/usualShards) // at different minutes
		}
	}
	maps.DeleteFunc(u.stages, func(_ stageKey, s *stage) bool { return u.open-s.seen > stageEnd })
	u.collect()
}

// learn adds the minutes at, of which everything is known.
func (s *stage) learn(k stageKey, minutes int, at time.Time, cfg usual.Config) {
	s.firing = s.firing[:0]
	for i, m := range measures {
		in := usual.Sample{Minutes: minutes}
		m.of(s, &in)
		if r := s.watches[i].Add(at, in, cfg); r.Firing {
			s.firing = append(s.firing, unusual(k, m, r)...)
		}
	}
}

// accept applies the new normals that are valid at step, each once.
func (u *usuals) accept(all map[string]Accept, step int64) {
	for _, a := range all {
		k, at := stageKey{a.Service, a.Environment, a.Stage}, a.At.Unix()
		s, i := u.stages[k], measureIndex(a.Measure)
		if s == nil || i < 0 || at > step || s.accepted[i] >= at {
			continue
		}
		since := a.Since
		s.firing = slices.DeleteFunc(slices.Clone(s.firing), func(g Gauge) bool {
			of := g.Labels["measure"] == a.Measure
			if of && g.Metric == rules.MetricUnusualSince {
				since = time.Unix(int64(g.Value), 0)
			}
			return of
		})
		s.watches[i].Accept(since)
		s.accepted[i] = at
		u.storeSoon(k.shard())
		u.collect()
	}
}

// storeSoon lets a shard be stored next.
func (u *usuals) storeSoon(shard int) {
	u.stored[shard] = min(u.stored[shard], u.learned[shard]-storeUsualEvery)
}

// unusual returns the gauges of a firing result.
func unusual(k stageKey, m measure, r usual.Result) []Gauge {
	labels := map[string]string{"service": k.service, "environment": k.environment, "stage": k.stage, "measure": m.name, "direction": "high"}
	if r.Direction == usual.Low {
		labels["direction"] = "low"
	}
	now, value := r.Now/m.unit, r.Value
	if m.kind == usual.Values { // now is a share of calls
		now, value = r.Now, r.High
	}
	basis := maps.Clone(labels)
	delete(basis, "direction")
	basis["basis"] = r.Basis.String()
	return []Gauge{
		{rules.MetricUnusual, labels, now},
		{rules.MetricUnusualSince, labels, float64(r.Since.Unix())},
		{rules.MetricUsual, basis, twoDigits(value / m.unit)},
	}
}

// twoDigits rounds v to two significant digits. What is usual is known less exactly.
func twoDigits(v float64) float64 {
	if v <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return math.Round(math.Round(v/unit)*unit*1e9) / 1e9
}

// collect sets the gauges.
func (u *usuals) collect() {
	u.gauges = nil // samples may still have the old ones
	for _, s := range u.stages {
		u.gauges = append(u.gauges, s.firing...)
	}
}

// savedStages are the stages of a shard, as stored in gzip.
type savedStages struct {
	Minute int64        `json:"minute"` // last one that they have learned
	Stages []savedStage `json:"stages"`
}

type savedStage struct {
	Service     string      `json:"service"`
	Environment string      `json:"environment"`
	Stage       string      `json:"stage"`
	Seen        int64       `json:"seen"`
	Firing      []Gauge     `json:"firing,omitempty"`
	Accepted    []int64     `json:"accepted,omitempty"` // as in stage; empty if there are none
	History     bool        `json:"history,omitempty"`
	Watches     [][2][]byte `json:"watches"` // Baseline and Test, in the order of measures
}

func usualKey(shard int) string { return fmt.Sprint("usual.", shard) }

// due returns the stages of the shard whose stored value is the oldest; false if none is old. If all is set, a value that lacks a minute
// is old.
func (u *usuals) due(all bool) (shard int, saved savedStages, ok bool) {
	every := int64(storeUsualEvery)
	if all {
		every = 1
	}
	shard = slices.Index(u.stored[:], slices.Min(u.stored[:]))
	if u.learned[shard]-u.stored[shard] < every || u.stored[shard] == 0 {
		return 0, saved, false
	}
	saved.Minute = u.learned[shard]
	for _, k := range slices.SortedFunc(maps.Keys(u.stages), compareStages) {
		if k.shard() != shard {
			continue
		}
		s := u.stages[k]
		out := savedStage{Service: k.service, Environment: k.environment, Stage: k.stage, Seen: s.seen, Firing: slices.Clone(s.firing), History: s.history}
		if s.accepted != [measureCount]int64{} {
			out.Accepted = slices.Clone(s.accepted[:])
		}
		for i := range s.watches {
			baseline, err := s.watches[i].Baseline.MarshalBinary()
			test, err2 := s.watches[i].Test.MarshalBinary()
			if err != nil || err2 != nil {
				panic(fmt.Sprint("BUG: encode what is usual: ", cmp.Or(err, err2)))
			}
			out.Watches = append(out.Watches, [2][]byte{baseline, test})
		}
		saved.Stages = append(saved.Stages, out)
	}
	return shard, saved, true
}

// compressors are reused because a new one allocates and clears more than a megabyte, for each shard that is stored.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func (s *savedStages) encode() ([]byte, error) {
	var b bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&b)
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

func decodeStages(b []byte) (s savedStages, err error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return s, err
	}
	return s, json.NewDecoder(io.LimitReader(r, maxUsual)).Decode(&s)
}

// restore replaces what is known of the stages of a shard. Of a measure that cannot be read, or did not exist, nothing is known. An engine
// that has read the Store before only takes over what another one has learned from stored calls since.
func (u *usuals) restore(shard int, saved *savedStages) {
	if !u.loaded {
		u.learned[shard], u.stored[shard] = max(u.learned[shard], saved.Minute), saved.Minute
	}
	for _, in := range saved.Stages {
		k := stageKey{in.Service, in.Environment, in.Stage}
		if s := u.stages[k]; u.loaded && (!in.History || s != nil && s.history) {
			continue
		}
		s := u.of(k)
		if s == nil {
			return
		}
		u.known = u.known || in.History
		s.seen, s.firing, s.history = max(s.seen, in.Seen), in.Firing, in.History
		copy(s.accepted[:], in.Accepted)
		for i := range min(len(in.Watches), len(measures)) {
			w := usual.New(measures[i].kind)
			if w.Baseline.UnmarshalBinary(in.Watches[i][0]) == nil && w.Test.UnmarshalBinary(in.Watches[i][1]) == nil {
				s.watches[i] = *w
			}
		}
	}
}

// loadUsual reads what is usual from the Store. The caller must not hold mu.
func (s *state) loadUsual(ctx context.Context) error {
	u := s.usuals
	if s.store == nil || u == nil {
		return nil
	}
	var shards [usualShards]*savedStages
	g, all := errgroup.WithContext(ctx)
	g.SetLimit(maxPuts)
	for i := range shards {
		g.Go(func() error {
			b, err := s.store.Get(all, usualKey(i))
			if err != nil {
				return fmt.Errorf("read %s: %w", usualKey(i), err)
			}
			if b == nil {
				return nil
			}
			saved, err := decodeStages(b)
			if err != nil { // it is learned anew
				s.m.failed(s.log, "store", err, "key", usualKey(i))
				return nil
			}
			shards[i] = &saved
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, saved := range shards {
		if saved != nil {
			u.restore(i, saved)
		}
	}
	u.loaded = true
	u.collect()
	return nil
}

// saveUsual stores the shards that are due, or those that lack a minute, and reports whether it did.
func (s *state) saveUsual(ctx context.Context, all bool) bool {
	if s.store == nil || s.usuals == nil {
		return true
	}
	for {
		s.mu.Lock()
		shard, saved, ok := s.usuals.due(all)
		s.mu.Unlock()
		if !ok {
			return true
		}
		b, err := saved.encode()
		if err == nil && len(saved.Stages) > 0 {
			err = s.store.Put(ctx, usualKey(shard), b)
		}
		if err != nil {
			s.m.failed(s.log, "store", err, "key", usualKey(shard))
			return false
		}
		s.mu.Lock()
		s.usuals.stored[shard] = saved.Minute
		s.mu.Unlock()
	}
}
