package main

import (
	"context"
	"fmt"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
)

const configHelp = `Print or check the effective configuration.

Output is YAML with the origin of each value. Secrets are masked. A flag
overrides the environment, which overrides the file. LLMTAP_A_B_C sets the key
a.b_c. Values in the file may contain ${NAME}, an environment variable.

Examples:
  llmtap config
  llmtap config --config llmtap.yaml
  llmtap config --check llmtap.yaml

Exit code: 0 if the configuration is valid; 2 if not, with the line of each
error.`

func runConfig(_ context.Context, c *cli) error {
	fs := c.flags("config", configHelp)
	flags := config.AddFlags(fs, c.getenv)
	check := fs.Bool("check", false, "only check the configuration; a file may follow")
	if err := c.parse(fs); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 1 || fs.NArg() == 1 && !*check:
		return &exitError{exitBadInput, fmt.Errorf("unexpected argument %q; see llmtap config --help", fs.Arg(fs.NArg()-1))}
	case fs.NArg() == 1:
		flags.File = fs.Arg(0)
	}
	cfg, err := flags.Load()
	if err != nil {
		return err
	}
	if *check {
		fmt.Fprintf(c.stdout, "%s: the configuration is valid\n", cfg.Source())
		return nil
	}
	return cfg.Print(c.stdout)
}
