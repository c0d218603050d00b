package main

import (
	"context"
	"fmt"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/tail"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var tailCommand = &command.Command{
	Name:  "tail",
	Short: "Follow calls and findings as they are stored",
	Long:  "A call appears one to two seconds after it ended. Interrupt with Ctrl-C.",
	Examples: `  llmtap tail
  llmtap tail --service checkout-agent --stage planner
  llmtap tail --failed --since 10m --attr tenant=acme
  llmtap tail --rule orphan_tool_reply --format jsonl | jq .conversation_id`,
	Run: runTail,
}

func runTail(ctx context.Context, c *command.Call) error {
	t := tail.Tail{Out: c.Stdout, Stderr: c.Stderr}
	since := c.Parameters.Duration("since", 0, "begin with the last `duration`, such as 10m")
	t.Values = queries.Values{}
	names := query.AddFilters(c, queries.Filters("exchanges"), t.Values)
	c.Parameters.BoolVar(&t.Failed, "failed", false, "only failed calls")
	c.Parameters.StringVar(&t.Rule, "rule", "", "only calls with a finding of this `rule` or signal")
	servers := connect.Flags(c)
	format := c.Format(command.Text, command.JSONL)
	t.Style = c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	if *since < 0 {
		return command.BadInputf("--since %v is negative", *since)
	}
	if err := names(ctx, servers.ShapeKey); err != nil {
		return err
	}
	t.JSONL = *format == command.JSONL
	return servers.WithStore(ctx, func(q rows.Querier) error {
		fmt.Fprintf(c.Stderr, "waiting for calls; times are %s; interrupt with Ctrl-C\n", t.Style.In(time.Now()).Format("MST"))
		return t.Run(ctx, q, time.Now().Add(-*since))
	})
}
