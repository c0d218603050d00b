package differ

import (
	"cmp"
	"math"
	"slices"
)

// certain reports whether the calls of a part with this number of conditions are unusual beyond chance. It is that strict because all
// parts with as many conditions are compared at once.
func (s *search) certain(conditions int, n Numbers) bool {
	return s.evidence(n) >= math.Log(float64(s.count.number[conditions-1])/chance)
}

// evidence is how certain it is that n is unusual: the negative logarithm of Chernoff's bound of the probability. What a forecast
// expects is known; what is expected of one of two sets depends on the other calls.
func (s *search) evidence(n Numbers) float64 {
	if s.table.forecast {
		return times(n.Actual, n.Expected) - n.Excess()
	}
	rest := s.all.Without(n)
	// Given the sum of both, n is binomial if the same share of both is unusual.
	return times(n.Actual, n.Expected) + times(rest.Actual, rest.Expected)
}

// times is a*ln(a/b).
func times(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a * math.Log(a/b)
}

// rank returns cause and then, up to limit parts, best first, each part that explains other calls than the better ones, or the
// same calls as well as the cause.
func (s *search) rank(parts, cause []Part, limit int) []Part {
	var out []Part
	covered := make([]bool, len(s.leaves)) // by out
	add := func(p Part) {
		out = append(out, p)
		for i, l := range s.leaves {
			covered[i] = covered[i] || containsAll(l, p.Values)
		}
	}
	for _, p := range cause {
		add(p)
	}
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(len(a.Values), len(b.Values)), slices.Compare(a.Values, b.Values))
	})
	for _, p := range parts[:min(len(parts), maxChecked)] {
		if len(out) < limit && (s.asGood(p, out) || s.explainsOther(p, covered)) {
			add(p)
		}
	}
	return out
}

// asGood reports whether p explains the change nearly as well as the best part, with other conditions than those of out.
func (s *search) asGood(p Part, out []Part) bool {
	return len(out) > 0 && p.Score >= alike*out[0].Score && !slices.ContainsFunc(out, func(o Part) bool {
		return slices.ContainsFunc(o.Values, func(v int) bool { return slices.Contains(p.Values, v) })
	})
}

// explainsOther reports whether the calls of p that are not covered are unusual, too.
func (s *search) explainsOther(p Part, covered []bool) bool {
	var rest Numbers
	for i, l := range s.leaves {
		if !covered[i] && containsAll(l, p.Values) {
			rest.add(&s.table.Leaves[i])
		}
	}
	return rest.Excess() >= leastShare*s.table.Change && s.certain(len(p.Values), rest)
}

// containsAll reports whether list contains values. Both are ascending.
func containsAll(list, values []int) bool {
	for _, v := range list {
		if len(values) > 0 && v == values[0] {
			values = values[1:]
		}
	}
	return len(values) == 0
}
