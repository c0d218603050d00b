// Package pages implements the sources of dashboards/web with the parts of a collector.
//
//	dashboards/web ──> Source ─────> sinks/clickhouse
//	               ──> Alerts ─────> watch of the alerts' state in NATS
//	               ──> Tallies ────> alert engine of this process: of the role alert, or one that only answers queries
package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/silences"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A Source returns the ClickHouse in use, or the reason why there is none.
type Source func() (*clickhouse.Sink, error)

// Query implements web.Query.
func (open Source) Query(ctx context.Context, sql string, params map[string]string) (*web.Table, error) {
	sink, err := open()
	if err != nil {
		return nil, unavailable(err)
	}
	return tableOf(sink.Query(ctx, sql, params))
}

// Explore implements web.Query for statements that a viewer wrote.
func (open Source) Explore(ctx context.Context, sql string, params map[string]string) (*web.Table, error) {
	sink, err := open()
	if err != nil {
		return nil, unavailable(err)
	}
	return tableOf(sink.QueryBounded(ctx, sql, params))
}

func tableOf(res *clickhouse.Result, err error) (*web.Table, error) {
	if err != nil {
		if clickhouse.OutOfMemory(err) {
			err = fmt.Errorf("%w: %w", web.ErrTooMuch, err)
		} else if clickhouse.Unreachable(err) && !errors.Is(err, context.DeadlineExceeded) {
			err = unavailable(err)
		}
		return nil, err
	}
	t := &web.Table{Rows: res.Rows, Truncated: res.Truncated}
	for _, col := range res.Columns {
		t.Columns = append(t.Columns, web.Column{Name: col.Name, Type: col.Type})
	}
	return t, nil
}

// Write writes a table in one of table.Formats.
func Write(w io.Writer, t *web.Table, format string) error {
	res := &clickhouse.Result{Rows: t.Rows}
	for _, c := range t.Columns {
		res.Columns = append(res.Columns, clickhouse.Column{Name: c.Name, Type: c.Type})
	}
	return table.Write(w, res, format, nil)
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", web.ErrUnavailable, err) }

// Alerts are the alerts of Groups.
type Alerts struct{ Groups *engine.SharedGroups }

// Firing implements web.Firing.
func (a Alerts) Firing(ctx context.Context) ([]web.Alert, error) {
	groups, _, ok := a.Groups.Groups()
	if !ok {
		return nil, fmt.Errorf("the state of the alerts is %w: NATS does not answer", web.ErrUnavailable)
	}
	var out []web.Alert
	scope := access.ScopeOf(ctx)
	for _, g := range groups {
		for i := range g.Alerts {
			if x := &g.Alerts[i]; x.State == alerts.Firing && x.Severity() != "none" && scope.Sees(x.Labels) {
				out = append(out, describe(x, &g, scope))
			}
		}
	}
	slices.SortFunc(out, func(a, b web.Alert) int {
		return cmp.Or(cmp.Compare(rank(b.Severity), rank(a.Severity)), b.StartsAt.Compare(a.StartsAt), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

func rank(severity string) int {
	return (&alerts.Alert{Labels: map[string]string{"severity": severity}}).Rank()
}

// Changes returns a channel that receives a value after a change of Firing. It is closed when ctx ends.
func (a Alerts) Changes(ctx context.Context) <-chan struct{} {
	changes, stop := a.Groups.Listen()
	context.AfterFunc(ctx, stop)
	return changes
}

// describe returns a, as somebody with a scope that has it may see it.
func describe(a *alerts.Alert, g *alerts.Group, scope *access.Scope) web.Alert {
	out := web.Alert{
		ID: a.ID(), Name: a.Name, Severity: a.Severity(), Labels: a.Matchable(), Subject: wording.Subject(a), Summary: wording.Counts(a),
		StartsAt: a.StartsAt, EndsAt: a.EndsAt, UpdatedAt: a.UpdatedAt, Muted: a.Muted(), Fix: a.Annotations["runbook"],
	}
	out.FirstBad, out.LastClean = a.Evidence.Regression()
	if s := a.Evidence.Shares; len(s) > 0 {
		out.Why, out.Kind, out.Cause = wording.Why(&a.Evidence, 0), wording.Kind(&a.Evidence, s[0]), s[0].ID()
		if s[0].Fix != "" {
			out.Fix = s[0].Fix
		}
	}
	if g.Ack != nil {
		out.Acked = cmp.Or(g.Ack.ByName, g.Ack.By)
	}
	if a.Silence != nil {
		out.Silenced = silenceOf(a.Silence)
		if !silences.Within(scope, a.Silence.Matchers) {
			out.Silenced.Matchers, out.Silenced.Comment = nil, "of several services"
		}
	}
	if a.Problem != "" {
		out.Problem = alerts.GroupID(g.Key)
	}
	if x := a.Inhibitor; x != nil {
		out.Part = x.Name
		if scope.Sees(map[string]string{"service": engine.GroupLabel(x.Group, "service"), "environment": engine.GroupLabel(x.Group, "environment")}) {
			out.Part += ": " + x.Summary
		} else {
			out.Part = "an alert about several services"
		}
	}
	return out
}

// Tallies implements web.Tallies with the engine of this process, or nil.
type Tallies func() *engine.Engine

// Usual implements web.Usual.
func (t Tallies) Usual(ctx context.Context, service, environment, stage string, at []time.Time, measures ...string) (map[string][]web.Band, error) {
	engine := t()
	if engine == nil {
		return nil, fmt.Errorf("what is usual is %w: NATS does not answer", web.ErrUnavailable)
	}
	out := map[string][]web.Band{}
	named := map[string]string{"service": service, "environment": environment}
	maps.DeleteFunc(named, func(_, value string) bool { return value == "" }) // any
	if !access.ScopeOf(ctx).Covers(named) {
		return out, nil
	}
	for name, bands := range engine.Usual(service, environment, stage, at, measures...) {
		for _, b := range bands {
			out[name] = append(out[name], web.Band(b))
		}
	}
	return out, nil
}

// Range implements web.Tallies.
func (t Tallies) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]web.Series, error) {
	engine := t()
	if engine == nil {
		return nil, fmt.Errorf("the tallies are %w: NATS does not answer", web.ErrUnavailable)
	}
	index := map[string]int{}
	var out []web.Series
	for at := from; !at.After(to); at = at.Add(step) {
		samples, err := engine.Query(ctx, expr, at)
		if err != nil {
			return nil, err
		}
		for _, s := range samples {
			key := fmt.Sprint(s.Labels) // maps are printed in order of their keys
			i, ok := index[key]
			if !ok {
				i = len(out)
				index[key] = i
				out = append(out, web.Series{Labels: s.Labels})
			}
			out[i].Points = append(out[i].Points, web.Point{At: at, Value: s.Value})
		}
	}
	return out, nil
}
