package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/silence"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/backtest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
)

// via is Actor.Via of people who use the pages.
const via = "web"

// Controls implements web.Controls.
type Controls struct {
	Alerts
	Config        engine.Config
	Prices        price.Table // for Backtest
	Alertmanagers []string    // URLs that receive alerts
	Others        bool        // there are other receivers, which silences affect
	Engines       func() []*engine.Engine
	Controls      func() alerts.Controls // returns nil if the silences are not known
	Sink          Source
}

var _ web.Controls = Controls{}

// Rules implements web.Controls.
func (c Controls) Rules(ctx context.Context) ([]web.Rule, error) {
	engines := c.Engines()
	if len(engines) == 0 {
		return nil, fmt.Errorf("the state of the rules is %w: this process does not run the role alert", web.ErrUnavailable)
	}
	var out []web.Rule
	scope := access.ScopeOf(ctx)
	for i, e := range engines {
		list, err := e.Rules(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if r.Severity == "none" || !scope.SeesRule(r.Expr) {
				continue
			}
			x := web.Rule{
				Name: r.Name, Severity: r.Severity, Expr: r.Expr, For: r.For, Measured: r.Condition.Value, Op: r.Condition.Op, Threshold: r.Condition.Threshold, Others: r.Condition.Others,
				Series: r.Series, Pending: r.Pending, Firing: r.Firing, Evaluated: r.Evaluated, Health: i > 0,
			}
			if r.Nearest != nil && scope.Sees(r.Nearest.Labels) {
				x.Value, x.Labels = r.Nearest.Value, r.Nearest.Labels
			} else if r.Nearest != nil {
				x.Series = 0
			}
			if !scope.All() {
				x.Pending, x.Firing = 0, 0
				for _, a := range r.Active {
					switch {
					case !scope.Sees(a.Labels):
					case a.Firing:
						x.Firing++
					default:
						x.Pending++
					}
				}
			}
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b web.Rule) int {
		return cmp.Or(cmp.Compare(b.Firing, a.Firing), cmp.Compare(b.Pending, a.Pending))
	})
	return out, nil
}

func (c Controls) controls() (alerts.Controls, error) {
	if x := c.Controls(); x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("silences and acknowledgements are %w: NATS does not answer", web.ErrUnavailable)
}

// Silences implements web.Controls.
func (c Controls) Silences(ctx context.Context) ([]web.Silence, error) {
	x, err := c.controls()
	if err != nil {
		return nil, err
	}
	firing, err := c.Firing(ctx)
	if err != nil {
		return nil, err
	}
	var out []web.Silence
	for _, s := range x.Silences() {
		if !silences.Within(access.ScopeOf(ctx), s.Matchers) {
			continue
		}
		one := silenceOf(&s)
		for _, a := range firing {
			if s.Matches(a.Name, a.Labels) {
				one.Matched = append(one.Matched, a)
			}
		}
		out = append(out, *one)
	}
	return out, nil
}

func silenceOf(s *silence.Silence) *web.Silence {
	out := &web.Silence{ID: s.ID, By: s.CreatedBy, Comment: s.Comment, From: s.StartsAt, To: s.EndsAt}
	for _, m := range s.Matchers {
		if m.Value != "" { // a label that the group lacks
			out.Matchers = append(out.Matchers, m.String())
		}
	}
	return out
}

// group returns the open group of the alert with an id, all of whose alerts the person of ctx sees.
func (c Controls) group(ctx context.Context, id string) (alerts.Group, error) {
	groups, _, _ := c.Groups.Groups()
	for _, g := range groups {
		if slices.ContainsFunc(g.Alerts, func(a alerts.Alert) bool { return a.State == alerts.Firing && a.ID() == id }) &&
			!slices.ContainsFunc(g.Alerts, func(a alerts.Alert) bool { return !access.ScopeOf(ctx).Sees(a.Labels) }) {
			return g, nil
		}
	}
	return alerts.Group{}, errors.New("the alert has ended")
}

// Acknowledge implements web.Controls.
func (c Controls) Acknowledge(ctx context.Context, id, by string, withdraw bool) error {
	x, err := c.controls()
	if err != nil {
		return err
	}
	g, err := c.group(ctx, id)
	if err != nil {
		return err
	}
	if withdraw {
		err = x.Unacknowledge(ctx, g.Key, g.Since(), actor(by))
	} else {
		err = x.Acknowledge(ctx, alerts.Ack{Group: g.Key, Incident: g.Since(), By: by, ByName: by}, via)
	}
	if err == nil {
		c.await(ctx, func(now alerts.Group) bool { return now.Key != g.Key || (now.Ack == nil) == withdraw })
	}
	return err
}

// visibleTimeout bounds the wait for the process that evaluates the rules.
const visibleTimeout = 2 * time.Second

// await waits until the state of all groups shows a change, so that the next page does.
func (c Controls) await(ctx context.Context, shows func(alerts.Group) bool) {
	ctx, cancel := context.WithTimeout(ctx, visibleTimeout)
	defer cancel()
	changes := c.Changes(ctx)
	for {
		groups, _, _ := c.Groups.Groups()
		if !slices.ContainsFunc(groups, func(g alerts.Group) bool { return !shows(g) }) {
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}

// silenced reports whether the alerts of g that fire and that s matches are silenced, or are not.
func silenced(g *alerts.Group, s *silence.Silence, want bool) bool {
	return !slices.ContainsFunc(g.Alerts, func(a alerts.Alert) bool {
		if a.State != alerts.Firing || !s.Matches(a.Name, a.Matchable()) {
			return false
		}
		if want {
			return a.Silence == nil
		}
		return a.Silence != nil && a.Silence.ID == s.ID
	})
}

func actor(by string) alerts.Actor { return alerts.Actor{ID: by, Name: by, Via: via} }

// SilenceAlert implements web.Controls.
func (c Controls) SilenceAlert(ctx context.Context, id string, until time.Time, comment, by string) error {
	g, err := c.group(ctx, id)
	if err != nil {
		return err
	}
	matchers := g.Matchers(c.Config.GroupBy)
	if matchers == nil {
		return errors.New("a label of the alert is too long for a silence")
	}
	return c.add(ctx, matchers, g.Key, until, comment, by)
}

// AddSilence implements web.Controls.
func (c Controls) AddSilence(ctx context.Context, matchers []string, until time.Time, comment, by string) error {
	parsed, err := silence.ParseMatchers(matchers)
	if err != nil {
		return err
	}
	return c.add(ctx, parsed, "", until, comment, by)
}

func (c Controls) add(ctx context.Context, matchers silence.Matchers, group string, until time.Time, comment, by string) error {
	x, err := c.controls()
	if err == nil {
		err = silences.Refusal(access.ScopeOf(ctx), matchers)
	}
	if err != nil {
		return err
	}
	s, err := x.AddSilence(ctx, silence.Silence{Matchers: matchers, StartsAt: time.Now(), EndsAt: until, CreatedBy: by, Comment: comment}, group, actor(by))
	if err == nil {
		c.await(ctx, func(g alerts.Group) bool { return silenced(&g, &s, true) })
	}
	return err
}

// Expire implements web.Controls.
func (c Controls) Expire(ctx context.Context, id, by string) error {
	x, err := c.controls()
	if err != nil {
		return err
	}
	before := x.Silences()
	if scope := access.ScopeOf(ctx); !scope.All() && !slices.ContainsFunc(before, func(s silence.Silence) bool { return s.ID == id && silences.Within(scope, s.Matchers) }) {
		return alerts.ErrNoSilence
	}
	if err := x.ExpireSilence(ctx, id, actor(by)); err != nil {
		return err
	}
	if i := slices.IndexFunc(before, func(s silence.Silence) bool { return s.ID == id }); i >= 0 {
		c.await(ctx, func(g alerts.Group) bool { return silenced(&g, &before[i], false) })
	}
	return nil
}

// Elsewhere implements web.Controls.
func (c Controls) Elsewhere() (text string, only bool) {
	warning, err := silences.Elsewhere(c.Alertmanagers, c.Others, nil, time.Time{})
	if err != nil {
		return sentence(err.Error()), true
	}
	return sentence(warning), false
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

// Backtest implements web.Controls.
func (c Controls) Backtest(ctx context.Context, rule string, from, to time.Time) (*web.Backtest, error) {
	report, err := backtest.New(c.Config, from, to, terminal.NewStyle(io.Discard, func(string) string { return "" }))
	if err != nil {
		return nil, err
	}
	if reason := report.NotTested[rule]; reason != "" {
		return &web.Backtest{Until: to, NotTested: "This rule cannot be replayed: " + reason + "."}, nil
	}
	if !slices.Contains(report.NeverFired, rule) {
		return nil, fmt.Errorf("rule %q: %w", rule, web.ErrNotFound)
	}
	sink, err := c.Sink()
	if err != nil {
		return nil, unavailable(err)
	}
	out := &web.Backtest{}
	report.Limit = web.BacktestLimit
	report.Options = engine.BacktestOptions{Rule: rule, Every: max(to.Sub(from)/240, time.Second), Observe: func(at time.Time, states []engine.RuleState) {
		i := 0
		for _, s := range states {
			if s.Condition.Op == "" {
				continue
			}
			if i == len(out.Values) {
				out.Values = append(out.Values, web.Series{Labels: map[string]string{"severity": s.Severity}})
				out.Thresholds = append(out.Thresholds, web.Threshold{Op: s.Condition.Op, Value: s.Condition.Threshold})
			}
			if s.Nearest != nil && !at.Before(from) {
				out.Values[i].Points = append(out.Values[i].Points, web.Point{At: at, Value: s.Nearest.Value})
			}
			i++
		}
	}}
	if err := report.Run(ctx, c.Config, c.Prices, sink, io.Discard); err != nil {
		return nil, err
	}
	out.Calls, out.Failed, out.Until = int64(report.Calls), int64(report.Failed), report.Until
	for _, a := range report.Alerts {
		one := web.BacktestAlert{Severity: a.Labels["severity"], From: a.StartsAt, Summary: a.Summary}
		one.Subject = cmp.Or(strings.Trim(a.Labels["service"]+"/"+a.Labels["stage"], "/"), a.Labels["provider"], a.Alert)
		if a.EndsAt != nil {
			one.To = *a.EndsAt
		}
		if a.Example != nil {
			one.Exchange = a.Example.Exchange
		}
		out.Alerts = append(out.Alerts, one)
	}
	return out, nil
}
