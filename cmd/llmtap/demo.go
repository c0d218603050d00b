package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/demo"
)

var demoCommand = &command.Command{
	Name:  "demo",
	Short: "Watch a fleet of agents fail, and the alert arrive",
	Long: `Runs NATS, ClickHouse and, in a second process, agents that call a
provider over HTTP. Three agents have defects that have broken real fleets. Only the
provider and Slack are simulated. Nothing leaves this machine.

The first line is the address of the web page of the fleet. Without --exit the demo
keeps running, and prints the address of its Slack, on whose page you can
acknowledge and silence the alert.`,
	Examples: `  llmtap demo
  llmtap demo --exit
  llmtap demo --exit --format json | jq .alerts`,
	Run: runDemo,
}

var agentsCommand = &command.Command{
	Name: demo.AgentsCommand, Hidden: true,
	Run: func(ctx context.Context, c *command.Call) error {
		return demo.RunAgents(ctx, c.Stdin, c.Stdout, c.Stderr)
	},
}

func runDemo(ctx context.Context, c *command.Call) error {
	o := demo.Options{Stdout: c.Stdout, Stderr: c.Stderr, Version: buildVersion().Version}
	c.Flags.BoolVar(&o.Exit, "exit", false, "exit after the report, rather than on Ctrl-C")
	c.Flags.StringVar(&o.DataDir, "data-dir", "", "data `directory`; empty: a temporary one")
	c.Flags.Uint64Var(&o.Seed, "seed", 1, "`seed` of the agents' behavior")
	format := c.Format(command.Text, command.JSON)
	if err := c.Parse(); err != nil {
		return err
	}
	o.Format = *format
	return demo.Run(ctx, o)
}
