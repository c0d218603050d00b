package collector

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/llmtap/llmtap/alerts/tsdb"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/clickhouse"
	"github.com/llmtap/llmtap/sinks/sqltext"
)

// hooks returns what listeners do with requests.
func (c *Collector) hooks() access.Hooks {
	return access.Hooks{Record: c.audit.record, Scope: c.scope}
}

func (c *Collector) policy() access.Policy {
	return access.Policy{Teams: c.cfg.Teams, Texts: c.cfg.UI.OIDC.Roles.Texts}
}

// scope limits what a request of p reads, from ClickHouse and elsewhere. Only admins read the audit.
func (c *Collector) scope(ctx context.Context, p access.Person) context.Context {
	policy := c.policy()
	s := policy.Scope(p)
	ctx = access.WithScope(ctx, s)
	if p.Role >= access.Admin {
		return ctx
	}
	if !s.All() {
		ctx = tsdb.WithOnly(ctx, func(l labels.Labels) bool { return s.Sees(l.Map()) })
	}
	return clickhouse.WithScope(ctx, tablesOf(s))
}

// tablesOf returns the rows of s. Messages have no service: statements read them by ids from rows of other tables.
func tablesOf(s *access.Scope) clickhouse.Scope {
	out := clickhouse.Scope{sinks.Audit.Name(): clickhouse.Nothing}
	if s.All() {
		return out
	}
	of := func(service, environment string) string {
		return s.SQL(map[string]string{"service": service, "environment": environment}, sqltext.QuoteString)
	}
	for _, t := range []sinks.Table{sinks.Exchanges, sinks.Findings, sinks.ToolCalls, sinks.Runs} {
		out[t.Name()] = of("service", "environment")
	}
	out[sinks.Alerts.Name()] = of("labels['service']", "labels['environment']")
	// The key of a group is its rule and labels, with quoted values.
	out[sinks.Actions.Name()] = of("service", `JSONExtractString(extract(group_key, '[{,]environment=("(?:[^"\\\\]|\\\\.)*")'))`)
	out[sinks.History.Name()] = of("service", "")
	if s.Constrains("environment") {
		out[sinks.History.Name()] += " AND exchange_id IN (SELECT exchange_id FROM " + sinks.Exchanges.Name() + ")"
	}
	return out
}
