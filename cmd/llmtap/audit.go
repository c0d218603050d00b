package main

import (
	"context"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/auditlog"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/table"
	"github.com/llmtap/llmtap/dashboards/access"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var auditCommand = &command.Command{
	Name:  "audit",
	Short: "List who read texts, ran SQL, exported, erased or changed something",
	Long: `Lists requests to the pages, the API and MCP, and what llmtap forget erased. It
needs the role admin, or a direct connection to ClickHouse. Statements on such a
connection are not recorded by llmtap, but by ClickHouse in system.query_log.
The log of the collector has the same records, in lines with the message audit.`,
	Examples: `  llmtap audit --since 24h
  llmtap audit --who ann --what read_texts
  llmtap audit --target checkout-1-0060 --format json | jq -r '.[].person'`,
	Run: runAudit,
}

func runAudit(ctx context.Context, c *command.Call) error {
	values := queries.Values{}
	for _, x := range []struct{ name, usage string }{
		{"since", "start of the `time` range: a time, or a duration before now; default 7 days"},
		{"until", "end of the `time` range; default now"},
		{"who", "`text`: a part of the name of the person, or their whole id"},
		{"what", "`action`: " + auditlog.Actions()},
		{"target", "`id` of a conversation, call, alert, silence, problem, token or user"},
		{"outcome", "`outcome`: " + strings.Join(access.Outcomes, ", ")},
		{"limit", "maximum `number` of records; default 200"},
	} {
		c.Parameters.Func(x.name, x.usage, func(v string) error {
			values[x.name] = []string{v}
			return nil
		})
	}
	servers, format, style := connect.Flags(c), c.Format(table.Formats...), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	return servers.WithStore(ctx, func(q rows.Querier) error { return auditlog.List(ctx, q, values, c.Stdout, *format, style) })
}
