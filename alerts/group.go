package alerts

import (
	"iter"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/silence"
)

// A Group is a set of alerts that share one notification.
type Group struct {
	Key    string // rule, or else problem, and grouping labels; never changes
	Alerts []Alert
	Repeat bool // a reminder without news
	// Missed reports that the group ended while the receiver accepted nothing. A receiver that shows groups to people does not
	// show it now, except if it may have been shown already.
	Missed bool `json:",omitempty"`
	Ack    *Ack `json:",omitempty"` // nil if nobody has acknowledged the incident
	// Known is what is known of the group's problem, this state of the group included. A notifier sets it; nil if it is unknown.
	Known *Problem `json:"-"`
}

// WithProblem returns g with what is known of its problem. find returns what was known before, or false; it may be nil.
func (g Group) WithProblem(find func(key string) (Problem, bool)) Group {
	if find == nil || g.Problem() == "" {
		return g
	}
	if p, ok := find(g.Key); ok {
		p.Versions, p.Rules = slices.Clone(p.Versions), slices.Clone(p.Rules)
		p.Observe(&g)
		g.Known = &p
	}
	return g
}

// Problem returns the defect that all alerts of g are about: a root cause, else a cause, else a rule or signal; "" if they are
// not about calls of one service.
func (g Group) Problem() string {
	if len(g.Alerts) == 0 {
		return ""
	}
	return g.Alerts[0].Problem
}

// Firing reports whether any alert of the group fires.
func (g Group) Firing() bool {
	return slices.ContainsFunc(g.Alerts, func(a Alert) bool { return a.State == Firing })
}

// Since returns the start of the first alert of the group.
func (g Group) Since() time.Time {
	var t time.Time
	for _, a := range g.Alerts {
		if t.IsZero() || a.StartsAt.Before(t) {
			t = a.StartsAt
		}
	}
	return t
}

// Worst returns the firing alert of the highest severity, of several the first; if none fires, a resolved alert likewise. It
// is zero for an empty group.
func (g Group) Worst() Alert {
	var worst Alert
	for i, a := range g.Alerts {
		firing, was := a.State == Firing, worst.State == Firing
		if i == 0 || firing && !was || firing == was && a.Rank() > worst.Rank() {
			worst = a
		}
	}
	return worst
}

// Updated returns the time of the group's last evaluation.
func (g Group) Updated() time.Time {
	var t time.Time
	for _, a := range g.Alerts {
		if a.UpdatedAt.After(t) {
			t = a.UpdatedAt
		}
	}
	return t
}

// Current returns one alert per series, in order of first appearance: the firing alert, or else the resolved alert of
// the highest severity. Its StartsAt is the start of the first alert of the series, so an escalation does not restart
// the clock.
func (g Group) Current() []Alert {
	var out []Alert
	at := map[string]int{}
	for _, a := range g.Alerts {
		k := a.Series()
		i, ok := at[k]
		if !ok {
			at[k] = len(out)
			out = append(out, a)
			continue
		}
		start, end, peak := out[i].StartsAt, out[i].EndsAt, max(out[i].Peak, a.Peak)
		if a.StartsAt.Before(start) {
			start = a.StartsAt
		}
		if a.EndsAt.After(end) {
			end = a.EndsAt
		}
		switch firing, was := a.State == Firing, out[i].State == Firing; {
		case firing && !was, firing == was && a.Rank() >= out[i].Rank():
			out[i] = a
		}
		out[i].StartsAt, out[i].Peak = start, peak
		if out[i].State == Resolved {
			out[i].EndsAt = end
		}
	}
	return out
}

// Muted reports whether people are not notified of the group: every firing alert is silenced or inhibited. A group without
// firing alerts is muted if the alerts that ended last were.
func (g Group) Muted() bool {
	return Muted(func(yield func(*Alert) bool) {
		for i := range g.Alerts {
			if !yield(&g.Alerts[i]) {
				return
			}
		}
	})
}

// Muted is Group.Muted for a sequence of alerts.
func Muted(list iter.Seq[*Alert]) bool {
	var end time.Time // latest end of an alert
	firing, out := false, false
	for a := range list {
		switch {
		case a.State == Firing && !firing:
			firing, out = true, a.Muted()
		case a.State == Firing, !firing && a.EndsAt.Equal(end):
			out = out && a.Muted()
		case !firing && a.EndsAt.After(end):
			end, out = a.EndsAt, a.Muted()
		}
	}
	return out
}

// Matchers returns matchers for the alerts of g and of no other group, or nil if a label is too long for one. A label that the
// group lacks has an empty value: the alerts of another group of this rule may have it. groupBy is Config.GroupBy.
func (g Group) Matchers(groupBy []string) silence.Matchers {
	if len(g.Alerts) == 0 {
		return nil
	}
	a := &g.Alerts[0] // all alerts of a group have the same values of these labels
	name, labels := "alertname", a.Matchable()
	if a.Problem != "" {
		name = ProblemLabel
	}
	var out silence.Matchers
	for _, l := range append([]string{name}, groupBy...) {
		v := labels[l]
		if l == "alertname" {
			v = a.Name
		}
		m, err := silence.NewMatcher(l, "=", v)
		if err != nil {
			return nil
		}
		out = append(out, m)
	}
	return out
}

// GroupID returns 16 hex digits that identify the group with this key.
func GroupID(key string) string { return digest(8, key) }
