package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // local times in images without a zone database

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var llmtap = &command.Command{
	Short: "Observe every LLM call of an agent fleet: which calls fail, why, and which version introduced the defect",
	Long:  "Start with: llmtap demo",
	Commands: []*command.Command{
		demoCommand, upCommand, runProgramCommand, recordCommand, lintCommand, repairCommand, rulesCommand, explainCommand, importCommand, tailCommand, queryCommand, showCommand, mcpCommand, gateCommand,
		problemsCommand, alertsCommand, schemaCommand, forgetCommand, auditCommand, providerCommand, configCommand, doctorCommand, tokenCommand, accountsCommand, engineCommand, completionCommand, versionCommand, agentsCommand,
	},
}

func main() {
	chdb.RunChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(command.Report(err, os.Stderr))
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) error {
	return command.Run(ctx, llmtap, &command.Call{
		Args: args, Stdin: stdin, Stdout: terminal.NewWriter(stdout), Stderr: terminal.NewWriter(stderr), Getenv: getenv,
	})
}
