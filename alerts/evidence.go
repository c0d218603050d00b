package alerts

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// maxEvidence bounds the shares and the versions of one evidence.
	maxEvidence = 10
	// maxExamples bounds the examples of a series, and those of one evidence.
	maxExamples = 3
)

// addExample adds x to list, which is sorted newest first and has one example of each conversation, up to limit.
func addExample(list []*analyzer.Example, x *analyzer.Example, limit int) []*analyzer.Example {
	for i, old := range list {
		if same(old, x) {
			if old.PublishedAt > x.PublishedAt {
				return list
			}
			list = slices.Delete(list, i, i+1)
			break
		}
	}
	i, _ := slices.BinarySearchFunc(list, x, func(a, b *analyzer.Example) int {
		return cmp.Or(cmp.Compare(b.PublishedAt, a.PublishedAt), cmp.Compare(a.Exchange, b.Exchange))
	})
	list = slices.Insert(list, i, x)
	return list[:min(len(list), limit)]
}

// same reports whether a and b are of one conversation; calls without one are each their own.
func same(a, b *analyzer.Example) bool {
	return a.Exchange == b.Exchange || a.Conversation != "" && a.Conversation == b.Conversation
}

// A share is a Share with the newest examples of its calls.
type share struct {
	Share
	examples []*analyzer.Example
}

// add takes over an example of s and what it says of s. Series of several stages have ledger entries of their own; the
// earliest one is when it began.
func (s *share) add(x *analyzer.Example) {
	s.examples = addExample(s.examples, x, maxExamples)
	s.Fix = s.examples[0].Fix
	if at := time.Unix(0, x.FirstAt).UTC(); x.FirstAt > 0 && (s.FirstAt.IsZero() || at.Before(s.FirstAt)) {
		s.FirstVersion, s.FirstAt, s.LastClean = x.FirstVersion, at, x.LastClean
	}
}

// evidence counts the window of inst's rule that ends at step, and says in which second the first failed call was that
// the evaluation before had not counted. It is empty for rules that do not ask for failed calls.
func (e *Engine) evidence(inst *rules.Instance, step int64) (Evidence, time.Time) {
	ev := Evidence{Window: inst.Rule.Window}
	matches := inst.Matcher()
	if matches == nil {
		return ev, time.Time{} // the rule is not about failed calls
	}
	from := step - int64(inst.Rule.Window.Seconds())
	shares := map[[2]string]*share{}
	versions := map[string]*VersionCount{}
	var active, first int64 // the newest step that counted a failed call, and its first second
	for _, s := range e.samples.series {
		failed := s.metric == analyzer.MetricFailed
		if !failed && s.metric != analyzer.MetricCalls || !matches(s.metric, s.labels) {
			continue
		}
		n := s.between(from, step)
		if n == 0 {
			continue
		}
		name := s.labels["service_version"]
		v := versions[name]
		if v == nil {
			v = &VersionCount{Version: name, FirstSeen: e.firstSeen(s.labels["service"], name)}
			versions[name] = v
		}
		if !failed {
			ev.Calls += n
			v.Calls += n
			continue
		}
		ev.Failed += n
		v.Failed += n
		if s.active > active || s.active == active && s.first < first {
			active, first = s.active, s.first
		}
		k := [2]string{s.labels["cause"], s.labels["root_cause"]}
		if shares[k] == nil {
			shares[k] = &share{Share: Share{Cause: k[0], RootCause: k[1]}}
		}
		shares[k].Failed += n
		for _, x := range s.examples {
			shares[k].add(x)
		}
	}
	all := make([]*share, 0, len(shares))
	for _, s := range shares {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.RootCause, b.RootCause))
	})
	for _, s := range all[:min(len(all), maxEvidence)] {
		ev.Shares = append(ev.Shares, s.Share)
	}
	ev.Example, ev.More = proofs(all, ev.Failed)
	for _, v := range versions {
		ev.Versions = append(ev.Versions, *v)
	}
	slices.SortFunc(ev.Versions, func(a, b VersionCount) int {
		return cmp.Or(a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Version, b.Version))
	})
	if n := len(ev.Versions); n > maxEvidence {
		ev.Versions = ev.Versions[n-maxEvidence:] // the newest are the suspects
	}
	if first == 0 {
		return ev, time.Time{}
	}
	return ev, time.Unix(first, 0).UTC()
}

// proofs chooses the example of the largest share, and up to two more: one of each further share that matters, then
// others of the largest.
func proofs(all []*share, failed uint64) (first *analyzer.Example, more []*analyzer.Example) {
	if len(all) == 0 || len(all[0].examples) == 0 {
		return nil, nil
	}
	first = all[0].examples[0]
	take := func(x *analyzer.Example) {
		if len(more) < maxExamples-1 && !same(first, x) && !slices.ContainsFunc(more, func(y *analyzer.Example) bool { return same(x, y) }) {
			more = append(more, x)
		}
	}
	for _, s := range all[1:] {
		if len(s.examples) > 0 && float64(s.Failed) >= newShare*float64(failed) {
			take(s.examples[0])
		}
	}
	for _, x := range all[0].examples[1:] {
		take(x)
	}
	return first, more
}
