package main

import (
	"context"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
)

var completionCommand = &command.Command{
	Name:  "completion",
	Args:  "SHELL",
	Short: "Print the completion script of a shell: bash, zsh or fish",
	Long: `The script completes commands, flags, the values of flags, and the names of queries
and rules. It gets them from llmtap, so it stays correct after an upgrade.`,
	Examples: `  source <(llmtap completion bash)
  llmtap completion bash > /etc/bash_completion.d/llmtap
  llmtap completion zsh > ~/.zfunc/_llmtap
  llmtap completion fish > ~/.config/fish/completions/llmtap.fish`,
	Values: func() []string { return command.Shells },
	Run: func(_ context.Context, c *command.Call) error {
		if err := c.Parse(); err != nil {
			return err
		}
		return command.WriteScript(c.Stdout, c.Args[0])
	},
}
