package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer"
)

const (
	// maxParts bounds Hidden.Worst.
	maxParts = 5
	// mostly is the share of a target's failures that the source must count as well.
	mostly = 0.8
	// ownFailures and ownShare are the failures of a target itself that are no alert: a number, plus a share of the calls
	// that the source leaves. They equal the thresholds of StageFailureRate.
	ownFailures, ownShare = 5, 0.10
)

// An InhibitRule hides alerts (targets) while another alert (the source) fires, like the inhibit_rules of Alertmanager. An
// alert hides neither itself nor an alert of higher severity. Alerts that match both sides do not hide each other; otherwise
// nobody would be notified of either.
type InhibitRule struct {
	// SourceMatch are the matchers of the source, such as alertname="ProviderOutage".
	SourceMatch []string `yaml:"source_match"`
	// TargetMatch are the matchers of the targets. If empty, every alert is a target.
	TargetMatch []string `yaml:"target_match"`
	// Equal lists the labels that must be equal in source and target.
	Equal []string `yaml:"equal"`
	// SameFailures limits the targets to those with the failures of the source: it counts at least 80 % of the failures in
	// the target's window, and the others would be no alert.
	SameFailures bool `yaml:"same_failures"`
}

// An inhibitRule is an InhibitRule with parsed matchers.
type inhibitRule struct {
	InhibitRule
	source, target silence.Matchers
}

// compile returns the rule and all errors, each beginning with its key.
func (r InhibitRule) compile() (out inhibitRule, errs []error) {
	parse := func(key string, list []string) (all silence.Matchers) {
		for i, s := range list {
			m, err := silence.ParseMatcher(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s[%d]: %w", key, i, err))
			}
			all = append(all, m)
		}
		return all
	}
	out = inhibitRule{r, parse("source_match", r.SourceMatch), parse("target_match", r.TargetMatch)}
	if len(r.SourceMatch) == 0 {
		errs = append(errs, errors.New(`source_match: is empty; name the alerts that hide others, such as alertname="ProviderOutage"`))
	}
	if len(r.TargetMatch) == 0 && !r.SameFailures {
		errs = append(errs, errors.New("target_match: is empty; name the hidden alerts, or set same_failures: true"))
	}
	for i, l := range r.Equal {
		if !model.LegacyValidation.IsValidLabelName(l) {
			errs = append(errs, fmt.Errorf("equal[%d]: %q is not a label name", i, l))
		}
	}
	return out, errs
}

// inhibitRules returns the parsed rules and all errors, joined.
func (c Config) inhibitRules() (list []inhibitRule, err error) {
	var all []error
	for i, r := range c.InhibitRules {
		compiled, errs := r.compile()
		for _, err := range errs {
			all = append(all, fmt.Errorf("inhibit_rules[%d].%w", i, err))
		}
		list = append(list, compiled)
	}
	return list, errors.Join(all...)
}

// A common is a comparison of the failures of a target with those of a source, in the target's window.
type common struct {
	failed, calls uint64 // of the target
	shared        uint64 // failed calls or findings of the target that the source counts as well
}

// explained reports whether an alert is due to its source. was reports whether the alert was hidden before, and ending
// whether its expression is no longer true. Such an alert is about to end; it is no news after an outage.
func (c common) explained(was, ending bool) bool {
	own := float64(c.failed - c.shared)
	switch rest := float64(c.calls - min(c.calls, c.shared)); {
	case own > ownFailures+ownShare*rest:
		return false
	case c.shared > 0 && float64(c.shared) >= mostly*float64(c.failed):
		return true
	}
	return was && (ending || own < ownFailures || own <= float64(c.shared))
}

// A source is an alert that may hide others.
type source struct {
	*trackedAlert
	group *openGroup
	until time.Time // later failures are not due to it
	parts []*trackedAlert
}

// inhibit sets Inhibitor and Hides of all alerts. Their values are never modified, because notifiers read them without
// the lock. It runs after all alerts of ev are known, so an alert and its source may
// begin in the same evaluation.
//
// An alert also remains hidden by a resolved source, for the failures up to its end. Its window contains them for
// longer, and ten alerts after an outage help nobody.
func (g *groups) inhibit(ev *evaluation) {
	open := g.sorted()
	sources := make([][]*source, len(g.inhibitRules)) // by rule
	var all []*source
	for _, o := range open {
		o.hides = false
		for _, a := range o.alerts {
			var s *source
			for i := range g.inhibitRules {
				r := &g.inhibitRules[i]
				recent := a.State == alerts.Firing || r.SameFailures && ev.at.Sub(a.EndsAt) < g.cfg.Retention // longer than every window
				if recent && r.source.Match(a.Name, a.Labels) {
					if s == nil {
						s = &source{trackedAlert: a, group: o, until: until(a, ev)}
						all = append(all, s)
					}
					sources[i] = append(sources[i], s)
				}
			}
		}
	}
	for _, list := range sources {
		slices.SortStableFunc(list, preferred)
	}
	for _, o := range open {
		for _, a := range o.alerts {
			if a.State != alerts.Firing {
				continue
			}
			s := g.sourceOf(o, a, sources, ev)
			if s == nil {
				o.mute(a, a.Silence, nil)
				continue
			}
			s.parts, s.group.hides = append(s.parts, a), true
			if by := a.Inhibitor; by == nil || by.Group != s.group.key || by.Name != s.Name { // a change of its severity is no news
				o.mute(a, a.Silence, &alerts.Inhibitor{ID: s.ID(), Group: s.group.key, Name: s.Name, Summary: s.Annotations["summary"]})
			}
		}
	}
	for _, s := range all {
		if h := hidden(s.parts); s.Hides == nil && h.Alerts > 0 || s.Hides != nil && h.Alerts >= s.Hides.Alerts && !sameHidden(s.Hides, h) {
			s.Hides = h
			s.group.version++
			s.group.dirty = true
		}
	}
}

// until returns the time up to which failures may be due to a.
func until(a *trackedAlert, ev *evaluation) time.Time {
	if a.State == alerts.Resolved {
		return a.EndsAt
	}
	return ev.at
}

// wasHidden reports whether an alert of the same series as a, in g, was hidden by an alert of the group by.
func (g *openGroup) wasHidden(a *trackedAlert, by string, ev *evaluation) bool {
	series := a.Series()
	return slices.ContainsFunc(g.alerts, func(b *trackedAlert) bool {
		return b.Inhibitor != nil && b.Inhibitor.Group == by && (b == a || b.recent(ev.at) && b.Series() == series)
	})
}

// preferred orders sources: firing ones first, then by severity, then the newest.
func preferred(a, b *source) int {
	firing := func(s *source) int { return int(boolValue(s.State == alerts.Firing)) }
	return cmp.Or(firing(b)-firing(a), b.HighestRank()-a.HighestRank(), b.StartsAt.Compare(a.StartsAt), cmp.Compare(a.key, b.key))
}

// sourceOf returns the first source that hides a, an alert of o, or nil.
func (g *groups) sourceOf(o *openGroup, a *trackedAlert, sources [][]*source, ev *evaluation) *source {
	for i, list := range sources {
		r := &g.inhibitRules[i]
		if len(list) == 0 || !r.target.Match(a.Name, a.Labels) {
			continue
		}
		both := r.source.Match(a.Name, a.Labels)
		for _, s := range list {
			if s.Series() == a.Series() || s.HighestRank() < a.Rank() || both && r.target.Match(s.Name, s.Labels) ||
				slices.ContainsFunc(r.Equal, func(l string) bool { return s.Labels[l] != a.Labels[l] }) {
				continue
			}
			if !r.SameFailures {
				return s
			}
			inst := ev.firing[a.key]
			was := o.wasHidden(a, s.group.key, ev)
			if ev.common(&a.Alert, &s.Alert, s.until).explained(was, inst == nil || !inst.KeptSince.IsZero()) {
				return s
			}
		}
	}
	return nil
}

// hidden returns parts, the worst first.
func hidden(parts []*trackedAlert) *alerts.Hidden {
	slices.SortStableFunc(parts, func(a, b *trackedAlert) int {
		return cmp.Or(b.Rank()-a.Rank(), cmp.Compare(b.Evidence.Failed, a.Evidence.Failed), cmp.Compare(a.key, b.key))
	})
	h := &alerts.Hidden{Alerts: len(parts)}
	for _, a := range parts[:min(len(parts), maxParts)] {
		p := alerts.Part{ID: a.ID(), Name: a.Name, Labels: a.Labels}
		if ev := &a.Evidence; len(ev.Rules) == 0 {
			p.Failed, p.Calls = ev.Failed, ev.Calls
		}
		h.Worst = append(h.Worst, p)
	}
	return h
}

func sameHidden(h, b *alerts.Hidden) bool {
	return h.Alerts == b.Alerts && slices.EqualFunc(h.Worst, b.Worst, func(a, b alerts.Part) bool {
		return a.ID == b.ID && a.Failed == b.Failed && a.Calls == b.Calls
	})
}

// common compares the failures of target and source in the window of target that ends at step. Failures from until on
// are not shared.
func (s *samples) common(target, source *rules.Instance, until, step int64) (c common) {
	metric, shares := target.Rule.Failures(), source.Matcher()
	if metric == "" || shares == nil {
		return c
	}
	from := step - int64(target.Rule.Window.Seconds())
	for _, x := range s.matching(target) {
		switch {
		case x.metric == analyzer.MetricCalls && x.metric != metric:
			c.calls += x.between(from, step)
		case x.metric == metric:
			c.failed += x.between(from, step)
			// A finding has the cause of its call, so it can be due to the source as well.
			if shares(source.Rule.Failures(), x.labels) {
				c.shared += x.between(from, min(until, step))
			}
		}
	}
	return c
}
