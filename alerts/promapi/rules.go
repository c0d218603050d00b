package promapi

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/dashboards/access"
)

// The states of a rule and of an alert.
const (
	stateInactive = "inactive"
	statePending  = "pending"
	stateFiring   = "firing"
)

type ruleGroup struct {
	Name           string    `json:"name"`
	File           string    `json:"file"`
	Interval       float64   `json:"interval"` // seconds
	Limit          int       `json:"limit"`
	Rules          []rule    `json:"rules"`
	EvaluationTime float64   `json:"evaluationTime"` // unknown
	LastEvaluation time.Time `json:"lastEvaluation"`
	every          time.Duration
}

type rule struct {
	State          string            `json:"state"`
	Name           string            `json:"name"`
	Query          string            `json:"query"`
	Duration       float64           `json:"duration"` // seconds
	KeepFiringFor  float64           `json:"keepFiringFor"`
	Labels         map[string]string `json:"labels"`
	Annotations    map[string]string `json:"annotations"`
	Alerts         []alert           `json:"alerts"`
	Health         string            `json:"health"`
	EvaluationTime float64           `json:"evaluationTime"`
	LastEvaluation time.Time         `json:"lastEvaluation"`
	Type           string            `json:"type"`
}

type alert struct {
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	State           string            `json:"state"`
	ActiveAt        time.Time         `json:"activeAt"`
	KeepFiringSince *time.Time        `json:"keepFiringSince,omitempty"`
	Value           string            `json:"value"`
}

// rules returns the rules of all engines, in groups of the same interval.
func (h *Handler) rules(f *form) (result, *apiError) {
	switch kind := f.FormValue("type"); kind {
	case "", "alert":
	case "record": // there are none
		return result{data: map[string][]ruleGroup{"groups": {}}}, nil
	default:
		return result{}, badData("invalid parameter \"type\": %q is neither alert nor record", clip(kind))
	}
	names := f.Form["rule_name[]"]
	selectors, err := h.parser.ParseMetricSelectors(f.Form["match[]"])
	if err != nil {
		return result{}, badData("invalid parameter \"match[]\": %w", err)
	}
	groups := []ruleGroup{}
	for _, e := range h.Engines() {
		begin := len(groups)
		for _, s := range e.States() {
			if len(names) > 0 && !slices.Contains(names, s.Name) || !selects(selectors, s.Labels) || !seen(f, &s) {
				continue
			}
			i := slices.IndexFunc(groups[begin:], func(g ruleGroup) bool { return g.every == s.Every })
			if i < 0 {
				i = len(groups) - begin
				groups = append(groups, ruleGroup{Name: "every " + model.Duration(s.Every).String(), Interval: s.Every.Seconds(), every: s.Every})
				if e.Health() {
					groups[len(groups)-1].Name = "llmtap itself, " + groups[len(groups)-1].Name
				}
			}
			g := &groups[begin+i]
			g.Rules = append(g.Rules, ruleOf(s))
			if s.Evaluated.After(g.LastEvaluation) {
				g.LastEvaluation = s.Evaluated
			}
		}
	}
	slices.SortStableFunc(groups, func(a, b ruleGroup) int { return cmp.Compare(a.Name, b.Name) })
	return result{data: map[string][]ruleGroup{"groups": groups}}, nil
}

// selects reports whether one of the selectors matches the labels of a rule, or there are none.
func selects(selectors [][]*labels.Matcher, kv map[string]string) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(all []*labels.Matcher) bool {
		return !slices.ContainsFunc(all, func(m *labels.Matcher) bool { return !m.Matches(kv[m.Name]) })
	})
}

func ruleOf(s engine.RuleState) rule {
	out := rule{
		State: stateInactive, Name: s.Name, Query: s.Expr, Duration: s.For.Seconds(), KeepFiringFor: s.KeepFiringFor.Seconds(),
		Labels: s.Labels, Annotations: s.Annotations, Alerts: alertsOf(s), Health: "ok", LastEvaluation: s.Evaluated, Type: "alerting",
	}
	switch {
	case s.Firing > 0:
		out.State = stateFiring
	case s.Pending > 0:
		out.State = statePending
	}
	if s.Evaluated.IsZero() {
		out.Health = "unknown"
	}
	return out
}

func alertsOf(s engine.RuleState) []alert {
	out := []alert{}
	for _, a := range s.Active {
		l := maps.Clone(a.Labels)
		l[model.AlertNameLabel] = s.Name
		x := alert{Labels: l, Annotations: a.Annotations, State: statePending, ActiveAt: a.ActiveAt, Value: strconv.FormatFloat(a.Value, 'e', -1, 64)}
		if a.Firing {
			x.State = stateFiring
		}
		if !a.KeptSince.IsZero() {
			x.KeepFiringSince = &a.KeptSince
		}
		out = append(out, x)
	}
	return out
}

// seen removes from s what the person of f does not see, and reports whether they see s.
func seen(f *form, s *engine.RuleState) bool {
	scope := access.ScopeOf(f.Context())
	if scope.All() {
		return true
	}
	s.Firing, s.Pending = 0, 0
	s.Active = slices.DeleteFunc(slices.Clone(s.Active), func(a rules.Instance) bool { return !scope.Sees(a.Labels) })
	for _, a := range s.Active {
		if a.Firing {
			s.Firing++
		} else {
			s.Pending++
		}
	}
	return scope.SeesRule(s.Expr)
}

// alerts returns the pending and the firing alerts. Silenced and inhibited ones are among them, as in Prometheus.
func (h *Handler) alerts(f *form) (result, *apiError) {
	out := []alert{}
	for _, e := range h.Engines() {
		for _, s := range e.States() {
			seen(f, &s)
			out = append(out, alertsOf(s)...)
		}
	}
	return result{data: map[string][]alert{"alerts": out}}, nil
}
