package main

import (
	"context"
	"errors"
	"flag"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/gate"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
)

var gateCommand = &command.Command{
	Name:  "gate",
	Short: "Stop a rollout if the new version is worse than the one before",
	Long: `Run it in a deployment pipeline while a new version rolls out. It compares the
calls of both versions every few seconds, ends at once if the new version is worse,
and otherwise after --for.

Calls of both versions at the same time are compared, so that an outage of the
provider is no evidence. If the version before has no calls anymore, new calls are
compared with its last ones; failures of the provider do not count then. A
conversation counts as failed once.

Durations, times to the first token, tokens, the messages of a request, costs, the
share of tool replies that report an error, and the share of a prompt that could have
been read from the provider's cache and was not are compared in the same way. A call
counts as bad if it exceeds the 95th percentile of the version before in the hour
before the rollout, in stages with at least 100 calls in that hour. Durations are
compared only with calls at the same time. Half of --alpha is for failures.

The test is valid however often it looks: the probability of stopping a version that
is not worse in anything is at most --alpha.

Exit code:
  0  good: not worse, and at least --min-calls were compared
  1  worse
  2  too few calls for a verdict
  3  no verdict: wrong flags, or the stored calls could not be read

Fields of --format json: verdict (good, worse, too_few_calls), service, version,
baseline, start, worse_at, evidence, threshold, compared_calls, min_calls,
stopped_at_call, worse_in (failures, duration, first_token, input_tokens,
output_tokens, history, cost, tool_errors, cache); stages: environment, stage, new,
old, compared_new, compared_old (each calls and failed),
compared_with_earlier_calls, evidence, ruled_out_odds_ratio, measures: measure,
before and after (95th percentiles), compared_new, compared_old (each calls and
above), evidence; causes: environment, stage, cause, root_cause, new_failed,
old_failed, reason, fix, example, page.`,
	Examples: `  llmtap gate --service checkout-agent --version 2.4.0 --for 10m --min-calls 200
  llmtap gate --service checkout-agent --version 2.4.0 --stage planner
  llmtap gate --service checkout-agent --version 2.4.0 --once --format json`,
	Run: runGate,
}

func runGate(ctx context.Context, c *command.Call) error {
	err := gateVerdict(ctx, c)
	exit, isExit := errors.AsType[*command.ExitError](err)
	if err == nil || errors.Is(err, flag.ErrHelp) || isExit && exit.Err == nil {
		return err
	}
	return &command.ExitError{Code: gate.ExitNoVerdict, Err: err} // other exit codes are verdicts
}

func gateVerdict(ctx context.Context, c *command.Call) error {
	o := gate.Options{Stdout: c.Stdout, Stderr: c.Stderr}
	p := c.Parameters
	p.StringVar(&o.Service, "service", "", "`name`: the service; required")
	p.StringVar(&o.Version, "version", "", "`version`: the new version; required")
	p.StringVar(&o.Baseline, "baseline", "", "`version`: the version before (default: the other version with the most calls)")
	p.StringVar(&o.Stage, "stage", "", "`name`: only this stage")
	p.StringVar(&o.Environment, "environment", "", "`name`: only this environment")
	p.DurationVar(&o.For, "for", 10*time.Minute, "`duration`: time to watch the rollout; earlier calls of the new version count for as long")
	p.Uint64Var(&o.MinCalls, "min-calls", 200, "`number` of calls of the new version to compare before it is good")
	p.Float64Var(&o.Alpha, "alpha", 0.001, "`probability` of stopping a version that is not worse")
	p.BoolVar(&o.Once, "once", false, "look once at the last --for, without waiting")
	servers := connect.Flags(c)
	format := c.Format(command.Text, command.JSON)
	o.Style = c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	o.Format = *format
	if err := o.Validate(); err != nil {
		return err
	}
	cfg, err := servers.Config()
	if err != nil {
		return err
	}
	o.Prices = cfg.Prices
	return servers.WithStore(ctx, func(q rows.Querier) error {
		o.Pages = func() string { return servers.PagesURL(q) }
		return gate.Run(ctx, q, &o)
	})
}
