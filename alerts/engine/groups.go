package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/rules"
)

const (
	// maxGroups bounds the open groups; alerts of further groups are dropped and counted.
	maxGroups = 1000
	// lateAfter is the age above which an alert counts as found late.
	lateAfter = time.Minute
	// standbyMemory is the time for which a standby remembers resolved alerts. It equals the default retention of
	// tallies.
	standbyMemory = 24 * time.Hour
)

// groups contains the open groups of an engine: groups that fire, or whose latest news has not been sent to every
// receiver. Engine.mu guards them.
type groups struct {
	cfg       Config
	m         *metrics
	receivers []*receiver
	decisions *Decisions // may be nil

	inhibitRules []inhibitRule

	open      map[string]*openGroup // by key
	evaluated int64                 // last step whose evaluation the groups include
	leads     bool                  // the engine notifies receivers

	silences    uint64    // version of the silences in the last call of decide
	nextSilence time.Time // next start or end of a silence; zero if there is none
	epoch       uint64    // incremented when the active silences change
}

// An evaluation is the result of all rules at one step.
type evaluation struct {
	at          time.Time
	firing      map[string]*rules.Instance // result of firingOf
	pending     func(key string) bool      // the rule of an alert is pending
	covered     time.Duration              // time before at that the samples cover
	unavailable string
	evidence    func(*rules.Instance) (ev alerts.Evidence, triggered time.Time)
	common      func(target, source *alerts.Alert, until time.Time) common
	later       func(*alerts.Alert) alerts.Evidence // evidence of an alert with the failures and calls after its last evaluation
}

// firingOf returns the firing instances of rules by alert key. It omits instances for which may returns false, and instances
// inhibited by a higher severity on the same series.
func firingOf(list []*rules.Rule, may func(key string, inst *rules.Instance) bool) map[string]*rules.Instance {
	out := map[string]*rules.Instance{}
	top := map[string]int{}
	for _, r := range list {
		for key, inst := range r.Active {
			if inst.Firing && may(key, inst) {
				out[key] = inst
				s := rules.SeriesKey(r.Name, inst.Labels)
				top[s] = max(top[s], rules.Rank(inst.Labels["severity"]))
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, inst *rules.Instance) bool {
		return rules.Rank(inst.Labels["severity"]) < top[rules.SeriesKey(inst.Rule.Name, inst.Labels)]
	})
	return out
}

// update applies an evaluation, unless the groups already include it, and reports whether receivers may have to be
// notified.
func (g *groups) update(ev *evaluation) bool {
	if ev.at.Unix() <= g.evaluated {
		return false
	}
	g.apply(ev)
	return g.leads
}

func (g *groups) apply(ev *evaluation) {
	if g.leads {
		g.m.firing.Set(float64(len(ev.firing)))
	} else {
		g.forgetResolved(ev.at)
	}
	firing, held := map[string]string{}, map[string]int{} // keys of the firing instances, and ranks of the held alerts, by series
	for key, inst := range ev.firing {
		firing[rules.SeriesKey(inst.Rule.Name, inst.Labels)] = key
	}
	tracked := map[string]place{} // firing alerts by key
	for _, o := range g.open {
		for _, a := range o.alerts {
			if a.State != alerts.Firing {
				continue
			}
			other := ev.firing[firing[a.Series()]] // of another severity, if it is not that of a
			if ev.firing[a.key] != nil {
				tracked[a.key] = place{o, a}
				continue
			}
			a.Evidence, a.UpdatedAt = ev.later(&a.Alert), ev.at
			// A restored alert must not end merely because history is missing: while the replayed tallies do not yet cover
			// the window, and while its rule is pending again.
			missing := a.restored && (ev.covered < a.Evidence.Window || ev.pending(a.key))
			if r := a.Rank(); (missing || a.silent()) && (other == nil || r >= rules.Rank(other.Labels["severity"])) {
				held[a.Series()] = r
				continue
			}
			if other != nil {
				key := firing[a.Series()]
				o.escalate(a, key, other)
				tracked[key] = place{o, a}
				continue
			}
			a.resolve(ev.at)
			a.Unavailable = ev.unavailable
			o.addNews()
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ev.firing)) {
		inst := ev.firing[key]
		if rules.Rank(inst.Labels["severity"]) < held[rules.SeriesKey(inst.Rule.Name, inst.Labels)] {
			continue
		}
		if at, ok := tracked[key]; ok {
			at.group.refresh(at.alert, inst, ev)
			if !at.alert.changedProblem() {
				continue
			}
			at.alert.resolve(ev.at)
			at.group.addNews()
		}
		evidence, triggered := ev.evidence(inst)
		o := g.of(g.keyFor(inst, &evidence))
		if o == nil || !o.open(key, inst, ev, g.late(inst, ev.at), evidence, triggered) {
			g.m.alertsDropped.WithLabelValues("max_alerts").Inc()
		}
	}
	g.inhibit(ev)
	g.evaluated = ev.at.Unix()
	g.decide(time.Now())
}

// A place is an alert and its group.
type place struct {
	group *openGroup
	alert *trackedAlert
}

// firing returns the keys of the firing alerts.
func (g *groups) firing() map[string]bool {
	keys := map[string]bool{}
	for _, o := range g.open {
		for _, a := range o.alerts {
			if a.State == alerts.Firing {
				keys[a.key] = true
			}
		}
	}
	return keys
}

// newFailure reports whether the last failure was not yet included in the rule's evaluation at before. An alert begins,
// and its severity and its numbers rise, only on new failures: the ratio of failures to calls also rises when successful
// calls leave the window before the failed ones. last is zero for a rule that does not count failures.
func newFailure(last, before time.Time) bool { return last.IsZero() || !last.Before(before) }

// release lets the alerts of a removed or changed rule end.
func (g *groups) release(r *rules.Rule) {
	for _, o := range g.open {
		for _, a := range o.alerts {
			if a.Name == r.Name && r.Instance(a.Labels) != nil {
				a.counted = time.Time{}
			}
		}
	}
}

// of returns the open group of a key and opens it if necessary. It returns nil if there are too many groups.
func (g *groups) of(key string) *openGroup {
	o := g.open[key]
	if o == nil && len(g.open) >= maxGroups {
		g.makeRoom()
	}
	if o == nil && len(g.open) < maxGroups {
		o = &openGroup{key: key, sent: newDeliveries(g.receivers)}
		g.open[key] = o
	}
	return o
}

// late reports whether inst began to fire more than lateAfter ago, in steps that no leading engine has evaluated
// before.
func (g *groups) late(inst *rules.Instance, ts time.Time) bool {
	first := time.Unix(g.evaluated, 0).Add(g.cfg.EvaluationInterval)
	fired := inst.ActiveAt.Add(inst.Rule.For)
	if fired.Before(first) {
		fired = first // inst was inhibited until then
	}
	if ts.Before(fired) {
		fired = ts
	}
	return time.Since(fired) > lateAfter
}

// sorted returns the open groups, sorted by key.
func (g *groups) sorted() []*openGroup {
	out := make([]*openGroup, 0, len(g.open))
	for _, k := range slices.Sorted(maps.Keys(g.open)) {
		out = append(out, g.open[k])
	}
	return out
}

// active returns the firing alerts; none if g does not lead.
func (g *groups) active() []alerts.Alert {
	var out []alerts.Alert
	for _, o := range g.sorted() {
		for _, a := range o.alerts {
			if a.State == alerts.Firing && g.leads {
				out = append(out, a.Alert)
			}
		}
	}
	return out
}

// lead takes over the groups that the previous leader stored. Alerts that began or ended since its last evaluation are
// news. ev is the latest evaluation, nil before the first.
func (g *groups) lead(saved *saved, ev *evaluation) {
	own := g.open
	g.open, g.evaluated, g.leads = saved.groups, saved.evaluated, true
	if ev != nil && ev.at.Unix() > g.evaluated {
		g.adopt(own)
		g.apply(ev)
	}
}

// adopt adds the alerts of own that began, or ended, after the previous leader's last evaluation.
func (g *groups) adopt(own map[string]*openGroup) {
	fired := map[string]place{} // by series; a standby that started later may have found another problem
	for _, o := range g.open {
		for _, a := range o.alerts {
			if a.State == alerts.Firing {
				fired[a.Series()] = place{o, a}
			}
		}
	}
	for key, o := range own {
		for _, a := range o.alerts {
			was, known := fired[a.Series()]
			if a.opened <= g.evaluated {
				if known && a.State == alerts.Resolved && a.EndsAt.Unix() > g.evaluated {
					was.alert.resolve(a.EndsAt)
					was.group.addNews()
				}
				continue
			}
			if known && a.State == alerts.Firing {
				continue // receivers already know that it fires
			}
			opened := time.Unix(a.opened, 0)
			a.FoundLate = a.FoundLate || time.Since(opened) > lateAfter
			if to := g.of(key); to == nil || !to.add(a, opened) {
				g.m.alertsDropped.WithLabelValues("max_alerts").Inc()
			}
		}
	}
}

// forgetResolved removes the groups whose alerts were all resolved at least standbyMemory ago.
func (g *groups) forgetResolved(ts time.Time) {
	maps.DeleteFunc(g.open, func(_ string, o *openGroup) bool {
		return !slices.ContainsFunc(o.alerts, func(a *trackedAlert) bool {
			return a.State == alerts.Firing || ts.Sub(a.EndsAt) < standbyMemory
		})
	})
}

// GroupLabel returns the value of a label in the key of a group, or "".
func GroupLabel(key, name string) string {
	_, pairs, _ := strings.Cut(key, "{")
	for pairs != "" {
		label, rest, _ := strings.Cut(pairs, "=")
		value, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return ""
		}
		if label == name {
			value, _ = strconv.Unquote(value) // QuotedPrefix has checked it
			return value
		}
		pairs = strings.TrimPrefix(rest[len(value):], ",")
	}
	return ""
}

// keyFor returns the key of the group of an alert that begins with this evidence: its problem, which is the group of all rules
// that find the same defect of a stage, or else its rule.
func (g *groups) keyFor(inst *rules.Instance, ev *alerts.Evidence) string {
	problem := inst.Labels["service"] != "" && slices.Contains(g.cfg.GroupBy, "service")
	switch measure, direction := inst.Labels["measure"], inst.Labels["direction"]; {
	case problem && len(ev.Shares) == 0 && measure != "" && direction != "" && (inst.Rule.Queries(rules.MetricUnusual) || inst.Rule.Queries(rules.MetricVersionEvidence)):
		return ProblemKey(inst.Labels, g.cfg.GroupBy, measure+"_"+direction)
	case problem && inst.Rule.Queries(rules.MetricLimitExhausted):
		return ProblemKey(inst.Labels, g.cfg.GroupBy, alerts.RateLimitNear)
	case !problem, len(ev.Shares) == 0:
		return groupKey(inst.Rule.Name, inst.Labels, g.cfg.GroupBy)
	}
	lead := ev.Lead()
	key := ProblemKey(inst.Labels, g.cfg.GroupBy, lead.ID())
	if g.open[key] != nil || lead.ID() != lead.Cause {
		return key
	}
	// Not every failure with a cause shows its root cause, so it may be a known problem with that cause.
	best, prefix := "", strings.TrimSuffix(ProblemKey(inst.Labels, g.cfg.GroupBy, ""), `"}`)
	for other, o := range g.open {
		if strings.HasPrefix(other, prefix) && o.counts(lead.Cause) && (best == "" || other < best) {
			best = other
		}
	}
	return cmp.Or(best, key)
}

// ProblemKey returns the key of the group of alerts with these labels about a problem. by is Config.GroupBy.
func ProblemKey(labels map[string]string, by []string, problem string) string {
	labels = maps.Clone(labels)
	labels[alerts.ProblemLabel] = problem
	return groupKey(alerts.ProblemLabel, labels, append(slices.Clone(by), alerts.ProblemLabel))
}

// groupKey returns the key of the group that an alert belongs to.
func groupKey(rule string, kv map[string]string, by []string) string {
	var pairs []string
	for _, l := range by {
		if v, ok := kv[l]; ok {
			pairs = append(pairs, fmt.Sprintf("%s=%q", l, v))
		}
	}
	return rule + "{" + strings.Join(pairs, ",") + "}"
}
