package main

import (
	"context"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
)

var configCommand = &command.Command{
	Name:  "config",
	Args:  "[FILE]",
	Short: "Print or check the effective configuration",
	Long: `FILE is the same as --config FILE. Output is YAML with the origin of each value. Secrets are masked. A flag
overrides the environment, which overrides the file. LLMTAP_A_B_C sets the key
a.b_c, and LLMTAP_COLLECTOR_NATS_URL sets nats.url. Values in the file may contain ${NAME}, an environment variable.

Exit code: 0 if the configuration is valid; 2 if not, with the line of each
error.`,
	Examples: `  llmtap config
  llmtap config llmtap.yaml
  llmtap config --check llmtap.yaml`,
	Run: runConfig,
}

func runConfig(_ context.Context, c *command.Call) error {
	flags := config.AddFlags(c.Flags, c.Getenv)
	check := c.Flags.Bool("check", false, "only check the configuration")
	if err := c.Parse(); err != nil {
		return err
	}
	if len(c.Args) == 1 {
		if flags.File != "" && flags.File != c.Getenv(config.FlagEnv("config")) {
			return command.BadInputf("two configuration files: %s and --config %s", c.Args[0], flags.File)
		}
		flags.File = c.Args[0]
	}
	cfg, err := flags.Load()
	if err != nil {
		return err
	}
	if *check {
		fmt.Fprintf(c.Stdout, "%s: the configuration is valid\n", cfg.Source())
		return nil
	}
	return cfg.Print(terminal.Exact(c.Stdout))
}
