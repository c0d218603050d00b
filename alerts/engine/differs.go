package engine

import (
	"slices"
	"strings"

	"github.com/llmtap/llmtap/alerts/differ"
	"github.com/llmtap/llmtap/analyzer"
)

// compared are the labels of calls that may say where failures occur.
var compared = []string{"service", "stage", "environment", "service_version", "provider", "model"}

// differs says which calls of list failed in the steps (from, step], such as those of a model, or "" if failed calls are like the
// others. A version alone is not named: the versions of the evidence say more.
func differs(list []*series, from, step int64) string {
	leaves := map[string]*differ.Leaf{}
	values := map[[2]string]int{}
	var words [][2]string
	var attribute []int
	var order []string
	for _, c := range list {
		n := float64(c.between(from, step))
		if n == 0 {
			continue
		}
		labels := make([]string, len(compared))
		for i, name := range compared {
			labels[i] = c.labels[name]
		}
		key := strings.Join(labels, "\x00")
		l := leaves[key]
		if l == nil {
			l = &differ.Leaf{}
			for i, name := range compared {
				word := [2]string{name, labels[i]}
				if _, ok := values[word]; !ok {
					values[word] = len(words)
					words, attribute = append(words, word), append(attribute, i)
				}
				if word[1] != "" {
					l.Values = append(l.Values, values[word])
				}
			}
			leaves[key], order = l, append(order, key)
		}
		if c.metric == analyzer.MetricCalls {
			l.Calls += n
		} else {
			l.Actual += n
		}
	}
	slices.Sort(order)
	all := make([]differ.Leaf, 0, len(order))
	for _, key := range order {
		l := leaves[key]
		l.Calls = max(l.Calls, l.Actual) // a failure may be counted in a step before its call
		all = append(all, *l)
	}
	found := differ.Find(differ.Compare(all, attribute), 1)
	var parts []string
	for _, p := range found.Cause {
		if len(p.Values) == 1 && words[p.Values[0]][0] == "service_version" {
			return ""
		}
		var conditions []string
		for _, v := range p.Values {
			conditions = append(conditions, strings.TrimPrefix(words[v][0], "service_")+" "+words[v][1])
		}
		parts = append(parts, strings.Join(conditions, " and "))
	}
	return differ.Sentence(parts, found.Covers, found.All, false)
}
