// Package differs says what some calls have in common, and others not, from the row of the query differs. Pages, commands and coding
// agents share it.
package differs

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts/differ"
	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Query is the name of the stored query.
const Query = "differs"

// limit is the maximum number of parts.
const limit = 12

// A Result is what hit calls have more often than others, beyond chance.
type Result struct {
	Hits, Others         int64 // calls
	SomeHits, SomeOthers int64 // of them, compared
	Parts                []Part
	Cause                []Part // the first of Parts: the best explanation
	Sentence             string // about Cause; empty without one
}

// Sampled reports whether not all calls were compared.
func (r *Result) Sampled() bool { return r.SomeHits < r.Hits || r.SomeOthers < r.Others }

// A Part is the calls that meet one to three conditions.
type Part struct {
	Conditions   []Condition
	Hits, Others int64 // compared calls
	Hit, Calls   int64 // all calls; estimated if a sample was compared
}

// A Condition is a value of an attribute.
type Condition struct{ Attribute, Value string }

func (c Condition) String() string {
	return strings.TrimPrefix(c.Attribute, "attribute ") + " " + c.Value
}

func (p Part) String() string {
	list := make([]string, len(p.Conditions))
	for i, c := range p.Conditions {
		list[i] = c.String()
	}
	return strings.Join(list, " and ")
}

// first lists the attributes that are named first of those that explain the same calls. Attributes of the agent follow, and then what a
// version or a setting of the agent brings along, such as its prompt.
var first = []string{"service", "environment", "stage", "version", "provider", "model", "agent"}

// rank orders attributes: those to name first have the lowest.
func rank(attribute string) int {
	if n := slices.Index(first, attribute); n >= 0 {
		return n
	}
	if strings.HasPrefix(attribute, "attribute ") {
		return len(first)
	}
	return len(first) + 1
}

// minima are the attributes whose values are minima or maxima. A value that more than half of the other calls meet says nothing.
var minima = []string{"history", "size"}

// Of returns the result of a row, or of no row.
func Of(rows []stored.Row) *Result {
	out := &Result{}
	if len(rows) == 0 {
		return out
	}
	r := rows[0]
	out.Hits, out.Others = r.Int64("all_hits"), r.Int64("all_others")
	isHit, _ := r["is_hit"].([]uint8)
	values, _ := r["values"].([][]string)
	for _, hit := range isHit {
		if hit == 1 {
			out.SomeHits++
		}
	}
	out.SomeOthers = int64(len(isHit)) - out.SomeHits
	conditions := out.conditions(isHit, values, r.Texts("wanted_values"))
	index := make(map[string]int, len(conditions))
	attribute := make([]int, len(conditions))
	for i, c := range conditions {
		index[c.Attribute+"\n"+c.Value] = i
		attribute[i] = slices.IndexFunc(conditions, func(other Condition) bool { return other.Attribute == c.Attribute })
	}
	leaves := make([]differ.Leaf, len(isHit))
	for i, hit := range isHit {
		l := &leaves[i]
		l.Calls, l.Actual = 1, float64(hit)
		for _, text := range values[i] {
			if v, ok := index[text]; ok && !slices.Contains(l.Values, v) {
				l.Values = append(l.Values, v)
			}
		}
	}
	found := differ.Find(differ.Compare(leaves, attribute), limit)
	eachHit, eachOther := float64(r.Int64("hits_each")), float64(r.Int64("others_each"))
	estimate := func(n differ.Numbers) differ.Numbers {
		n.Actual, n.Calls = n.Actual*eachHit, n.Actual*eachHit+(n.Calls-n.Actual)*eachOther
		return n
	}
	for _, p := range found.Parts {
		n := estimate(p.Numbers)
		part := Part{Hits: int64(p.Actual), Others: int64(p.Calls - p.Actual), Hit: int64(math.Round(n.Actual)), Calls: int64(math.Round(n.Calls))}
		for _, v := range p.Values {
			part.Conditions = append(part.Conditions, conditions[v])
		}
		out.Parts = append(out.Parts, part)
	}
	out.Cause = out.Parts[:len(found.Cause)]
	words := make([]string, len(out.Cause))
	for i, p := range out.Cause {
		words[i] = p.String()
	}
	out.Sentence = differ.Sentence(words, estimate(found.Covers), estimate(found.All), out.Sampled())
	return out
}

// conditions returns the values that hit calls have more often than others, in the order in which they are named. Values that make
// calls hits say nothing.
func (r *Result) conditions(isHit []uint8, values [][]string, wanted []string) []Condition {
	type count struct{ hits, others int64 }
	counts := map[string]*count{}
	for i, hit := range isHit {
		for _, text := range values[i] {
			c := counts[text]
			if c == nil {
				c = &count{}
				counts[text] = c
			}
			if hit == 1 {
				c.hits++
			} else {
				c.others++
			}
		}
	}
	var out []Condition
	for text, c := range counts {
		attribute, value, _ := strings.Cut(text, "\n")
		chosen := slices.ContainsFunc(wanted, func(w string) bool { return strings.HasPrefix(w, strings.TrimPrefix(attribute, "attribute ")+"=") })
		trivial := slices.Contains(minima, attribute) && 2*c.others > r.SomeOthers
		rare := 20*c.hits < r.SomeHits // and too few to explain 5% of the hits
		if value != "" && !chosen && !trivial && !rare && c.hits*r.SomeOthers > c.others*r.SomeHits {
			out = append(out, Condition{attribute, value})
		}
	}
	slices.SortFunc(out, func(a, b Condition) int {
		return cmp.Or(cmp.Compare(rank(a.Attribute), rank(b.Attribute)), strings.Compare(a.Attribute, b.Attribute), strings.Compare(a.Value, b.Value))
	})
	return out
}

// A Column is a column of Table, with its type in ClickHouse.
type Column struct{ Name, Type string }

// Table returns the parts as a table: what they have in common, how many of their calls are hit, and how many of all hit calls and of
// all others they are.
func (r *Result) Table() (columns []Column, rows [][]any) {
	columns = []Column{
		{"calls_with", "String"}, {"hit_calls", "UInt64"}, {"calls", "UInt64"}, {"hit_percent", "Float64"}, {"percent_of_hit", "Float64"}, {"percent_of_others", "Float64"},
	}
	for _, p := range r.Parts {
		rows = append(rows, []any{
			p.String(), uint64(p.Hit), uint64(p.Calls), quantity.Percent(p.Hit, p.Calls), quantity.Percent(p.Hits, r.SomeHits), quantity.Percent(p.Others, r.SomeOthers),
		})
	}
	return columns, rows
}
