package engine

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
)

// maxGroupAlerts bounds the alerts of one group, so that a stored group stays below 1 MB. The oldest resolved alerts are
// removed first.
const maxGroupAlerts = 20

// An openGroup is the current state of a Group, including what each receiver has been sent.
type openGroup struct {
	key     string
	alerts  []*trackedAlert // in order of first firing
	version uint64          // incremented by every change
	news    uint64          // incremented by every material change
	raised  uint64          // value of news when the severity last rose; the first alert counts as a rise
	stored  uint64          // value of news that the Store last accepted or rejected
	dirty   bool            // changed since it was last stored, apart from numbers
	counted bool            // its numbers changed since it was last stored
	hides   bool            // one of its alerts hides a firing alert
	untold  time.Time       // time of the first news since every receiver had been sent everything
	settled bool            // every receiver has been sent the latest news and decisions
	sent    []delivery      // by index of the receiver

	touched   uint64      // see Decisions.Touch
	ack       *alerts.Ack // nil if nobody has acknowledged the incident
	decisions uint64      // incremented when a silence, an inhibitor or the acknowledgement changes
}

// A trackedAlert is an alert of an openGroup.
type trackedAlert struct {
	alerts.Alert
	key      string
	restored bool            // loaded from the Store
	opened   int64           // step at which the alert was found; 0 if restored
	peak     alerts.Evidence // evidence at Alert.Peak
	rule     *rules.Rule     // nil if restored
	counted  time.Time       // last failure that the numbers include; zero if the rule no longer exists
	known    map[string]bool // causes and versions that are no longer news
	reported bool            // Backtest has reported it as resolved
	epoch    uint64          // value of groups.epoch when its silence was last looked up
}

func (g *openGroup) group() alerts.Group {
	out := alerts.Group{Key: g.key, Ack: g.ack}
	for _, a := range g.alerts {
		out.Alerts = append(out.Alerts, a.Alert)
	}
	return out
}

func (g *openGroup) firing() bool {
	return slices.ContainsFunc(g.alerts, func(a *trackedAlert) bool { return a.State == alerts.Firing })
}

// rank returns the highest rank of the firing alerts.
func (g *openGroup) rank() (highest int) {
	for _, a := range g.alerts {
		if a.State == alerts.Firing {
			highest = max(highest, a.Rank())
		}
	}
	return highest
}

// muted is Group.Muted.
func (g *openGroup) muted() bool {
	return alerts.Muted(func(yield func(*alerts.Alert) bool) {
		for _, a := range g.alerts {
			if !yield(&a.Alert) {
				return
			}
		}
	})
}

// since is Group.Since.
func (g *openGroup) since() time.Time {
	var t time.Time
	for _, a := range g.alerts {
		if t.IsZero() || a.StartsAt.Before(t) {
			t = a.StartsAt
		}
	}
	return t
}

// recent reports whether a was resolved less than the window of its rule before ts. If it fires again, that is a relapse:
// news of the same incident. Otherwise failures in bursts, each after the end of the previous alert, would page every time.
func (a *trackedAlert) recent(ts time.Time) bool {
	return a.State == alerts.Resolved && ts.Sub(a.EndsAt) < a.Evidence.Window
}

// mayRelapse reports whether an alert of g was resolved recently.
func (g *openGroup) mayRelapse(ts time.Time) bool {
	return slices.ContainsFunc(g.alerts, func(a *trackedAlert) bool { return a.recent(ts) })
}

// addNews records a material change.
func (g *openGroup) addNews() {
	g.version++
	g.news++
	if g.settled || g.untold.IsZero() {
		g.untold = time.Now()
	}
	g.dirty, g.settled = true, false
}

// counts reports whether an alert of g counts failures with this cause.
func (g *openGroup) counts(cause string) bool {
	return slices.ContainsFunc(g.alerts, func(a *trackedAlert) bool {
		return slices.ContainsFunc(a.Evidence.Shares, func(s alerts.Share) bool { return s.Cause == cause && s.RootCause != "" })
	})
}

// escalate makes a the alert of inst, an instance of another severity on the same series.
func (g *openGroup) escalate(a *trackedAlert, key string, inst *rules.Instance) {
	was := a.Rank()
	if rules.Rank(inst.Labels["severity"]) < was && was >= a.HighestRank() {
		a.Highest = a.Severity()
	}
	a.key, a.rule, a.Labels, a.Annotations = key, inst.Rule, inst.Labels, inst.Annotations
	a.epoch = 0 // a silence may match the severity
	g.addNews()
	if a.Rank() > was && a.Rank() >= g.rank() {
		g.raised = g.news
	}
}

// open adds the alert of inst, which has begun to fire. It returns false if the group is full of firing alerts.
func (g *openGroup) open(key string, inst *rules.Instance, ev *evaluation, late bool, evidence alerts.Evidence, triggered time.Time) bool {
	start := inst.ActiveAt
	for _, a := range g.alerts { // an inhibited alert starts again once it is no longer inhibited
		if a.key == key && !a.EndsAt.Before(start) {
			start = ev.at
		}
	}
	a := &trackedAlert{key: key, rule: inst.Rule, opened: ev.at.Unix(), known: map[string]bool{}, Alert: alerts.Alert{
		Name: inst.Rule.Name, Labels: inst.Labels, Annotations: inst.Annotations, State: alerts.Firing,
		Value: inst.Value, Peak: inst.Value, StartsAt: start, UpdatedAt: ev.at, FoundLate: late, Unavailable: ev.unavailable,
		Problem: GroupLabel(g.key, alerts.ProblemLabel), Evidence: evidence, TriggeredAt: triggered,
	}}
	a.peak, a.counted = a.Evidence, a.Evidence.LastFailed
	a.learn()
	return g.add(a, ev.at)
}

// add adds an alert that was found at ts. It returns false if the group is full of firing alerts.
func (g *openGroup) add(a *trackedAlert, ts time.Time) bool {
	if len(g.alerts) >= maxGroupAlerts {
		i := slices.IndexFunc(g.alerts, func(a *trackedAlert) bool { return a.State == alerts.Resolved })
		if i < 0 {
			return false
		}
		g.alerts = slices.Delete(g.alerts, i, i+1)
	}
	worse := a.State == alerts.Firing && !slices.ContainsFunc(g.alerts, func(b *trackedAlert) bool {
		// An alert that this one inhibits was resolved at ts.
		same := b.State == alerts.Firing || b.EndsAt.Equal(ts) || b.Series() == a.Series() && b.recent(ts)
		return same && b.Rank() >= a.Rank()
	})
	g.alerts = append(g.alerts, a)
	g.addNews()
	if worse {
		g.raised = g.news
	}
	return true
}

// refresh updates a from inst, an instance of ev. The numbers are those of the last evaluation with new failures for
// which the expression was true, so that they do not change while an alert fires because of older failures. The calls
// since the last failure are of ev.
func (g *openGroup) refresh(a *trackedAlert, inst *rules.Instance, ev *evaluation) {
	before := a.Alert
	a.Evidence = ev.later(&a.Alert)
	a.UpdatedAt, a.Unavailable = ev.at, ev.unavailable
	if a.rule != nil && a.rule != inst.Rule {
		a.Annotations = inst.Annotations // Reload changed them
	}
	a.rule = inst.Rule
	if inst.KeptSince.IsZero() && newFailure(a.Evidence.LastFailed, inst.Rule.Previous(ev.at)) {
		a.Value, a.Annotations = inst.Value, inst.Annotations
		a.Evidence, _ = ev.evidence(inst)
		a.counted = a.Evidence.LastFailed
		if a.Value > a.Peak || a.Value == a.Peak && a.Evidence.Failed > a.peak.Failed {
			a.Peak, a.peak = a.Value, a.Evidence
		}
	}
	if a.learn() {
		g.addNews()
		return
	}
	before.UpdatedAt = a.UpdatedAt
	if !reflect.DeepEqual(before, a.Alert) {
		g.version++
		g.counted = true
	}
}

// changedProblem reports whether nothing that a counts is due to its problem any more, but to another one.
func (a *trackedAlert) changedProblem() bool {
	if a.Problem == "" || len(a.Evidence.Shares) == 0 {
		return false
	}
	lead := a.Evidence.Lead()
	return lead.ID() != a.Problem && !slices.ContainsFunc(a.Evidence.Shares, func(s alerts.Share) bool {
		return (s.ID() == a.Problem || s.Cause == lead.Cause) && a.Evidence.Material(s.Failed)
	})
}

// learn reports whether a's evidence contains a material cause or failing version that is not known yet, and adds it to
// the known ones.
func (a *trackedAlert) learn() bool {
	news := false
	add := func(key string, failed uint64) {
		if !a.known[key] && a.Evidence.Material(failed) {
			a.known[key], news = true, true
		}
	}
	for _, s := range a.Evidence.Shares {
		add("cause "+s.Cause+" "+s.RootCause, s.Failed)
	}
	for _, v := range a.Evidence.Versions {
		add("version "+v.Version, v.Failed)
	}
	return news
}

// silent reports whether there have been neither calls nor failures since the last failure that the numbers include,
// and that failure is still in the window. The rule's expression is then no longer true, but not because of a success.
func (a *trackedAlert) silent() bool {
	ev := &a.Evidence
	return !a.counted.IsZero() && a.counted.Equal(ev.LastFailed) && ev.CallsSince == 0 && a.UpdatedAt.Before(a.counted.Add(ev.Window))
}

// resolve ends a with its highest severity and replaces its evidence with the evidence at the peak, if any. The calls since the
// last failure, and the versions since the peak, are preserved.
func (a *trackedAlert) resolve(ts time.Time) {
	a.State, a.EndsAt, a.UpdatedAt = alerts.Resolved, ts, ts
	if a.Highest != "" {
		a.Labels = maps.Clone(a.Labels)
		a.Labels["severity"], a.Highest = a.Highest, ""
	}
	if a.peak.Failed > 0 {
		a.Evidence = endsWith(a.peak, &a.Evidence)
	}
}
