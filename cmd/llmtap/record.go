package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/hooked"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/recorder"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

var recordCommand = &command.Command{
	Name:  "record",
	Args:  "-- COMMAND...",
	Short: "Record the LLM calls of tests in a file for llmtap lint",
	Long: `Runs COMMAND with the hook, as llmtap run does, and writes its calls, with whole
bodies, to a file of JSON lines that lint and import read. It needs neither a running
llmtap nor ClickHouse. Besides the known providers and LLMTAP_HOSTS, calls to
127.0.0.1 and localhost are recorded, where tests have their fakes. A mock that
replaces the HTTP client itself, so that nothing is sent, hides calls.

A Go program must have the hook in its code; it decides about bodies.

Exit code: that of COMMAND, 128 and the number of the signal that ended it; 127 if it
is not found, 126 if it cannot be run; 1 if the file cannot be written.`,
	Examples: `  llmtap record -- pytest
  llmtap lint histories.jsonl
  llmtap record -o agent.jsonl -- npm test
  llmtap record -o - -- go test ./... | llmtap lint --format github -`,
	Run: runRecord,
}

func runRecord(ctx context.Context, c *command.Call) (err error) {
	output := c.Parameters.String("output", "histories.jsonl", "`file` to write, or - for standard output; -o is the same")
	c.Parameters.StringVar(output, "o", *output, "")
	if err := c.Parse(); err != nil {
		return err
	}
	path, err := lookPath(c.Args[0])
	if err != nil {
		return err
	}
	child := &exec.Cmd{Path: path, Args: c.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	file := os.Stdout
	if *output == "-" {
		child.Stdout = os.Stderr
	} else if file, err = os.Create(*output); err != nil {
		return fmt.Errorf("create the file of the calls: %w", err)
	}
	r, err := recorder.New(ctx, file)
	if err != nil {
		return err
	}
	env := hooked.Env(os.Environ())
	env.Set(event.EnvEndpoint, r.URL())
	env.Set(event.EnvCapture, event.CaptureFull)
	env.Set(event.EnvHosts, strings.TrimPrefix(env.Get(event.EnvHosts)+",127.0.0.1,localhost", ","))
	if err := prepare(ctx, &env); err != nil {
		fmt.Fprintf(c.Stderr, "llmtap: the calls of this program are not recorded: %v\n", err)
	}
	child.Env = env
	failure := supervise(child)
	calls, err := r.Close(ctx)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", *output, err)
	}
	switch {
	case calls == 0:
		fmt.Fprintf(c.Stderr, "llmtap: %s made no calls that the hook sees\n", c.Args[0])
	case *output != "-":
		fmt.Fprintf(c.Stderr, "llmtap: recorded %s; check them: llmtap lint %s\n", quantity.Plural(calls, "call"), *output)
	}
	return failure
}

// supervise runs a program, passes signals on to it, and returns its exit code as an error.
func supervise(child *exec.Cmd) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return &command.ExitError{Code: exitCannotRun, Err: fmt.Errorf("run %s: %w", child.Path, err)}
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	for {
		select {
		case s := <-signals:
			// Ctrl-C and Ctrl-\ of a terminal reach the program, too.
			if s == syscall.SIGTERM || s == syscall.SIGHUP || !terminal.IsTerminal(os.Stdin) {
				_ = child.Process.Signal(s) // it may have ended
			}
		case err := <-ended:
			exit, ok := errors.AsType[*exec.ExitError](err)
			switch {
			case err == nil:
				return nil
			case !ok:
				return fmt.Errorf("wait for %s: %w", child.Path, err)
			}
			code := exit.ExitCode()
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				code = exitSignal + int(status.Signal())
			}
			return &command.ExitError{Code: code}
		}
	}
}
