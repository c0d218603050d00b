package alerts

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
)

const (
	// maxNotices bounds the open groups; alerts of further ones are dropped and counted.
	maxNotices = 1000
	// maxNoticeAlerts bounds the alerts of one group, so that a stored notice stays below 1 MB; the oldest resolved
	// ones are forgotten first.
	maxNoticeAlerts = 20
)

// A notice is what a group of alerts should say, and what each receiver was told of it.
type notice struct {
	key     string
	alerts  []*tracked // in order of first firing
	version uint64     // grows with every change
	rev     uint64     // grows with every material change
	raised  uint64     // rev at which the severity last rose, from nothing too
	saved   uint64     // rev that was written to the store, or that the store refused
	dirty   bool       // has to be written
	settled bool       // every receiver was told of rev, as stored
	sent    []delivery // by receiver
}

// tracked is an alert of a notice, with the causes and versions that were material news already.
type tracked struct {
	Alert
	key      string
	restored bool     // from the store
	opened   int64    // step that found it; 0 if restored
	peak     Evidence // at Alert.Peak
	known    map[string]bool
}

func (n *notice) group() Group {
	g := Group{Key: n.key}
	for _, a := range n.alerts {
		g.Alerts = append(g.Alerts, a.Alert)
	}
	return g
}

func (n *notice) firing() bool {
	return slices.ContainsFunc(n.alerts, func(a *tracked) bool { return a.State == Firing })
}

func (n *notice) find(key string) *tracked {
	for _, a := range n.alerts {
		if a.key == key && a.State == Firing {
			return a
		}
	}
	return nil
}

// news marks a material change.
func (n *notice) news() {
	n.version++
	n.rev++
	n.dirty, n.settled = true, false
}

// newShare is the part of the failed calls from which a cause or a version is news.
const newShare = 0.05

// learn reports whether a's evidence names a cause or a failing version that was not news before.
func (a *tracked) learn() bool {
	news := false
	add := func(kind, name string, failed uint64) {
		if k := kind + name; !a.known[k] && float64(failed) >= newShare*float64(a.Evidence.Failed) && failed > 0 {
			a.known[k], news = true, true
		}
	}
	for _, s := range a.Evidence.Shares {
		add("cause ", s.Cause+" "+s.RootCause, s.Failed)
	}
	for _, v := range a.Evidence.Versions {
		add("version ", v.Version, v.Failed)
	}
	return news
}

// visible returns the firing instances by alert key, without those that a higher severity on the same series hides.
func (e *Engine) visible() map[string]*rules.Instance {
	out := map[string]*rules.Instance{}
	top := map[string]int{}
	for _, r := range e.rules {
		for key, inst := range r.Active {
			if inst.Firing {
				out[key] = inst
				s := seriesKey(r.Name, inst.Labels)
				top[s] = max(top[s], rank(inst.Labels["severity"]))
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, inst *rules.Instance) bool {
		return rank(inst.Labels["severity"]) < top[seriesKey(inst.Rule.Name, inst.Labels)]
	})
	return out
}

// publish brings the notices to what the rules say at ts. Those of a standby are told only if it leads before the engine
// that leads now has told them.
func (e *Engine) publish(ts time.Time) {
	visible, missing := e.visible(), e.missing()
	if e.leads {
		e.m.firing.Set(float64(len(visible)))
	} else {
		e.forgetEnded(ts)
	}
	for _, n := range e.notices {
		for _, a := range n.alerts {
			if a.State != Firing || visible[a.key] != nil {
				continue
			}
			if a.restored && ts.Unix()-e.first < e.samples.window {
				continue // too few tallies were replayed to say that it is over
			}
			a.resolve(ts)
			a.Missing = missing
			n.news()
		}
	}
	for _, key := range slices.Sorted(maps.Keys(visible)) {
		inst := visible[key]
		n := e.noticeOf(inst)
		if n == nil {
			e.m.alertsDropped.WithLabelValues("max_alerts").Inc()
			continue
		}
		if a := n.find(key); a != nil {
			e.refresh(n, a, inst, ts, missing)
		} else {
			e.open(n, key, inst, ts, missing)
		}
	}
}

func (e *Engine) noticeOf(inst *rules.Instance) *notice {
	key := groupKey(inst.Rule.Name, inst.Labels, e.cfg.GroupBy)
	n := e.notices[key]
	if n == nil && len(e.notices) < maxNotices {
		n = &notice{key: key, sent: make([]delivery, len(e.receivers))}
		e.notices[key] = n
	}
	return n
}

// late reports whether inst began to fire more than a minute ago and nobody told, because that time is evaluated only
// now, or was by an engine that did not lead.
func (e *Engine) late(inst *rules.Instance, ts time.Time) bool {
	told := time.Unix(e.told, 0).Add(e.cfg.EvaluationInterval) // the first step that was not told
	fired := inst.ActiveAt.Add(inst.Rule.For)
	if fired.Before(told) {
		fired = told // it was hidden until then
	}
	if ts.Before(fired) {
		fired = ts
	}
	return time.Since(fired) > lateAfter
}

func (e *Engine) open(n *notice, key string, inst *rules.Instance, ts time.Time, missing string) {
	start := inst.ActiveAt
	for _, a := range n.alerts { // an alert that was hidden starts again when it shows again
		if a.key == key && !a.EndsAt.Before(start) {
			start = ts
		}
	}
	a := &tracked{key: key, opened: ts.Unix(), known: map[string]bool{}, Alert: Alert{
		Name: inst.Rule.Name, Labels: inst.Labels, Annotations: inst.Annotations, State: Firing,
		Value: inst.Value, Peak: inst.Value, StartsAt: start, UpdatedAt: ts, FoundLate: e.late(inst, ts), Missing: missing,
	}}
	a.Evidence, a.TriggeredAt = e.evidence(inst, ts.Unix())
	a.peak = a.Evidence
	a.learn()
	if !n.add(a, ts) {
		e.m.alertsDropped.WithLabelValues("max_alerts").Inc()
	}
}

// add puts the first state of a, which opened at ts, into n; it is false where n is full of alerts that fire.
func (n *notice) add(a *tracked, ts time.Time) bool {
	if len(n.alerts) >= maxNoticeAlerts {
		i := slices.IndexFunc(n.alerts, func(a *tracked) bool { return a.State == Resolved })
		if i < 0 {
			return false
		}
		n.alerts = slices.Delete(n.alerts, i, i+1)
	}
	worse := a.State == Firing && !slices.ContainsFunc(n.alerts, func(b *tracked) bool {
		// What a higher severity hides was resolved at ts.
		return (b.State == Firing || b.EndsAt.Equal(ts)) && rank(b.Severity()) >= rank(a.Severity())
	})
	n.alerts = append(n.alerts, a)
	n.news()
	if worse {
		n.raised = n.rev
	}
	return true
}

// refresh takes over what the evaluation at ts found. While an alert only fires because of keep_firing_for, it keeps
// the numbers of the last breach.
func (e *Engine) refresh(n *notice, a *tracked, inst *rules.Instance, ts time.Time, missing string) {
	before := a.Alert
	a.UpdatedAt, a.Missing = ts, missing
	if inst.KeptSince.IsZero() {
		a.Value, a.Annotations = inst.Value, inst.Annotations
		a.Evidence, _ = e.evidence(inst, ts.Unix())
		if a.Value > a.Peak || a.Value == a.Peak && a.Evidence.Failed > a.peak.Failed {
			a.Peak, a.peak = a.Value, a.Evidence
		}
	}
	if a.learn() {
		n.news()
		return
	}
	before.UpdatedAt = a.UpdatedAt
	if !reflect.DeepEqual(before, a.Alert) {
		n.version++
		n.dirty = true // the peak has to outlive a crash
	}
}

// resolve ends a. Its evidence becomes that of its peak, which is what an incident is remembered by.
func (a *tracked) resolve(ts time.Time) {
	a.State, a.EndsAt, a.UpdatedAt = Resolved, ts, ts
	if a.peak.Calls > 0 {
		a.Evidence = a.peak
	}
}

func (e *Engine) sortedNotices() []*notice {
	out := make([]*notice, 0, len(e.notices))
	for _, k := range slices.Sorted(maps.Keys(e.notices)) {
		out = append(out, e.notices[k])
	}
	return out
}
