package engine

import (
	"math"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/regression"
	"github.com/llmtap/llmtap/alerts/usual"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/dist"
)

// measuredTick is the resolution of what is measured of a version, in seconds, a multiple of regression.Tick.
const measuredTick = 10

// versioned are the measures in which versions are compared, beside failures.
var versioned = [...]struct {
	measure  string
	provider bool // it depends on the provider, so that only calls at the same time are compared
	of       func(*analyzer.Measured) *dist.Dist
	all, bad string // or else metrics: what is counted, and what of it is bad
}{
	{measure: "duration", provider: true, of: func(m *analyzer.Measured) *dist.Dist { return &m.Duration }},
	{measure: "first_token", provider: true, of: func(m *analyzer.Measured) *dist.Dist { return &m.FirstToken }},
	{measure: "input_tokens", of: func(m *analyzer.Measured) *dist.Dist { return &m.InputTokens }},
	{measure: "output_tokens", of: func(m *analyzer.Measured) *dist.Dist { return &m.OutputTokens }},
	{measure: "history", of: func(m *analyzer.Measured) *dist.Dist { return &m.History }},
	{measure: "cost", of: func(m *analyzer.Measured) *dist.Dist { return &m.Cost }},
	{measure: "tool_errors", all: analyzer.MetricToolReplies, bad: analyzer.MetricToolErrors},
	{measure: "cache", all: analyzer.MetricCalls, bad: analyzer.MetricCacheBroken},
}

// A versionStage is a stage in a version of its service.
type versionStage struct {
	stageKey
	version string
}

// A measuredCount is the number of calls with a value, and of those above what is usual of the stage. It saturates.
type measuredCount struct{ calls, above uint16 }

func (n *measuredCount) add(calls, above uint64) {
	n.calls = uint16(min(uint64(n.calls)+calls, math.MaxUint16))
	n.above = uint16(min(uint64(n.above)+above, math.MaxUint16))
}

// A measuredPoint is what was measured of a version in measuredTick seconds.
type measuredPoint struct {
	at uint32 // Unix seconds
	n  [len(versioned)]measuredCount
}

// countMeasured adds what a count of c says of the measures of its version.
func (s *samples) countMeasured(c *series, second int64, n *analyzer.Count) {
	version := c.labels["service_version"]
	if s.usuals == nil || c.stage == nil || version == "" || version == otherValue || n.Metric == analyzer.MetricOdd || n.Metric == analyzer.MetricCalls && n.Measured == nil {
		return
	}
	k := versionStage{stageKey{c.labels["service"], c.labels["environment"], c.labels["stage"]}, version}
	list, at := s.measured[k], uint32(second/measuredTick*measuredTick)
	i := len(list)
	for i > 0 && list[i-1].at > at { // another partition was ahead
		i--
	}
	if i == 0 || list[i-1].at < at {
		list = slices.Insert(list, i, measuredPoint{at: at})
		s.measured[k] = list
		i++
	}
	p := &list[i-1]
	for i, x := range versioned {
		switch {
		case n.Metric == x.all:
			p.n[i].add(n.N, 0)
		case n.Metric == x.bad:
			p.n[i].add(0, n.N)
		case n.Metric == analyzer.MetricCalls && x.of != nil:
			if limit := c.stage.limit(i, second/60); limit > 0 {
				d := x.of(n.Measured)
				p.n[i].add(d.N, above(d, limit))
			}
		}
	}
}

// above returns the number of values in higher buckets.
func above(d *dist.Dist, bucket int) (n uint64) {
	for _, c := range slices.Backward(d.Buckets) {
		if c.Bucket <= bucket {
			break
		}
		n += c.N
	}
	return n
}

// limit returns the bucket of the highest value of a compared measure that is usual in a minute, or 0 if it is not known.
func (s *stage) limit(i int, minute int64) int {
	if s.limitsAt != minute {
		s.limitsAt = minute
		for j, x := range versioned {
			if s.limits[j] = 0; x.of != nil {
				if u := s.watches[measureIndex(x.measure)].Baseline.At(time.Unix(60*minute, 0)); u.Basis != usual.Nothing {
					s.limits[j] = dist.Bucket(uint64(u.High))
				}
			}
		}
	}
	return s.limits[i]
}

// trimMeasured removes what is older than the window.
func (s *samples) trimMeasured(step int64) {
	for k, list := range s.measured {
		i, _ := slices.BinarySearchFunc(list, step-s.window, func(p measuredPoint, from int64) int { return int(int64(p.at) - from) })
		if list = slices.Delete(list, 0, i); len(list) == 0 {
			delete(s.measured, k)
		} else {
			s.measured[k] = list
		}
	}
}

// measuredCells returns the measures of both versions of a service from from to step, without a point that may not be complete: what was
// compared once must not change.
func (s *samples) measuredCells(service, version, baseline string, from, step int64) (cells []regression.Cell) {
	for k, list := range s.measured {
		if k.service != service || k.version != version && k.version != baseline {
			continue
		}
		for _, p := range list {
			if at := int64(p.at); at < from || at+measuredTick > step {
				continue
			}
			for i, n := range p.n {
				if n.calls == 0 {
					continue
				}
				c := regression.Counts{Calls: uint64(n.calls), Failed: uint64(min(n.above, n.calls))}
				if versioned[i].provider {
					c.Provider = c.Failed
				}
				x := regression.Cell{Environment: k.environment, Stage: k.stage, Measure: versioned[i].measure, At: int64(p.at)}
				if k.version == version {
					x.New = c
				} else {
					x.Old = c
				}
				cells = append(cells, x)
			}
		}
	}
	return cells
}
