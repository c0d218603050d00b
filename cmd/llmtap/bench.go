package main

import (
	"context"
	"os"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/bench"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

var benchCommand = &command.Command{
	Name:  "bench",
	Short: "Measure how many calls this machine observes without loss",
	Long: `Publishes the calls of a seeded fleet of agents, whose sizes, turns, tools and
errors are those of recorded traffic, to an llmtap of its own with embedded
servers, in a temporary directory. Without --rate it doubles the rate until
llmtap falls behind, bisects, and measures the highest sustained rate for
--duration.

It prints events and bytes per second, the times from publishing a response until
a query finds the call and from the first failures of a service until the alert
arrives, CPU and memory by process, and compares the published calls with the
stored ones by id.

With --analyzers N, NATS, ClickHouse, the alert role and N analyzers are processes
of their own. With --nats-url and --clickhouse-dsn, or --data-dir, a running
llmtap is measured; its processes and alerts are not. It stores the calls, in an
environment called bench-...

--overload and --outage add a phase that llmtap cannot keep up with, and measure
alerts while it catches up. --sample prints memory, goroutines, open files and disk
at intervals, and says which of them grow. --format json is the input of
llmtap size.

Exit code: 0 if every published call is stored once, else 1.`,
	Examples: `  llmtap bench
  llmtap bench --rate 200 --duration 1m --format json > bench.json
  llmtap bench --analyzers 4
  llmtap bench --rate 100 --duration 30m --sample 30s
  llmtap bench --rate 300 --overload 30s --outage 30s
  llmtap bench --nats-url nats://nats.internal:4222 --rate 500 \
    --clickhouse-dsn clickhouse://llmtap@ch.internal:9000/llmtap`,
	Run: runBench,
}

func runBench(ctx context.Context, c *command.Call) error {
	o := bench.Options{Progress: terminal.NewProgress(c.Stderr)}
	c.Flags.Float64Var(&o.Rate, "rate", 0, "`calls` per second; 0: find the highest that is sustained")
	c.Flags.DurationVar(&o.Duration, "duration", 30*time.Second, "`duration` of the measurement")
	c.Flags.DurationVar(&o.Step, "step", 10*time.Second, "`duration` of each step of the search, or of the warm-up with --rate")
	c.Flags.Uint64Var(&o.Seed, "seed", 1, "`seed` of the fleet")
	shape := c.Choice(c.Flags, "shape", bench.Shapes[0], "`shape` of the conversations", bench.Shapes...)
	c.Flags.IntVar(&o.Services, "services", 20, "`number` of services")
	c.Flags.IntVar(&o.Analyzers, "analyzers", 0, "`number` of analyzer processes; 0: one process of all roles")
	c.Flags.IntVar(&o.Partitions, "partitions", 0, "`number` of partitions; 0: one per analyzer")
	c.Flags.DurationVar(&o.Overload, "overload", 0, "`duration` of an overload after the measurement, at twice its rate")
	c.Flags.DurationVar(&o.Outage, "outage", 0, "`duration` of an outage of ClickHouse after it, at half its rate")
	c.Flags.DurationVar(&o.Sample, "sample", 0, "`interval` of samples during the measurement; 0: none")
	c.Flags.StringVar(&o.Dir, "temp-dir", "", "`directory` in which the temporary one is made; empty: the system's")
	servers := connect.DirectFlags(c, "nats.url")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	o.Shape = *shape
	given, closeServers, err := givenServers(ctx, servers)
	if err != nil {
		return err
	}
	defer closeServers()
	o.Given, o.Config = given, servers.File()
	if o.Binary, err = os.Executable(); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return command.BadInput(err)
	}
	report, err := bench.Run(ctx, &o)
	if err != nil {
		return err
	}
	if err := report.Write(c.Stdout, *format); err != nil {
		return err
	}
	if !report.Complete() {
		return &command.ExitError{Code: command.ExitFailed}
	}
	return nil
}

// givenServers returns the servers that flags select. The environment and the configuration select none, because a benchmark must
// not fill the database of a fleet by accident.
func givenServers(ctx context.Context, servers *connect.Servers) (given *bench.Given, closeServers func(), err error) {
	named, err := servers.Named()
	if err != nil || !named {
		return nil, func() {}, err
	}
	store, closeServers, err := servers.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &bench.Given{Connect: servers.ConnectNATS, Store: store}, closeServers, nil
}
