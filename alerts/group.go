package alerts

import (
	"reflect"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
)

// maxGroupAlerts bounds the alerts of one group, so that a stored group stays below 1 MB. The oldest resolved alerts are
// removed first.
const maxGroupAlerts = 20

// An openGroup is the current state of a Group, and what each receiver was sent of it.
type openGroup struct {
	key     string
	alerts  []*trackedAlert // in order of first firing
	version uint64          // incremented by every change
	news    uint64          // incremented by every material change
	raised  uint64          // news of the last rise of severity, including the first alert
	stored  uint64          // news that the Store has, or rejected
	dirty   bool            // not stored since the last change
	settled bool            // every receiver was sent the latest news
	sent    []delivery      // by receiver
}

// A trackedAlert is an alert of an openGroup.
type trackedAlert struct {
	Alert
	key      string
	restored bool            // from the Store
	opened   int64           // step that found it; 0 if restored
	peak     Evidence        // at Alert.Peak
	known    map[string]bool // causes and versions that are no longer news
	reported bool            // by Backtest, as resolved
}

func (g *openGroup) group() Group {
	out := Group{Key: g.key}
	for _, a := range g.alerts {
		out.Alerts = append(out.Alerts, a.Alert)
	}
	return out
}

func (g *openGroup) firing() bool {
	return slices.ContainsFunc(g.alerts, func(a *trackedAlert) bool { return a.State == Firing })
}

// find returns the firing alert with this key, nil if there is none.
func (g *openGroup) find(key string) *trackedAlert {
	for _, a := range g.alerts {
		if a.key == key && a.State == Firing {
			return a
		}
	}
	return nil
}

// addNews records a material change.
func (g *openGroup) addNews() {
	g.version++
	g.news++
	g.dirty, g.settled = true, false
}

// open adds the alert of inst, which began to fire; it returns false if the group is full of firing alerts.
func (g *openGroup) open(key string, inst *rules.Instance, ev *evaluation, late bool) bool {
	start := inst.ActiveAt
	for _, a := range g.alerts { // an inhibited alert starts again once it is no longer inhibited
		if a.key == key && !a.EndsAt.Before(start) {
			start = ev.at
		}
	}
	a := &trackedAlert{key: key, opened: ev.at.Unix(), known: map[string]bool{}, Alert: Alert{
		Name: inst.Rule.Name, Labels: inst.Labels, Annotations: inst.Annotations, State: Firing,
		Value: inst.Value, Peak: inst.Value, StartsAt: start, UpdatedAt: ev.at, FoundLate: late, Unavailable: ev.unavailable,
	}}
	a.Evidence, a.TriggeredAt = ev.evidence(inst)
	a.peak = a.Evidence
	a.learn()
	return g.add(a, ev.at)
}

// add adds an alert that opened at ts; it returns false if the group is full of firing alerts.
func (g *openGroup) add(a *trackedAlert, ts time.Time) bool {
	if len(g.alerts) >= maxGroupAlerts {
		i := slices.IndexFunc(g.alerts, func(a *trackedAlert) bool { return a.State == Resolved })
		if i < 0 {
			return false
		}
		g.alerts = slices.Delete(g.alerts, i, i+1)
	}
	worse := a.State == Firing && !slices.ContainsFunc(g.alerts, func(b *trackedAlert) bool {
		// An alert that this one inhibits was resolved at ts.
		return (b.State == Firing || b.EndsAt.Equal(ts)) && rank(b.Severity()) >= rank(a.Severity())
	})
	g.alerts = append(g.alerts, a)
	g.addNews()
	if worse {
		g.raised = g.news
	}
	return true
}

// refresh updates a from the instance of ev. While it only fires because of keep_firing_for, it keeps the numbers of the last
// evaluation for which the expression was true.
func (g *openGroup) refresh(a *trackedAlert, inst *rules.Instance, ev *evaluation) {
	before := a.Alert
	a.UpdatedAt, a.Unavailable = ev.at, ev.unavailable
	if inst.KeptSince.IsZero() {
		a.Value, a.Annotations = inst.Value, inst.Annotations
		a.Evidence, _ = ev.evidence(inst)
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
		g.dirty = true // the peak must survive a crash
	}
}

// learn reports whether a's evidence has a material cause or failing version for the first time.
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

// resolve ends a. Its evidence becomes that of its peak.
func (a *trackedAlert) resolve(ts time.Time) {
	a.State, a.EndsAt, a.UpdatedAt = Resolved, ts, ts
	if a.peak.Calls > 0 {
		a.Evidence = a.peak
	}
}
