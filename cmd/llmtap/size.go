package main

import (
	"context"
	"strings"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/sizing"
)

var sizeCommand = &command.Command{
	Name:  "size",
	Short: "Compute what a fleet needs, and what breaks first",
	Long: `Computes processes, nodes, disk and network for a number of calls per second, and
for 10, 100 and 1000 times as many, and the rates at which limits are reached.

The constants were measured; deploy/SIZING.md says how. To use those of your
machine, measure at least two shapes of a fleet with llmtap bench --analyzers 1, and
pass the reports with --measured.`,
	Examples: `  llmtap size --calls 100
  llmtap size --calls 500 --call-bytes 60000 --new-bytes 3000 --services 80
  llmtap bench --analyzers 1 --shape short --format json > short.json
  llmtap bench --analyzers 1 --shape runs --format json > runs.json
  llmtap size --calls 100 --measured short.json,runs.json`,
	Run: runSize,
}

func runSize(_ context.Context, c *command.Call) error {
	f := sizing.Recorded()
	p := c.Parameters
	p.Float64Var(&f.Calls, "calls", 100, "`calls` per second")
	p.Float64Var(&f.CallBytes, "call-bytes", f.CallBytes, "mean `bytes` of the bodies of a call")
	p.Float64Var(&f.NewBytes, "new-bytes", f.NewBytes, "`bytes` of them that no earlier call of the conversation contained")
	p.Float64Var(&f.Conversations, "conversations", 0, "`number` of conversations with calls in half an hour; 0: as in recorded traffic")
	p.Float64Var(&f.Services, "services", 20, "`number` of services; grows with the square root of the calls")
	p.Float64Var(&f.Series, "series", 120, "`number` of combinations of service, version, stage, provider and model; likewise")
	p.Float64Var(&f.Failed, "failed", f.Failed, "`share` of the calls that fail")
	p.Float64Var(&f.RetentionDays, "days", f.RetentionDays, "`days` that ClickHouse keeps bodies")
	p.Float64Var(&f.Cores, "cores", f.Cores, "`cores` of a machine")
	memory := p.Float64("memory", 16, "memory.limit of an analyzer, in `GiB`")
	p.Float64Var(&f.Replicas, "replicas", f.Replicas, "`number` of replicas in NATS")
	measured := p.String("measured", "", "`files`: reports of llmtap bench --analyzers N --format json, separated by commas")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	f.Memory = *memory * (1 << 30)
	if err := f.Validate(); err != nil {
		return command.BadInput(err)
	}
	m := sizing.Default()
	if *measured != "" {
		var err error
		if m, err = sizing.Read(strings.Split(*measured, ",")...); err != nil {
			return command.BadInput(err)
		}
	}
	cfg := config.Default()
	return sizing.NewReport(f, &m, &cfg).Write(c.Stdout, *format)
}
