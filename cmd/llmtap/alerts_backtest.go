package main

import (
	"context"
	"errors"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/backtest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/query"
	"github.com/llmtap/llmtap/dashboards/queries"
)

var alertsBacktestCommand = &command.Command{
	Name:  "alerts backtest",
	Args:  "[FILE]...",
	Short: "Replay alert rules over stored data",
	Long: `It evaluates the rules over the calls and findings stored in ClickHouse, with the
engine that evaluates them live, and reports when each rule would have fired, for
how long, and on what evidence. It notifies nobody. Without files it uses the rule
files of the configuration, else the shipped rules.

Not replayed: rules on the health of llmtap and on lost events, which are not
stored. A cause counts as new if no stored call failed for it before.

` + query.Times,
	Examples: `  llmtap alerts backtest
  llmtap alerts backtest --since 24h my-rules.yaml
  llmtap alerts backtest --since 2026-11-20 --until 2026-11-21T09:30:00Z
  llmtap alerts backtest --format json my-rules.yaml | jq '.alerts[].peak'`,
	Run: runAlertsBacktest,
}

func runAlertsBacktest(ctx context.Context, c *command.Call) error {
	servers := connect.Flags(c)
	since := c.Parameters.String("since", "7d", "start `time`")
	until := c.Parameters.String("until", "", "end `time`; empty: now")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	now := time.Now()
	from, err := queries.ParseTime(*since, now)
	to := now
	if err == nil && *until != "" {
		to, err = queries.ParseTime(*until, now)
	}
	if err == nil && !from.Before(to) {
		err = errors.New("--since is not before --until")
	}
	if err != nil {
		return command.BadInput(err)
	}
	effective, err := servers.Config()
	if err != nil {
		return err
	}
	cfg := effective.Alerts
	if len(c.Args) > 0 {
		cfg.RuleFiles = c.Args
	}
	r, err := backtest.New(cfg, from, to)
	if err != nil {
		return command.BadInput(err)
	}
	sink, err := servers.ClickHouse(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sink.Close() }() // only read
	if err := r.Run(ctx, cfg, sink, c.Stderr); err != nil {
		return err
	}
	return r.Write(c.Stdout, *format)
}
