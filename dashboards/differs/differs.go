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
)

// Query is the name of the stored query.
const Query = "differs"

// Limit is the maximum number of parts.
const Limit = 12

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

// inOrder returns the indices of attributes, those to name first at the front.
func inOrder(attributes []string) []int {
	rank := func(i int) int {
		if n := slices.Index(first, attributes[i]); n >= 0 {
			return n
		}
		if strings.HasPrefix(attributes[i], "attribute ") {
			return len(first)
		}
		return len(first) + 1
	}
	order := make([]int, len(attributes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// Of returns the result of a row, or of no row.
func Of(rows []stored.Row) *Result {
	out := &Result{}
	if len(rows) == 0 {
		return out
	}
	r := rows[0]
	out.Hits, out.Others = r.Int64("all_hits"), r.Int64("all_others")
	names, values := r.Texts("attributes"), r.Texts("values")
	order := inOrder(names)
	attribute := make([]int, len(names))
	for i, v := range order {
		attribute[i] = slices.Index(names, names[v])
	}
	masks, hits, others := r.Numbers("masks"), r.Numbers("leaf_hits"), r.Numbers("leaf_others")
	leaves := make([]differ.Leaf, len(masks))
	for i, mask := range masks {
		l := &leaves[i]
		l.Calls, l.Actual = float64(hits[i]+others[i]), float64(hits[i])
		out.SomeHits += int64(hits[i])
		out.SomeOthers += int64(others[i])
		for j, v := range order {
			if mask>>(v+1)&1 == 1 {
				l.Values = append(l.Values, j)
			}
		}
	}
	found := differ.Find(differ.Compare(leaves, attribute), Limit)
	eachHit, eachOther := float64(r.Int64("hits_each")), float64(r.Int64("others_each"))
	estimate := func(n differ.Numbers) differ.Numbers {
		n.Actual, n.Calls = n.Actual*eachHit, n.Actual*eachHit+(n.Calls-n.Actual)*eachOther
		return n
	}
	for _, p := range found.Parts {
		n := estimate(p.Numbers)
		part := Part{Hits: int64(p.Actual), Others: int64(p.Calls - p.Actual), Hit: int64(math.Round(n.Actual)), Calls: int64(math.Round(n.Calls))}
		for _, v := range p.Values {
			part.Conditions = append(part.Conditions, Condition{names[order[v]], values[order[v]]})
		}
		out.Parts = append(out.Parts, part)
	}
	out.Cause = out.Parts[:len(found.Cause)]
	words := make([]string, len(out.Cause))
	for i, p := range out.Cause {
		words[i] = p.String()
	}
	out.Sentence = differ.Sentence(words, estimate(found.Covers()), estimate(found.All), out.Sampled())
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
			p.String(), uint64(p.Hit), uint64(p.Calls), percent(p.Hit, p.Calls), percent(p.Hits, r.SomeHits), percent(p.Others, r.SomeOthers),
		})
	}
	return columns, rows
}

// percent returns a share with one decimal.
func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(1000*float64(part)/float64(whole)) / 10
}
