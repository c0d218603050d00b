package engine

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/signals"
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
	alerts.Share
	cleanCalls uint64 // of LastClean before FirstAt
	examples   []*analyzer.Example
}

// add adds an example and its ledger entry to s. Series of different stages have different entries; the earliest entry
// is used.
func (s *share) add(x *analyzer.Example) {
	s.examples = insertExample(s.examples, x)
	s.Fix, s.Guessed = s.examples[0].Fix, s.examples[0].Guessed
	if at := time.Unix(0, x.FirstAt).UTC(); x.FirstAt > 0 && (s.FirstAt.IsZero() || at.Before(s.FirstAt)) {
		s.FirstVersion, s.FirstAt, s.LastClean, s.cleanCalls = x.FirstVersion, at, x.LastClean, x.CleanCalls
	}
}

// prove clears LastClean if that version made too few calls to tell that it is clean. calls are those of the versions that fail.
func (s *share) prove(calls uint64) {
	if s.LastClean != "" && !alerts.EnoughCalls(s.cleanCalls, s.Failed, calls) {
		s.LastClean, s.Earlier = "", true
	}
}

// evidence returns the evidence for inst from the window of its rule that ends at step, and the second of the first
// failure that the previous evaluation did not include, zero for rules without Failures.
func (s *samples) evidence(inst *rules.Instance, step int64) (ev alerts.Evidence, triggered time.Time) {
	from := step - int64(inst.Rule.Window.Seconds())
	list := s.matching(inst)
	if metric := inst.Rule.Failures(); metric != "" {
		ev, triggered = s.failedIn(list, metric, from, step)
	}
	if !ofOneService(inst) {
		for i := range ev.Shares { // a version of any service
			x := &ev.Shares[i]
			x.FirstVersion, x.FirstAt, x.LastClean, x.Earlier = "", time.Time{}, "", false
		}
	}
	ev.Window, ev.Running = inst.Rule.Window, s.running(inst, from, step)
	s.advance(&ev, inst, list, from, step)
	return ev, triggered
}

// later returns the evidence of a, extended by the failures and calls from a.UpdatedAt to step. inst is an instance
// of a.
func (s *samples) later(inst *rules.Instance, a *alerts.Alert, step int64) alerts.Evidence {
	ev := a.Evidence
	ev.Running = s.running(inst, step-int64(inst.Rule.Window.Seconds()), step)
	s.advance(&ev, inst, s.matching(inst), a.UpdatedAt.Unix(), step)
	return ev
}

// running returns the versions with material shares of the calls from from to step of a stage of which inst says what is unusual. If there
// are no calls any more, which may be what is unusual, they are those before. An alert about a version names only that one.
func (s *samples) running(inst *rules.Instance, from, step int64) (list []alerts.RunningVersion) {
	if inst.Rule.Failures() != "" || inst.Labels["measure"] == "" {
		return nil
	}
	total, calls := uint64(0), map[string]uint64{}
	for _, from := range []int64{from, step - s.window} {
		if total > 0 {
			break
		}
		for c := range s.candidates(inst) {
			if c.metric == analyzer.MetricCalls && c.labels["environment"] == inst.Labels["environment"] && c.labels["stage"] == inst.Labels["stage"] {
				n := c.between(from, step)
				calls[c.labels["service_version"]] += n
				total += n
			}
		}
	}
	only := inst.Labels["service_version"]
	for v, n := range calls {
		if (&alerts.Evidence{Failed: total}).Material(n) && (only == "" || v == only) {
			list = append(list, alerts.RunningVersion{Version: v, FirstSeen: s.versions.firstSeen(inst.Labels["service"], v)})
		}
	}
	slices.SortFunc(list, func(a, b alerts.RunningVersion) int {
		return cmp.Or(a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Version, b.Version))
	})
	return list[max(0, len(list)-maxEvidence):]
}

// lastFailure returns the second of the last failed call, finding or odd answer that the expression of inst queries, or the zero time
// if there is none.
func (s *samples) lastFailure(inst *rules.Instance, step int64) time.Time {
	matches := inst.Matcher()
	if matches == nil {
		return time.Time{}
	}
	var last int64
	for c := range s.candidates(inst) {
		if rules.CountsFailures(c.metric) && inst.Rule.Queries(c.metric) && matches(c.metric, c.labels) {
			last = max(last, c.last(0, step))
		}
	}
	if last == 0 {
		return time.Time{}
	}
	return time.Unix(last, 0).UTC()
}

// failedIn returns the evidence of list for the steps (from, step]. metric counts the failures, see rules.CountsFailures.
func (s *samples) failedIn(list []*series, metric string, from, step int64) (ev alerts.Evidence, triggered time.Time) {
	shares := map[[2]string]*share{}
	versions := map[string]*alerts.VersionCount{}
	var active, first int64 // the newest step with a failure, and the second of the first failure in it
	for _, c := range list {
		failed := c.metric == metric
		n := c.between(from, step)
		if n == 0 {
			continue
		}
		name := c.labels["service_version"]
		v := versions[name]
		if v == nil {
			v = &alerts.VersionCount{Version: name, FirstSeen: s.versions.firstSeen(c.labels["service"], name)}
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
		rule := c.labels["rule"]
		switch metric {
		case analyzer.MetricOdd:
			rule = analyzer.OddID(c.labels["ended"])
		case analyzer.MetricToolErrors:
			rule = analyzer.ToolError
		case analyzer.MetricCacheBroken:
			rule = signals.CacheBroken
		}
		if rule != "" && !slices.Contains(ev.Rules, rule) {
			ev.Rules = append(ev.Rules, rule)
		}
		k := [2]string{cmp.Or(c.labels["cause"], rule), cmp.Or(c.labels["root_cause"], c.labels["reason"])}
		if shares[k] == nil {
			shares[k] = &share{Share: alerts.Share{Cause: k[0], RootCause: k[1]}}
		}
		shares[k].Failed += n
		for _, x := range c.examples {
			shares[k].add(x)
		}
	}
	var calls uint64 // of the versions that fail
	for _, v := range versions {
		if v.Failed > 0 {
			calls += v.Calls
		}
	}
	all := make([]*share, 0, len(shares))
	for _, s := range shares {
		if v := versions[s.LastClean]; v != nil && v.Failed == 0 {
			s.cleanCalls = max(s.cleanCalls, v.Calls) // it still runs
		}
		s.prove(calls)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.RootCause, b.RootCause))
	})
	for _, s := range all[:min(len(all), maxEvidence)] {
		ev.Shares = append(ev.Shares, s.Share)
	}
	slices.Sort(ev.Rules)
	if metric == analyzer.MetricFailed {
		ev.Differs = differs(list, from, step)
	}
	chooseExamples(&ev, all)
	setVersions(&ev, versions)
	if first > 0 {
		triggered = time.Unix(first, 0).UTC()
	}
	return ev, triggered
}

// matching returns the series of calls and of failures that belong to the evidence of inst.
func (s *samples) matching(inst *rules.Instance) (list []*series) {
	matches := inst.Matcher()
	if matches == nil {
		return nil
	}
	for c := range s.candidates(inst) {
		if (c.metric == analyzer.MetricCalls || c.metric == inst.Rule.Failures()) && matches(c.metric, c.labels) {
			list = append(list, c)
		}
	}
	return list
}

// candidates returns the series of the service of inst, or all series if inst is not about one service.
func (s *samples) candidates(inst *rules.Instance) iter.Seq[*series] {
	if service, ok := inst.Required("service"); ok {
		return maps.Keys(s.services[service])
	}
	return maps.Values(s.series)
}

// ofOneService reports whether all series of the evidence of inst belong to one service. Otherwise their versions have
// nothing in common.
func ofOneService(inst *rules.Instance) bool {
	_, ok := inst.Required("service")
	return ok
}

// advance updates LastFailed, CallsSince and Quiet of ev by the seconds [from, to) of list, and adds new versions.
func (s *samples) advance(ev *alerts.Evidence, inst *rules.Instance, list []*series, from, to int64) {
	versions := map[string]*alerts.VersionCount{}
	for _, v := range ev.Versions {
		versions[v.Version] = &v
	}
	for _, c := range list {
		name := c.labels["service_version"]
		if versions[name] == nil && c.last(from, to) > 0 {
			versions[name] = &alerts.VersionCount{Version: name, FirstSeen: s.versions.firstSeen(c.labels["service"], name)}
		}
	}
	defer func() {
		if setVersions(ev, versions); !ofOneService(inst) {
			ev.Versions = nil
		}
	}()
	failed := func(at *time.Time, since *uint64, last int64) {
		if last > 0 && last > at.Unix() {
			*at, *since = time.Unix(last, 0).UTC(), 0
		}
	}
	for _, c := range list {
		if c.metric != inst.Rule.Failures() {
			continue
		}
		last := c.last(from, to)
		failed(&ev.LastFailed, &ev.CallsSince, last)
		if v := versions[c.labels["service_version"]]; v != nil {
			failed(&v.LastFailed, &v.CallsSince, last)
		}
	}
	for _, c := range list {
		if c.metric != analyzer.MetricCalls {
			continue
		}
		if !ev.LastFailed.IsZero() {
			ev.CallsSince += c.between(max(from, ev.LastFailed.Unix()+1), to)
		}
		if v := versions[c.labels["service_version"]]; v != nil {
			v.CallsSince += c.between(max(from, v.LastFailed.Unix()+1), to)
			if v.Failed == 0 {
				v.Calls = max(v.Calls, v.CallsSince)
			}
		}
	}
	ev.Quiet = !ev.LastFailed.IsZero() && ev.CallsSince == 0 && time.Unix(to, 0).Sub(ev.LastFailed) >= time.Minute
}

// endsWith returns ev with the last failure and the calls since of now, and with versions that are only in now.
func endsWith(ev alerts.Evidence, now *alerts.Evidence) alerts.Evidence {
	ev.LastFailed, ev.CallsSince, ev.Quiet = now.LastFailed, now.CallsSince, now.Quiet
	versions := map[string]*alerts.VersionCount{}
	for _, v := range ev.Versions {
		versions[v.Version] = &v
	}
	for _, v := range now.Versions {
		if old := versions[v.Version]; old != nil {
			old.LastFailed, old.CallsSince = v.LastFailed, v.CallsSince
		} else {
			versions[v.Version] = &v
		}
	}
	setVersions(&ev, versions)
	return ev
}

// setVersions sets Versions to the newest of versions, which are the suspects.
func setVersions(ev *alerts.Evidence, versions map[string]*alerts.VersionCount) {
	ev.Versions = nil
	for _, v := range versions {
		ev.Versions = append(ev.Versions, *v)
	}
	slices.SortFunc(ev.Versions, func(a, b alerts.VersionCount) int {
		return cmp.Or(a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.Version, b.Version))
	})
	ev.Versions = ev.Versions[max(0, len(ev.Versions)-maxEvidence):]
}

// chooseExamples sets Example and More from all, the shares in descending order.
func chooseExamples(ev *alerts.Evidence, all []*share) {
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
