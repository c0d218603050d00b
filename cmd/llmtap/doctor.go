package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/doctor"
)

var doctorCommand = &command.Command{
	Name:  "doctor",
	Short: "Check a set-up: what is wrong, and how to fix it",
	Long: `It changes nothing. Run it with the configuration of llmtap up; if NATS or ClickHouse
are embedded, run it as the same user on the same machine.

Exit code: 1 if a check fails. Warnings do not change it.`,
	Examples: `  llmtap doctor
  llmtap doctor --config llmtap.yaml
  llmtap doctor --data-dir /var/lib/llmtap --format json`,
	Run: runDoctor,
}

func runDoctor(ctx context.Context, c *command.Call) error {
	flags := config.AddFlags(c.Flags, c.Getenv)
	format, style := c.Format(command.Text, command.JSON), c.Style()
	if err := c.Parse(); err != nil {
		return err
	}
	var report *doctor.Report
	if cfg, err := flags.Load(); err != nil {
		report = doctor.Invalid(err)
	} else {
		report = doctor.Run(ctx, cfg)
	}
	if err := report.Write(c.Stdout, *format, style); err != nil {
		return err
	}
	if report.Status == doctor.Fail {
		return &command.ExitError{Code: command.ExitFailed}
	}
	return nil
}
