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
	// maxExamples bounds the examples of a series and of one evidence.
	maxExamples = 3
)

// insertExample inserts x into list and returns the list: at most maxExamples, one per conversation, newest first.
func insertExample(list []*analyzer.Example, x *analyzer.Example) []*analyzer.Example {
	for i, old := range list {
		if sameConversation(old, x) {
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
	return list[:min(len(list), maxExamples)]
}

// sameConversation reports whether a and b belong to the same conversation. A call without a conversation belongs to
// none but its own.
func sameConversation(a, b *analyzer.Example) bool {
	return a.Exchange == b.Exchange || a.Conversation != "" && a.Conversation == b.Conversation
}

// A share is a Share with the newest examples of its calls.
type share struct {
	Share
	examples []*analyzer.Example
}

// add adds an example and its ledger entry to s. Series of different stages have different entries; the earliest entry
// is used.
func (s *share) add(x *analyzer.Example) {
	s.examples = insertExample(s.examples, x)
	s.Fix = s.examples[0].Fix
	if at := time.Unix(0, x.FirstAt).UTC(); x.FirstAt > 0 && (s.FirstAt.IsZero() || at.Before(s.FirstAt)) {
		s.FirstVersion, s.FirstAt, s.LastClean = x.FirstVersion, at, x.LastClean
	}
}

// evidence returns the evidence for inst from the window of its rule that ends at step, and the second of the first
// failed call that the previous evaluation did not include. Both are empty for rules that do not query failed calls.
func (s *samples) evidence(inst *rules.Instance, step int64) (ev Evidence, triggered time.Time) {
	ev.Window = inst.Rule.Window
	matches := inst.Matcher()
	if matches == nil {
		return ev, triggered
	}
	from := step - int64(ev.Window.Seconds())
	shares := map[[2]string]*share{}
	versions := map[string]*VersionCount{}
	var active, first int64 // the newest step with a failed call, and the second of the first failed call in it
	for _, c := range s.series {
		failed := c.metric == analyzer.MetricFailed
		if !failed && c.metric != analyzer.MetricCalls || !matches(c.metric, c.labels) {
			continue
		}
		n := c.between(from, step)
		if n == 0 {
			continue
		}
		name := c.labels["service_version"]
		v := versions[name]
		if v == nil {
			v = &VersionCount{Version: name, FirstSeen: s.versions.firstSeen(c.labels["service"], name)}
			versions[name] = v
		}
		if !failed {
			ev.Calls += n
			v.Calls += n
			continue
		}
		ev.Failed += n
		v.Failed += n
		if c.active > active || c.active == active && c.first < first {
			active, first = c.active, c.first
		}
		k := [2]string{c.labels["cause"], c.labels["root_cause"]}
		if shares[k] == nil {
			shares[k] = &share{Share: Share{Cause: k[0], RootCause: k[1]}}
		}
		shares[k].Failed += n
		for _, x := range c.examples {
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
	ev.chooseExamples(all)
	for _, v := range versions {
		ev.Versions = append(ev.Versions, *v)
	}
	slices.SortFunc(ev.Versions, func(a, b VersionCount) int {
		return cmp.Or(a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Version, b.Version))
	})
	if n := len(ev.Versions); n > maxEvidence {
		ev.Versions = ev.Versions[n-maxEvidence:] // the newest are the suspects
	}
	if first > 0 {
		triggered = time.Unix(first, 0).UTC()
	}
	return ev, triggered
}

// chooseExamples sets Example and More from all, the shares in descending order.
func (ev *Evidence) chooseExamples(all []*share) {
	if len(all) == 0 || len(all[0].examples) == 0 {
		return
	}
	ev.Example = all[0].examples[0]
	add := func(x *analyzer.Example) {
		same := func(y *analyzer.Example) bool { return sameConversation(x, y) }
		if len(ev.More) < maxExamples-1 && !same(ev.Example) && !slices.ContainsFunc(ev.More, same) {
			ev.More = append(ev.More, x)
		}
	}
	for _, s := range all[1:] {
		if len(s.examples) > 0 && ev.Material(s.Failed) {
			add(s.examples[0])
		}
	}
	for _, x := range all[0].examples[1:] {
		add(x)
	}
}
