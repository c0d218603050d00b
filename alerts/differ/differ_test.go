package differ

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// calls are leaves under construction. A value is attribute=value.
type calls struct {
	names     []string
	attribute []int
	leaves    []Leaf
}

func (c *calls) add(n, actual float64, values ...string) {
	l := Leaf{Calls: n, Actual: actual}
	for _, v := range values {
		i := slices.Index(c.names, v)
		if i < 0 {
			i = len(c.names)
			name, _, _ := strings.Cut(v, "=")
			same := slices.IndexFunc(c.names, func(other string) bool { return strings.HasPrefix(other, name+"=") })
			c.names = append(c.names, v)
			if c.attribute = append(c.attribute, i); same >= 0 {
				c.attribute[i] = c.attribute[same]
			}
		}
		l.Values = append(l.Values, i)
	}
	c.leaves = append(c.leaves, l)
}

func (c *calls) text(list []Part) string {
	var parts []string
	for _, p := range list {
		var conditions []string
		for _, v := range p.Values {
			conditions = append(conditions, c.names[v])
		}
		slices.Sort(conditions)
		parts = append(parts, fmt.Sprintf("%s: %.0f of %.0f", strings.Join(conditions, " and "), p.Actual, p.Calls))
	}
	return strings.Join(parts, "\n")
}

func TestCompare(t *testing.T) {
	f := func(want string, add func(c *calls)) {
		t.Helper()
		var c calls
		add(&c)
		r := Find(Compare(c.leaves, c.attribute), 12)
		must.Equal(t, c.text(r.Parts), want, "parts")
	}
	f("", func(*calls) {})
	f("", func(c *calls) { c.add(10, 10, "model=a") }) // nothing to compare with
	f("", func(c *calls) { c.add(10, 0, "model=a") })
	// A model in a region, while the model fails nowhere else, and other models do not fail in the region.
	f("model=mini and region=eu: 96 of 98", func(c *calls) {
		for _, model := range []string{"mini", "large", "old"} {
			for _, region := range []string{"eu", "us"} {
				if model == "mini" && region == "eu" {
					c.add(98, 96, "model=mini", "region=eu", "history=3 or more")
					continue
				}
				c.add(300, 1, "model="+model, "region="+region, "history=3 or more")
				c.add(50, 0, "model="+model, "region="+region)
			}
		}
	})
	// Three conditions.
	f("model=mini and region=eu and tool=search: 60 of 60", func(c *calls) {
		for i := range 8 {
			values := []string{[]string{"model=mini", "model=large"}[i&1], []string{"region=eu", "region=us"}[i>>1&1], []string{"tool=search", "tool=read"}[i>>2]}
			c.add(60, []float64{60, 0, 0, 0, 0, 0, 0, 0}[i], values...)
		}
	})
	// Values that came together explain the same calls. Their pair says no more.
	f("version=2: 50 of 60\nprompt=b: 50 of 60", func(c *calls) {
		c.add(60, 50, "version=2", "prompt=b")
		c.add(500, 2, "version=1", "prompt=a")
	})
	// Two models, and another cause.
	f("model=a: 100 of 110\nmodel=b: 90 of 100\ntenant=acme: 30 of 40", func(c *calls) {
		c.add(110, 100, "model=a", "tenant=x")
		c.add(100, 90, "model=b", "tenant=x")
		c.add(40, 30, "model=c", "tenant=acme")
		c.add(1000, 5, "model=c", "tenant=x")
		c.add(1000, 5, "model=d", "tenant=x")
	})
	// Two of three failed calls are chance.
	f("", func(c *calls) {
		c.add(3, 2, "model=a")
		c.add(100, 10, "model=b")
	})
}

// A value that a of n calls of the first set have, and b of m others.
func TestOneValue(t *testing.T) {
	f := func(a, n, b, m float64, want bool) {
		t.Helper()
		var c calls
		c.add(a+b, a, "x=1")
		c.add(n+m-a-b, n-a, "x=2")
		must.Equal(t, strings.HasPrefix(c.text(Find(Compare(c.leaves, c.attribute), 12).Parts), "x=1"), want, "%v of %v against %v of %v", a, n, b, m)
	}
	f(103, 103, 5, 125, true)
	f(6, 6, 12, 232, true)
	f(3, 3, 1, 100, true)
	f(2, 2, 5, 10, false)
	f(5200, 10000, 5000, 10000, false) // certain, but of no help
	f(1, 10, 9, 10, false)
	f(0, 0, 1, 2, false)
	f(1, 2, 0, 0, false)
}

// A call counts once, however many of the values it has.
func TestSeveralValues(t *testing.T) {
	f := func(want string, covers Numbers, add func(c *calls)) {
		t.Helper()
		var c calls
		add(&c)
		r := Find(Compare(c.leaves, c.attribute), 12)
		must.Equal(t, c.text(r.Cause), want, "cause")
		covers.Expected = r.Covers.Expected
		must.Equal(t, r.Covers, covers, "numbers")
	}
	f("tool=a: 103 of 103", Numbers{Calls: 103, Actual: 103}, func(c *calls) {
		c.add(103, 103, "tool=a", "tool=b")
		c.add(126, 0, "tool=c")
	})
	f("tool=a: 60 of 60\ntool=b: 60 of 60", Numbers{Calls: 110, Actual: 110}, func(c *calls) {
		c.add(50, 50, "tool=a")
		c.add(50, 50, "tool=b")
		c.add(10, 10, "tool=a", "tool=b")
		c.add(500, 0, "tool=c")
	})
}

func TestSentence(t *testing.T) {
	f := func(want string, in, all Numbers, sample bool, parts ...string) {
		t.Helper()
		must.Equal(t, Sentence(parts, in, all, sample), want, "sentence")
	}
	all := Numbers{Calls: 5000, Actual: 100}
	f("only model mini and region eu: 96 of 98 calls; 4 of 4,902 others", Numbers{Calls: 98, Actual: 96}, all, false, "model mini and region eu")
	f("mostly model a, or model b: about 60 of 80 calls; about 40 of 4,920 others", Numbers{Calls: 80, Actual: 60}, all, true, "model a", "model b")
	f("more often tool x: 30 of 80 calls; 70 of 4,920 others", Numbers{Calls: 80, Actual: 30}, all, false, "tool x")
	f("", Numbers{}, all, false)
}

func TestForecast(t *testing.T) {
	// Calls of a model become slower: sums of seconds, which are no shares of calls.
	var c calls
	for i := range 8 {
		model, region, stage := fmt.Sprint("model=", i&1), fmt.Sprint("region=", i>>1&1), fmt.Sprint("stage=", i>>2)
		c.add(100, 300, model, region, stage)
		c.leaves[i].Expected = 290
		if i&3 == 3 {
			c.leaves[i].Actual = 900
		}
	}
	r := Find(forecast(c.leaves, c.attribute), 12)
	must.Equal(t, c.text(r.Cause), "model=1 and region=1: 1800 of 200", "cause")
	// Fewer failures than expected, but not everywhere.
	c = calls{}
	c.add(1000, 10, "model=a")
	c.add(100, 60, "model=b")
	c.leaves[0].Expected, c.leaves[1].Expected = 200, 2
	r = Find(forecast(c.leaves, c.attribute), 12)
	must.Equal(t, c.text(r.Cause), "model=b: 60 of 100", "cause")
}

// Attributes that have nothing to do with the failures are hardly ever reported, however many there are.
func TestChance(t *testing.T) {
	const runs, attributes, calls = 20, 30, 3000
	r := rand.New(rand.NewPCG(1, 2))
	wrong := 0
	for range runs {
		var leaves []Leaf
		var attribute []int
		for v := range attributes * 5 {
			attribute = append(attribute, v/5)
		}
		for range calls {
			l := Leaf{Calls: 1}
			for a := range attributes {
				l.Values = append(l.Values, 5*a+r.IntN(5))
			}
			if r.IntN(20) == 0 {
				l.Actual = 1
			}
			leaves = append(leaves, l)
		}
		if len(Find(Compare(leaves, attribute), 12).Parts) > 0 {
			wrong++
		}
	}
	t.Logf("%d of %d tables of %d calls with %d attributes of chance have a cause", wrong, runs, calls, attributes)
	if wrong > runs/10 {
		t.Errorf("chance is reported in %d of %d tables", wrong, runs)
	}
}

// Leaves of a single call with many attributes are the most that a page compares.
func TestFindTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const attributes, values = 20, 5
	var leaves []Leaf
	var attribute []int
	for v := range attributes * values {
		attribute = append(attribute, v/values)
	}
	for range 40000 {
		l := Leaf{Calls: 1}
		for a := range attributes {
			l.Values = append(l.Values, values*a+r.IntN(values))
		}
		if l.Values[3]+l.Values[7] == 3*values+7*values || r.IntN(100) == 0 {
			l.Actual = 1
		}
		leaves = append(leaves, l)
	}
	table := Compare(leaves, attribute)
	began := time.Now()
	found := Find(table, 12)
	t.Logf("%d leaves with %d attributes: %v", len(leaves), attributes, time.Since(began))
	must.Equal(t, fmt.Sprint(found.Cause[0].Values), fmt.Sprint([]int{3 * values, 7 * values}), "cause")
}

// Causes of one to three conditions are found exactly in calls with many other attributes, whatever the share of calls that fail.
func TestExact(t *testing.T) {
	const runs, attributes, values, n = 10, 12, 4, 4000
	r := rand.New(rand.NewPCG(3, 4))
	for conditions := 1; conditions <= 3; conditions++ {
		for _, rate := range []float64{0.3, 0.6, 0.95} {
			exact, none := 0, 0
			for range runs {
				var leaves []Leaf
				var attribute []int
				for v := range attributes * values {
					attribute = append(attribute, v/values)
				}
				for range n {
					l := Leaf{Calls: 1}
					hit := true
					for a := range attributes {
						v := min(r.IntN(values), r.IntN(values)) // some values are more frequent
						l.Values = append(l.Values, values*a+v)
						hit = hit && (a >= conditions || v == 1)
					}
					if hit && r.Float64() < rate || r.Float64() < 0.01 {
						l.Actual = 1
					}
					leaves = append(leaves, l)
				}
				cause := Find(Compare(leaves, attribute), 12).Cause
				switch {
				case len(cause) == 0:
					none++
				case len(cause) == 1 && slices.Equal(cause[0].Values, []int{1, values + 1, 2*values + 1}[:conditions]):
					exact++
				}
			}
			if exact < runs-1 {
				t.Errorf("%d conditions, share %v: %d of %d are found exactly, %d not at all", conditions, rate, exact, runs, none)
			}
			t.Logf("%d conditions, %.0f%% of the calls fail: %d of %d are found exactly, %d not at all", conditions, 100*rate, exact, runs, none)
		}
	}
}

// A version that fails with long histories only is no cause without them, and one that always fails is a cause without a history.
func TestCondition(t *testing.T) {
	attribute := []int{0, 0, 1} // two versions, and a long history
	f := func(failed float64, want []int) {
		t.Helper()
		r := Find(Compare([]Leaf{
			{Values: []int{0}, Calls: 5}, {Values: []int{0, 2}, Calls: 6}, {Values: []int{1}, Calls: 115, Actual: failed}, {Values: []int{1, 2}, Calls: 103, Actual: 103},
		}, attribute), 1)
		must.Equal(t, fmt.Sprint(r.Cause[0].Values), fmt.Sprint(want), "cause if %g of the short ones fail", failed)
	}
	f(0, []int{1, 2})
	f(115, []int{1})
}
