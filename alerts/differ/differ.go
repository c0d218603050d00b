package differ

import (
	"cmp"
	"math"
	"slices"
)

const (
	// rateWeight is the weight of the share of the calls of a part that is hit, compared with the two other factors of a score.
	rateWeight = 0.1
	// furtherCost is the part of the score that each further value of the same attributes costs.
	furtherCost = 0.15
	// leastShare is the part of the change below which nothing is reported.
	leastShare = 0.05
	// maxValues bounds the values that are combined: those with the largest excess.
	maxValues = 96
	// alike is the part of the score of the best explanation from which another one is as good.
	alike = 0.9
	// maxChecked bounds the parts that are compared with better ones.
	maxChecked = 200
	// chance is the probability of a part that counts in a table in which nothing differs.
	chance = 0.05
)

// A Part is the calls that have all Values, one to three of different attributes.
type Part struct {
	Values []int // ascending
	Numbers
	Score float64
}

// A Result explains a change.
type Result struct {
	All    Numbers
	Cause  []Part  // the best explanation: one part, or several values of the same attributes
	Covers Numbers // of the calls of Cause
	Parts  []Part  // Cause, and what explains other calls, or the same calls as well; the best first
}

// params are the parameters of a search.
type params struct {
	rateWeight, furtherCost float64
}

// Find returns what differs in t, at most limit parts, or more if Cause has more.
func Find(t Table, limit int) Result { return t.find(params{rateWeight, furtherCost}, limit) }

func (t *Table) find(with params, limit int) Result {
	s := search{table: t, params: with, all: t.sum()}
	out := Result{All: s.all}
	if t.Change <= 0 {
		return out
	}
	s.choose()
	s.count = newCount(len(s.values), t.Leaves, s.leaves, leastShare*t.Change)
	parts := s.parts()
	out.Cause = s.cause(parts)
	out.Covers = s.covers(out.Cause)
	out.Parts = s.rank(parts, out.Cause, limit)
	for i := range out.Parts {
		out.Parts[i].Values = s.original(out.Parts[i].Values)
	}
	out.Cause = out.Parts[:len(out.Cause)]
	return out
}

type search struct {
	table *Table
	params
	all    Numbers
	values []int   // of the table, those that are combined
	leaves [][]int // indices of values, ascending
	count  *count
}

// choose sets the values to combine. The positive excess of the leaves with a value bounds the excess of every part that it is a
// condition of.
func (s *search) choose() {
	t := s.table
	bound := make([]float64, len(t.Attribute))
	for i := range t.Leaves {
		l := &t.Leaves[i]
		for _, v := range l.Values {
			bound[v] += l.excess()
		}
	}
	for v, x := range bound {
		if x >= leastShare*t.Change {
			s.values = append(s.values, v)
		}
	}
	slices.SortStableFunc(s.values, func(a, b int) int { return cmp.Compare(bound[b], bound[a]) })
	s.values = s.values[:min(len(s.values), maxValues)]
	slices.Sort(s.values)
	index := make([]int, len(t.Attribute))
	for i, v := range s.values {
		index[v] = i + 1
	}
	s.leaves = make([][]int, len(t.Leaves))
	for i := range t.Leaves {
		for _, v := range t.Leaves[i].Values {
			if index[v] > 0 {
				s.leaves[i] = append(s.leaves[i], index[v]-1)
			}
		}
		slices.Sort(s.leaves[i])
	}
}

func (s *search) original(values []int) []int {
	out := make([]int, len(values))
	for i, v := range values {
		out[i] = s.values[v]
	}
	return out
}

func (s *search) attribute(value int) int { return s.table.Attribute[s.values[value]] }

// score is how well the calls with these numbers explain the change.
func (s *search) score(n Numbers) float64 {
	excess := n.Excess()
	if excess <= 0 || n.Calls <= 0 {
		return 0
	}
	return excess / s.table.Change * excess / (n.Actual + 1) * math.Pow(n.Actual/(n.Calls+1), s.rateWeight)
}

// parts returns the parts that explain enough of the change, and not by chance, without those that a part with fewer conditions
// explains as well.
func (s *search) parts() []Part {
	var out []Part
	s.count.each(func(values []int, n Numbers) {
		if n.Excess() < leastShare*s.table.Change || !s.differentAttributes(values) {
			return
		}
		p := Part{values, n, s.score(n)}
		if s.certain(len(values), n) && !s.dominated(p) {
			out = append(out, p)
		}
	})
	return out
}

func (s *search) dominated(p Part) bool {
	for i := range p.Values {
		if len(p.Values) > 1 && s.score(s.count.of(slices.Delete(slices.Clone(p.Values), i, i+1))) >= p.Score {
			return true
		}
	}
	return false
}

func (s *search) differentAttributes(values []int) bool {
	for i, v := range values {
		for _, w := range values[:i] {
			if s.attribute(v) == s.attribute(w) {
				return false
			}
		}
	}
	return true
}

// cause returns the best explanation among parts: values of the same attributes, best first. A call can have several of them, such as
// tools, so each value counts only for the calls that the better ones do not have.
func (s *search) cause(parts []Part) []Part {
	by := map[[3]int][]Part{}
	var order [][3]int // fewest conditions first, so that a condition that adds nothing is left out
	for _, p := range parts {
		key := [3]int{-1, -1, -1}
		for i, v := range p.Values {
			key[i] = s.attribute(v)
		}
		slices.Sort(key[:len(p.Values)])
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], p)
	}
	slices.SortStableFunc(order, func(a, b [3]int) int { return cmp.Compare(len(by[a][0].Values), len(by[b][0].Values)) })
	several := s.several()
	var best []Part
	score := 0.0
	for _, key := range order {
		list := by[key]
		slices.SortStableFunc(list, func(a, b Part) int { return cmp.Compare(b.Score, a.Score) })
		overlap := slices.ContainsFunc(key[:], func(a int) bool { return several[a] })
		var chosen []Part
		sum := 0.0
		for _, p := range list[:min(len(list), maxChecked)] {
			if s.furtherCost*float64(len(chosen)) >= 1 {
				break // further values cost more than they add
			}
			more := p.Score
			if overlap && len(chosen) > 0 {
				if more = s.score(s.covers(append(slices.Clip(chosen), p)).Without(s.covers(chosen))); more == 0 {
					continue
				}
			}
			chosen, sum = append(chosen, p), sum+more
			if together := sum * (1 - s.furtherCost*float64(len(chosen)-1)); together > score*(1+1e-9) {
				best, score = slices.Clone(chosen), together
			}
		}
	}
	return best
}

// several returns the attributes of which a call can have several values.
func (s *search) several() map[int]bool {
	out := map[int]bool{}
	for _, values := range s.leaves {
		for i, v := range values {
			if a := s.attribute(v); slices.ContainsFunc(values[:i], func(w int) bool { return s.attribute(w) == a }) {
				out[a] = true
			}
		}
	}
	return out
}

// covers returns the numbers of the calls of parts.
func (s *search) covers(parts []Part) (n Numbers) {
	for i, values := range s.leaves {
		if slices.ContainsFunc(parts, func(p Part) bool { return containsAll(values, p.Values) }) {
			n.add(&s.table.Leaves[i])
		}
	}
	return n
}
