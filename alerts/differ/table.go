package differ

// A Leaf is the calls with the same values.
type Leaf struct {
	Values   []int   // indices of different values; a call may have several of an attribute, such as tools
	Calls    float64 // number
	Actual   float64 // of what is unusual: failed calls, or the sum of a measure
	Expected float64 // of the same
}

// excess is a bound of what the leaf adds to the excess of a part.
func (l *Leaf) excess() float64 { return max(0, l.Actual-l.Expected) }

// A Table is calls by their values.
type Table struct {
	Leaves    []Leaf
	Attribute []int   // of each value
	Change    float64 // what is to be explained
	forecast  bool    // Expected does not depend on the other leaves
}

// forecast returns the table of leaves whose Expected is a forecast. The change is what it does not foresee, of all calls or, if less
// than expected happened to the others, of those with a value.
func forecast(leaves []Leaf, attribute []int) Table {
	t := Table{Leaves: leaves, Attribute: attribute, forecast: true}
	t.Change = t.sum().Excess()
	excess := make([]float64, len(attribute))
	for i := range leaves {
		for _, v := range leaves[i].Values {
			excess[v] += leaves[i].Actual - leaves[i].Expected
		}
	}
	for _, x := range excess {
		t.Change = max(t.Change, x)
	}
	return t
}

// Compare returns the table of two sets of calls: Actual of a leaf are its calls that belong to the first set. It sets Expected to
// the share that the first set has in all calls. The change is the number of calls of the first set beyond it if no leaf had calls
// of both.
func Compare(leaves []Leaf, attribute []int) Table {
	t := Table{Leaves: leaves, Attribute: attribute}
	sum := t.sum()
	if sum.Calls == 0 {
		return t
	}
	share := sum.Actual / sum.Calls
	for i := range leaves {
		leaves[i].Expected = leaves[i].Calls * share
	}
	t.Change = sum.Actual * (1 - share)
	return t
}

func (t *Table) sum() Numbers {
	var n Numbers
	for i := range t.Leaves {
		n.add(&t.Leaves[i])
	}
	return n
}

// Numbers are those of some calls.
type Numbers struct{ Calls, Actual, Expected float64 }

func (n *Numbers) add(l *Leaf) {
	n.Calls += l.Calls
	n.Actual += l.Actual
	n.Expected += l.Expected
}

// Without returns the numbers of the calls of n that are not in m, a part of them.
func (n Numbers) Without(m Numbers) Numbers {
	return Numbers{max(0, n.Calls-m.Calls), max(0, n.Actual-m.Actual), max(0, n.Expected-m.Expected)}
}

// Excess is what is not expected.
func (n Numbers) Excess() float64 { return n.Actual - n.Expected }

// A count has the numbers of the calls with each combination of one to three of n values. Values are ascending.
type count struct {
	ones, pairs, triples []Numbers
	number               [3]int // of combinations with calls
}

// newCount counts leaves, which have these of n values. Pairs whose leaves have less excess than least are in no triple.
func newCount(n int, leaves []Leaf, values [][]int, least float64) *count {
	c := &count{ones: make([]Numbers, n), pairs: make([]Numbers, n*(n-1)/2), triples: make([]Numbers, n*(n-1)*(n-2)/6)}
	bound := make([]float64, len(c.pairs))
	for x := range leaves {
		l := &leaves[x]
		for b, j := range values[x] {
			c.ones[j].add(l)
			for _, i := range values[x][:b] {
				c.pairs[pair(i, j)].add(l)
				bound[pair(i, j)] += l.excess()
			}
		}
	}
	for x := range leaves {
		l := &leaves[x]
		for b, j := range values[x] {
			for a, i := range values[x][:b] {
				if bound[pair(i, j)] < least {
					continue
				}
				for _, h := range values[x][:a] {
					if bound[pair(h, i)] >= least && bound[pair(h, j)] >= least {
						c.triples[triple(h, i, j)].add(l)
					}
				}
			}
		}
	}
	for i, list := range [][]Numbers{c.ones, c.pairs, c.triples} {
		for _, n := range list {
			if n.Calls > 0 {
				c.number[i]++
			}
		}
	}
	return c
}

func pair(i, j int) int      { return j*(j-1)/2 + i }
func triple(i, j, k int) int { return k*(k-1)*(k-2)/6 + pair(i, j) }

func (c *count) of(values []int) Numbers {
	switch len(values) {
	case 1:
		return c.ones[values[0]]
	case 2:
		return c.pairs[pair(values[0], values[1])]
	}
	return c.triples[triple(values[0], values[1], values[2])]
}

// each calls f with each combination that has calls.
func (c *count) each(f func(values []int, n Numbers)) {
	for k := range c.ones {
		f([]int{k}, c.ones[k])
		for j := range k {
			if c.pairs[pair(j, k)].Calls == 0 {
				continue
			}
			f([]int{j, k}, c.pairs[pair(j, k)])
			for i := range j {
				if n := c.triples[triple(i, j, k)]; n.Calls > 0 {
					f([]int{i, j, k}, n)
				}
			}
		}
	}
}
