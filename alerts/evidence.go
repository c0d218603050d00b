package alerts

import (
	"cmp"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer"
)

// maxEvidence bounds the shares and the versions of one evidence.
const maxEvidence = 10

// narrow lists what a series must have to be counted for the instance: its tally labels, and the absence of those
// that the expression groups by and the instance lacks.
func (inst *instance) narrow() [][2]string {
	var out [][2]string
	for _, l := range tallyLabels {
		if v, ok := inst.series[l]; ok || slices.Contains(inst.rule.grouping, l) {
			out = append(out, [2]string{l, v})
		}
	}
	return out
}

// matches reports whether s has the labels of narrow and what the expression's selector of its metric asks.
func (inst *instance) matches(s *series, narrow [][2]string) bool {
	for _, l := range narrow {
		if s.labels[l[0]] != l[1] && !failedOnly(l[0], s.metric) {
			return false
		}
	}
	for _, m := range inst.rule.selectors[s.metric] {
		if !m.Matches(s.labels[m.Name]) {
			return false
		}
	}
	return true
}

// failedOnly reports whether label l says nothing about series of metric: only failed calls have a cause.
func failedOnly(l, metric string) bool {
	return metric != analyzer.MetricFailed && (l == "cause" || l == "root_cause" || l == "status")
}

// evidence counts the window of inst's rule that ends at step, and says in which second the first failed call was that
// the evaluation before had not counted. It is empty for rules that do not ask for failed calls.
func (e *Engine) evidence(inst *instance, step int64) (Evidence, time.Time) {
	type share struct {
		Share
		example *analyzer.Example
	}
	ev := Evidence{Window: inst.rule.window}
	if _, ok := inst.rule.selectors[analyzer.MetricFailed]; !ok {
		return ev, time.Time{} // the rule is not about failed calls
	}
	from := step - int64(inst.rule.window.Seconds())
	shares := map[[2]string]*share{}
	versions := map[string]*VersionCount{}
	narrow := inst.narrow()
	var active, first int64 // the newest step that counted a failed call, and its first second
	for _, s := range e.samples.series {
		failed := s.metric == analyzer.MetricFailed
		if !failed && s.metric != analyzer.MetricCalls || !inst.matches(s, narrow) {
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
		if x := s.example; x != nil {
			if old := shares[k].example; old == nil || old.PublishedAt < x.PublishedAt {
				shares[k].example, shares[k].Fix = x, x.Fix
			}
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
	if len(all) > 0 {
		ev.Example = all[0].example
	}
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
