package regression

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// Tick is the resolution of time in seconds: the length of the shortest slice.
	Tick = 2
	// maxSlice is the length of the longest slice in seconds.
	maxSlice = 30
	// The old version is gone from a stage after goneAfter seconds without a call of it. It is too rare if it has fewer than
	// minCalls calls beside the last rareCalls new ones. The outcomes of the calls do not matter, so the rules leave the evidence
	// a martingale.
	goneAfter, rareCalls = 30, 15
	// minCalls is the number of calls of each version that ends a slice early.
	minCalls = 4
	// perNew is the number of earlier calls of the old version that a new call is compared with if the old version is gone or rare.
	perNew = 2
	// ruledOutAlpha is the error probability of Group.RuledOut.
	ruledOutAlpha = 0.05
)

// ProviderCauses are the causes that no version of the caller determines.
var ProviderCauses = []string{"billing", "content_policy", "model_tool_call_invalid", "no_response", "rate_limit", "server_error", "stream_error"}

// Provider reports whether a cause is one of ProviderCauses.
func Provider(cause string) bool { return slices.Contains(ProviderCauses, cause) }

// Counts are the calls of a version in a Cell. Only trials are counted, see the documentation of the package.
type Counts struct {
	Calls    uint64
	Failed   uint64 // of Calls
	Provider uint64 // of Failed: faults of the provider or the network; of durations all, as providers are slow at times
}

func (c *Counts) add(d Counts) {
	c.Calls += d.Calls
	c.Failed += d.Failed
	c.Provider += d.Provider
}

// own returns the counts without the faults of the provider.
func (c Counts) own() Counts {
	return Counts{Calls: c.Calls - c.Provider, Failed: c.Failed - c.Provider}
}

// A Cell contains the calls of one stage at one time and about the same position in their conversations.
type Cell struct {
	Environment, Stage string
	// Measure is "" if Counts has failures. Of a measure, such as the duration, it counts as failed what is above the usual: the 95th
	// percentile of the old version before.
	Measure  string
	Position int
	At       int64 // Unix seconds, a multiple of Tick
	New, Old Counts
}

// A Key names a group: failures, or a measure, of a stage in an environment.
type Key struct{ Environment, Stage, Measure string }

// A Group is the comparison of one stage.
type Group struct {
	Key
	New, Old Counts // the compared calls
	// Before is the number of new calls that are compared with earlier calls of the old version, because it had too few at the
	// same time.
	Before   uint64
	Evidence float64 // highest so far; the evidence of all groups together decides
	RuledOut float64 // smallest odds ratio that the compared calls rule out at 95 %, or 0
}

// A Result is the result of Compare.
type Result struct {
	Groups   []Group
	Evidence float64 // highest so far
	// Worse reports whether the evidence reached 1/alpha, the end of the tick in which it did, and the number of new calls
	// before that time, compared or not.
	Worse   bool
	WorseAt time.Time
	Calls   uint64
}

// Position returns the position of the n-th call of a conversation for Cell. The first call is 1.
func Position(n int) int { return min(4, int(math.Ceil(math.Log2(float64(max(n, 1)))))) }

// Compare compares the versions in cells, which may be in any order. Cells before start contain the calls of the old version
// that new calls are compared with if there are no others. start is a multiple of Tick, and the last tick ends at or before end. If final is set, the calls that
// are not in a complete slice yet are compared too; no later Compare may then continue the test. measures are those that cells may have:
// half of the weight is that of failures, and they share the rest.
func Compare(cells []Cell, start, end time.Time, alpha float64, final bool, measures ...string) Result {
	c := &comparison{alpha: alpha, measures: float64(len(measures)), order: map[string][]*group{}, groups: map[Key]*group{}, strata: map[stratumKey]*stratum{}}
	cells = slices.Clone(cells)
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Position, b.Position))
	})
	i := 0
	for ; i < len(cells) && cells[i].At < start.Unix(); i++ {
		c.add(&cells[i], false)
	}
	// Ticks without calls also end slices, so that the slices of an earlier look are those of a later one.
	for at := start.Unix(); at+Tick <= end.Unix(); at += Tick {
		for ; i < len(cells) && cells[i].At <= at; i++ {
			c.add(&cells[i], true)
		}
		c.closeSlices(at+Tick, false)
	}
	if final {
		c.closeSlices(end.Unix(), true)
	}
	return c.result()
}

type stratumKey struct {
	Key
	position int
}

// A stratum is the calls of one group and position.
type stratum struct {
	group  *group
	opened int64  // start of the open slice
	new    Counts // in the open slice
	old    Counts
	before []Counts // of the old version, by time, not compared yet
}

type group struct {
	Group
	test    Test
	lastOld int64 // time of the last call of the old version
	recent  []versions
}

// versions are the calls of both versions in a tick.
type versions struct{ at, new, old int64 }

// count counts the calls of a cell. recent are the last ticks with at least rareCalls new calls.
func (g *group) count(x *Cell) {
	if x.Old.Calls > 0 {
		g.lastOld = x.At
	}
	if n := len(g.recent); n == 0 || g.recent[n-1].at != x.At {
		g.recent = append(g.recent, versions{at: x.At})
	}
	last := &g.recent[len(g.recent)-1]
	last.new += int64(x.New.Calls)
	last.old += int64(x.Old.Calls)
	n := int64(0)
	for i := len(g.recent) - 1; i > 0; i-- {
		if n += g.recent[i].new; n >= rareCalls {
			g.recent = slices.Delete(g.recent, 0, i)
			break
		}
	}
}

// withoutOld reports whether the old version is gone or rare at now.
func (g *group) withoutOld(now int64) bool {
	var n, o int64
	for _, v := range g.recent {
		n += v.new
		o += v.old
	}
	return now-g.lastOld > goneAfter || n >= rareCalls && o < minCalls
}

// A comparison is the state of Compare.
type comparison struct {
	alpha    float64
	measures float64 // number of measures besides failures
	groups   map[Key]*group
	order    map[string][]*group // by measure, and then by time of their first compared slice
	strata   map[stratumKey]*stratum
	keys     []stratumKey // of strata, in order of appearance, so that the result is deterministic
	r        Result
	calls    uint64
}

func (c *comparison) add(x *Cell, started bool) {
	g := Key{x.Environment, x.Stage, x.Measure}
	k := stratumKey{g, x.Position}
	s := c.strata[k]
	if s == nil {
		if c.groups[g] == nil {
			c.groups[g] = &group{Group: Group{Key: g}}
			if x.Measure != "" {
				c.groups[g].test.tolerance = measureTolerance
			}
		}
		s = &stratum{group: c.groups[g]}
		c.strata[k] = s
		c.keys = append(c.keys, k)
	}
	s.group.count(x)
	if !started {
		s.before = append(s.before, x.Old)
		return
	}
	if s.new.Calls+s.old.Calls == 0 {
		s.opened = x.At
	}
	s.new.add(x.New)
	s.old.add(x.Old)
	if x.Measure == "" {
		c.calls += x.New.Calls
	}
}

// closeSlices compares the calls of the slices that are complete at now, or of all slices.
func (c *comparison) closeSlices(now int64, all bool) {
	for _, k := range c.keys {
		s := c.strata[k]
		enough := s.new.Calls >= minCalls && s.old.Calls >= minCalls
		earlier := s.old.Calls < minCalls && s.group.withoutOld(now)
		switch {
		case s.new.Calls+s.old.Calls == 0:
		case enough, earlier && s.new.Calls >= minCalls, now-s.opened >= maxSlice, all:
			c.compare(s, earlier)
			s.new, s.old = Counts{}, Counts{}
		}
	}
	e, rest := 0.0, 1.0
	for _, measure := range slices.Sorted(maps.Keys(c.order)) { // rounding must not depend on chance
		order := c.order[measure]
		for i, g := range order {
			// The weights of the groups sum up to 1, and do not change when another group appears: E stays a martingale.
			w := c.weight(measure) / float64((i+1)*(i+2))
			e += w * g.test.Evidence()
			rest -= w
			g.Evidence = max(g.Evidence, g.test.Evidence())
		}
	}
	e += rest
	c.r.Evidence = max(c.r.Evidence, e)
	if e >= 1/c.alpha && !c.r.Worse {
		c.r.Worse, c.r.WorseAt, c.r.Calls = true, time.Unix(now, 0).UTC(), c.calls
	}
}

// weight returns the weight of failures, or of a measure, in the evidence.
func (c *comparison) weight(measure string) float64 {
	switch {
	case c.measures == 0:
		return 1
	case measure == "":
		return 0.5
	}
	return 0.5 / c.measures
}

// compare compares the calls of the open slice of s, with earlier calls if there are not enough calls of the old version.
func (c *comparison) compare(s *stratum, earlier bool) {
	n, o := s.new, s.old
	switch {
	case n.Calls == 0: // they serve later calls if the old version is then gone
		s.before = append(s.before, o)
		return
	case earlier:
		s.before = append(s.before, o)
		n = n.own()
		o = s.take(n.Calls * perNew)
	}
	if n.Calls == 0 || o.Calls == 0 {
		return
	}
	g := s.group
	if g.New.Calls == 0 {
		c.order[g.Measure] = append(c.order[g.Measure], g)
	}
	g.New.add(n)
	g.Old.add(o)
	if earlier {
		g.Before += n.Calls
	}
	g.test.Add(Slice{n.Calls, n.Failed, o.Calls, o.Failed})
}

// take removes the newest calls of the old version, whole ticks until there are at least calls of them, and returns them
// without the faults of the provider.
func (s *stratum) take(calls uint64) (sum Counts) {
	for len(s.before) > 0 && sum.Calls < calls {
		last := len(s.before) - 1
		sum.add(s.before[last].own())
		s.before = s.before[:last]
	}
	return sum
}

func (c *comparison) result() Result {
	r := c.r
	if !r.Worse {
		r.Calls = c.calls
	}
	for _, order := range c.order {
		for _, g := range order {
			g.RuledOut = g.test.RuledOut(ruledOutAlpha)
			r.Groups = append(r.Groups, g.Group)
		}
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Evidence, a.Evidence), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Measure, b.Measure))
	})
	return r
}
