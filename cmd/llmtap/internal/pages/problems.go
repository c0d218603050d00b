package pages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
)

// Problems implements web.Problems.
type Problems struct {
	Controls
	Problems func() alerts.Problems // returns nil while they are not known
}

var _ web.Problems = Problems{}

func (p Problems) known() (alerts.Problems, error) {
	if x := p.Problems(); x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("problems are %w: NATS does not answer", web.ErrUnavailable)
}

// All implements web.Problems.
func (p Problems) All(ctx context.Context) ([]web.Problem, error) {
	x, err := p.known()
	if err != nil {
		return nil, err
	}
	groups := map[string]*alerts.Group{}
	list, _, _ := p.Groups.Groups()
	for i := range list {
		groups[list[i].Key] = &list[i]
	}
	scope := access.ScopeOf(ctx)
	out := []web.Problem{}
	for _, one := range x.All() {
		if scope.Sees(one.Labels()) {
			out = append(out, describeProblem(&one, within(groups[one.Key], scope), time.Now(), scope))
		}
	}
	return out, nil
}

// Problem implements web.Problems.
func (p Problems) Problem(ctx context.Context, id string) (*web.Problem, error) {
	x, err := p.known()
	if err != nil {
		return nil, err
	}
	v, err := seen(ctx, x, id)
	if err != nil {
		return nil, err
	}
	scope := access.ScopeOf(ctx)
	var group *alerts.Group
	list, _, _ := p.Groups.Groups()
	if i := slices.IndexFunc(list, func(g alerts.Group) bool { return g.Key == v.Key }); i >= 0 {
		group = within(&list[i], scope)
	}
	out := describeProblem(&v, group, time.Now(), scope)
	if c, err := p.controls(); err == nil { // otherwise they are not known
		for _, s := range c.Silences() {
			if silences.Within(scope, s.Matchers) && slices.ContainsFunc(matchable(&v, group), func(a alerts.Alert) bool { return s.Matches(a.Name, a.Matchable()) }) {
				out.Silences = append(out.Silences, *silenceOf(&s))
			}
		}
	}
	return &out, nil
}

// within returns the alerts of g that scope has, or nil if there are none. A group has those of several services and environments only if
// alerts.group_by lacks these labels.
func within(g *alerts.Group, scope *access.Scope) *alerts.Group {
	if g == nil || scope.All() {
		return g
	}
	out := *g
	out.Alerts = slices.DeleteFunc(slices.Clone(g.Alerts), func(a alerts.Alert) bool { return !scope.Sees(a.Labels) })
	if len(out.Alerts) == 0 {
		return nil
	}
	return &out
}

// seen returns a problem that the person of ctx sees.
func seen(ctx context.Context, x alerts.Problems, id string) (alerts.Problem, error) {
	v, ok, err := x.Get(ctx, id)
	if err != nil {
		return v, unavailable(err)
	}
	if !ok || !access.ScopeOf(ctx).Sees(v.Labels()) {
		return v, fmt.Errorf("problem %s %w", id, web.ErrNotFound)
	}
	return v, nil
}

// matchable returns the alerts of a problem, or what is known of them: g is nil if they are forgotten.
func matchable(p *alerts.Problem, g *alerts.Group) []alerts.Alert {
	if g != nil {
		return g.Alerts
	}
	labels := map[string]string{"service": p.Service, "environment": p.Environment, "stage": p.Stage, "severity": p.Severity}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	var out []alerts.Alert
	for _, rule := range p.Rules {
		out = append(out, alerts.Alert{Name: rule, Labels: labels, Problem: p.Cause})
	}
	return out
}

// describeProblem returns p as of now for somebody with a scope that has it. g is its group of alerts; nil if they are forgotten.
func describeProblem(p *alerts.Problem, g *alerts.Group, now time.Time, scope *access.Scope) web.Problem {
	out := web.Problem{
		ID: p.ID(), Key: p.Key, Service: p.Service, Environment: p.Environment, Stage: p.Stage, State: p.State(now), Severity: p.Severity, Cause: p.Cause,
		FirstSeen: p.FirstSeen, LastSeen: p.LastSeen, Rules: p.Rules, Incidents: p.Incidents, Firing: p.Firing, Alert: p.Alert, Assignee: p.Assignee,
		Assigned: decision(p.Assigned), Acked: decision(p.Acknowledged), Accepted: decision(p.Accepted), Unusual: p.Measure != "",
	}
	out.Subject = cmp.Or(strings.Trim(p.Service+"/"+p.Stage, "/"), p.Cause)
	out.Summary = strings.TrimPrefix(p.Summary, p.Service+"/"+p.Stage+": ")
	out.Kind, out.Why, out.Fix = wording.Problem(p.Cause, p.Guessed)
	out.Kind = cmp.Or(p.Kind, out.Kind)
	out.Measure, out.Direction = wording.Measure(p.Cause)
	out.Fix = cmp.Or(p.Fix, out.Fix)
	for _, v := range p.Versions {
		if v.Version != "" {
			out.Versions = append(out.Versions, v.Version)
		}
	}
	if r := p.Resolved; r != nil {
		out.Fixed = &web.Decision{By: r.By, At: r.At, Version: r.Version}
	}
	if r := p.Regressed; r != nil && p.Resolved == nil {
		out.Regressed = &web.Decision{At: r.At, Version: r.Version}
		out.Fixed = &web.Decision{By: r.Fixed.By, At: r.Fixed.At, Version: r.Fixed.Version}
	}
	if i := p.Ignored; i != nil {
		out.Ignored = &web.Decision{By: i.By, At: i.At, Until: i.Until, Users: i.Users, Hit: i.Hit}
	}
	if g != nil {
		describeGroup(&out, g, scope)
	}
	return out
}

// describeGroup adds what the alerts of a problem show.
func describeGroup(out *web.Problem, g *alerts.Group, scope *access.Scope) {
	out.Firing, out.Muted, out.Findings = g.Firing(), g.Muted(), true
	for i := range g.Alerts {
		out.Alerts = append(out.Alerts, describe(&g.Alerts[i], g, scope))
		out.Findings = out.Findings && len(g.Alerts[i].Evidence.Rules) > 0
	}
	worst := g.Worst()
	a := describe(&worst, g, scope)
	out.Severity, out.Alert, out.Summary = a.Severity, a.ID, a.Summary
	for _, s := range worst.Evidence.Shares {
		if s.ID() != out.Cause {
			continue
		}
		out.FirstAt, out.FirstBad, out.LastClean = s.FirstAt, s.FirstVersion, s.LastClean
		if a.Cause == out.Cause {
			out.FirstBad, out.LastClean = a.FirstBad, a.LastClean
		}
	}
	if x := worst.Evidence.Example; x != nil {
		out.Exchange = x.Exchange
	}
}

func decision(d *alerts.Decision) *web.Decision {
	if d == nil {
		return nil
	}
	return &web.Decision{By: d.By, At: d.At}
}

// Decide implements web.Problems.
func (p Problems) Decide(ctx context.Context, id string, d web.ProblemDecision, by string) error {
	x, err := p.known()
	if err != nil {
		return err
	}
	if _, err := seen(ctx, x, id); err != nil {
		return err
	}
	_, err = x.Decide(ctx, id, alerts.ProblemDecision{Action: d.Action, Assignee: d.Assignee, Version: d.Version, Until: d.Until, Users: d.Users, Note: d.Note}, actor(by))
	return err
}
