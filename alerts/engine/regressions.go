package engine

import (
	"math"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/regression"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// compareEvery is the interval between comparisons of versions, in seconds. In the first young seconds of a version, when they take
	// little time and find most, it is measuredTick.
	compareEvery, young = 30, 5 * 60
	// failuresPerFault discounts the evidence. Tallies do not say which failed calls are of one conversation, and broken
	// conversations fail again. If each fault is counted this often, its likelihood ratio has this power.
	failuresPerFault = 10
)

// A comparison of versions covers half of the window of samples after the first call of the new version, and as much before it,
// so that the increments of all its calls exist until it ends.

// compareVersions returns the evidence that the newest version of each service fails more often than the version before, or is above what
// is usual of a measure more often, by stage. It reads the increments that are there for evidence, so that a restart changes nothing.
func (s *samples) compareVersions(step int64) []Gauge {
	due := func(string) bool { return true }
	switch {
	case step-s.comparedAt >= compareEvery:
		s.comparedAt = step
	case step-s.comparedYoung >= measuredTick:
		due = s.versions.since(step - young)
	default:
		return s.compared
	}
	s.comparedYoung = step
	s.compared = slices.DeleteFunc(slices.Clone(s.compared), func(g Gauge) bool { return due(g.Labels["service"]) })
	s.trimMeasured(step)
	for service, all := range s.services {
		if !due(service) {
			continue
		}
		version, baseline, first := s.newVersion(all, service, step)
		if version == "" {
			continue
		}
		cells := cellsOf(all, version, baseline, first-s.window/2, first, step)
		cells = append(cells, s.measuredCells(service, version, baseline, first-s.window/2, step)...)
		r := regression.Compare(cells, time.Unix(first, 0), time.Unix(step, 0), 1, false)
		for _, g := range r.Groups {
			if g.Evidence <= 1 {
				continue // no series without evidence
			}
			labels := map[string]string{"service": service, "environment": g.Environment, "stage": g.Stage, "service_version": version, "baseline": baseline}
			if g.Measure != "" {
				labels["measure"], labels["direction"] = g.Measure, "high"
			}
			s.compared = append(s.compared, Gauge{rules.MetricVersionEvidence, labels, math.Pow(g.Evidence, 1.0/failuresPerFault)})
		}
	}
	return s.compared
}

// newVersion returns the version of the service whose first call is the latest and not too long ago, the other version with
// the most calls, and the tick of the first call; or "" if there are no two versions.
func (s *samples) newVersion(all map[*series]struct{}, service string, step int64) (version, baseline string, first int64) {
	newest := int64(0)
	for c := range all {
		v := c.labels["service_version"]
		if c.metric != analyzer.MetricCalls || v == "" || v == otherValue {
			continue
		}
		if at := s.versions.first[[2]string{service, v}]; at > newest || at == newest && v > version {
			newest, version = at, v
		}
	}
	if newest < step-s.window/2 {
		return "", "", 0
	}
	calls := map[string]uint64{}
	for c := range all {
		if v := c.labels["service_version"]; c.metric == analyzer.MetricCalls && v != "" && v != otherValue && v != version {
			calls[v] += c.between(step-s.window, step)
		}
	}
	most := uint64(0)
	for v, n := range calls {
		if n > most || n == most && v > baseline {
			most, baseline = n, v
		}
	}
	if baseline == "" {
		return "", "", 0
	}
	return version, baseline, newest / regression.Tick * regression.Tick
}

// cellsOf returns the calls of both versions from from to step. Calls of the new version before first do not exist.
func cellsOf(all map[*series]struct{}, version, baseline string, from, first, step int64) (cells []regression.Cell) {
	from = from / regression.Tick * regression.Tick
	byGroup := map[regression.Key][]regression.Cell{} // by tick
	for c := range all {
		isNew := c.labels["service_version"] == version
		if !isNew && c.labels["service_version"] != baseline || c.metric != analyzer.MetricCalls && c.metric != analyzer.MetricFailed {
			continue
		}
		k := regression.Key{Environment: c.labels["environment"], Stage: c.labels["stage"]}
		ticks := byGroup[k]
		if ticks == nil {
			ticks = make([]regression.Cell, (step-from)/regression.Tick+1)
			byGroup[k] = ticks
		}
		provider := regression.Provider(c.labels["cause"])
		for _, p := range c.points {
			if p.second() < from || p.second() > step || isNew && p.second() < first {
				continue
			}
			x := &ticks[(p.second()-from)/regression.Tick]
			n := &x.Old
			if isNew {
				n = &x.New
			}
			switch {
			case c.metric == analyzer.MetricCalls:
				n.Calls += uint64(p.n)
			case provider:
				n.Provider += uint64(p.n)
				fallthrough
			default:
				n.Failed += uint64(p.n)
			}
		}
	}
	for k, ticks := range byGroup {
		for i, x := range ticks {
			// A late failed call may be in another tick than its call.
			x.New.Calls, x.Old.Calls = max(x.New.Calls, x.New.Failed), max(x.Old.Calls, x.Old.Failed)
			if x.New.Calls+x.Old.Calls == 0 {
				continue
			}
			x.Environment, x.Stage, x.At = k.Environment, k.Stage, from+int64(i)*regression.Tick
			cells = append(cells, x)
		}
	}
	return cells
}
