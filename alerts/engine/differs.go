package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts/differ"
	"github.com/llmtap/llmtap/analyzer"
)

// compared are the labels of calls that may say where failures occur.
var compared = [...]string{"service", "stage", "environment", "service_version", "provider", "model"}

// differs says which calls of list failed in the steps (from, step], such as those of a model, or "" if failed calls are like the
// others. A version alone is not named: the versions of the evidence say more.
func differs(list []*series, from, step int64) string {
	type place [len(compared)]string // values of the labels
	leaves := map[place]*differ.Leaf{}
	for _, c := range list {
		n := float64(c.between(from, step))
		if n == 0 {
			continue
		}
		var at place
		for i, name := range compared {
			at[i] = c.labels[name]
		}
		l := leaves[at]
		if l == nil {
			l = &differ.Leaf{}
			leaves[at] = l
		}
		if c.metric == analyzer.MetricCalls {
			l.Calls += n
		} else {
			l.Actual += n
		}
	}
	type word struct {
		attribute int
		value     string
	}
	values := map[word]int{}
	var words []word
	var attribute []int
	all := make([]differ.Leaf, 0, len(leaves))
	for _, at := range slices.SortedFunc(maps.Keys(leaves), func(a, b place) int { return slices.Compare(a[:], b[:]) }) {
		l := leaves[at]
		for i, value := range at {
			w := word{i, value}
			if _, ok := values[w]; !ok {
				values[w] = len(words)
				words, attribute = append(words, w), append(attribute, i)
			}
			if value != "" {
				l.Values = append(l.Values, values[w])
			}
		}
		l.Calls = max(l.Calls, l.Actual) // a failure may be counted in a step before its call
		all = append(all, *l)
	}
	found := differ.Find(differ.Compare(all, attribute), 1)
	var parts []string
	for _, p := range found.Cause {
		if len(p.Values) == 1 && compared[attribute[p.Values[0]]] == "service_version" {
			return ""
		}
		slices.SortFunc(p.Values, func(a, b int) int { return attribute[a] - attribute[b] })
		var conditions []string
		for _, v := range p.Values {
			conditions = append(conditions, strings.TrimPrefix(compared[attribute[v]], "service_")+" "+words[v].value)
		}
		parts = append(parts, strings.Join(conditions, " and "))
	}
	return differ.Sentence(parts, found.Covers, found.All, false)
}
