// Command llmtap watches the LLM calls of an agent fleet: it says within seconds when calls break the message
// protocol, why, and whose change did it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/sinks/chdb"
)

// A command is one subcommand. Its file holds its flags, its help and its run.
type command struct {
	name, short string
	run         func(ctx context.Context, c *cli) error
	hidden      bool
}

var commands = []command{
	{name: "demo", short: "watch a fleet of agents fail, and the alert arrive", run: runDemo},
	{name: "up", short: "run the collector: all of it on one machine, or some roles of a cluster", run: runUp},
	{name: "lint", short: "check recorded message histories before a provider does", run: runLint},
	{name: "rules", short: "list the rules of the message protocol, or explain one", run: runRules},
	{name: "explain", short: "say why provider calls failed: a text, or records of calls", run: runExplain},
	{name: "import", short: "store and judge recorded traffic", run: runImport},
	{name: "tail", short: "watch calls and findings as they come in", run: runTail},
	{name: "query", short: "ask ClickHouse one of the questions that follow an incident", run: runQuery},
	{name: "show", short: "show a stored call or conversation as it was sent, the fault marked", run: runShow},
	{name: "alerts", short: "check alert rules, and try them on what happened", run: runAlerts},
	{name: "schema", short: "look at the tables in ClickHouse, make them, or print how", run: runSchema},
	{name: "forget", short: "delete what is stored of a conversation or a user", run: runForget},
	{name: "provider", short: "a stand-in for OpenAI, DeepSeek and others, as strict as they are", run: runProvider},
	{name: "config", short: "print or check the configuration", run: runConfig},
	{name: "doctor", short: "check a set-up: what is wrong, and what to do", run: runDoctor},
	{name: "version", short: "print the version", run: runVersion},
	{name: agentsCommand, run: runAgents, hidden: true},
}

// Exit codes. Tools that call llmtap rely on them.
const (
	exitOK       = 0
	exitFailed   = 1 // the command failed, or lint found a history that would be rejected
	exitBadInput = 2 // wrong flags, or input that cannot be read
)

// exitError is an error that asks for a certain exit code.
type exitError struct {
	code int
	err  error // nil: everything was said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func main() {
	chdb.RunChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(report(err, os.Stderr))
}

// report prints err, if there is something left to say, and returns the exit code.
func report(err error, stderr io.Writer) int {
	var exit *exitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			fmt.Fprintf(stderr, "llmtap: %v\n", exit.err)
		}
		return exit.code
	}
	code := exitFailed
	if _, invalid := errors.AsType[*config.InvalidError](err); invalid {
		code = exitBadInput
	}
	fmt.Fprintf(stderr, "llmtap: %v\n", err)
	return code
}

// cli is what a command gets from its caller: nothing comes from globals, so that tests can run commands in-process.
type cli struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) error {
	if len(args) == 0 {
		usage(stderr)
		return &exitError{code: exitBadInput}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) == 1 {
			usage(stdout)
			return nil
		}
		args = []string{args[1], "--help"}
	case "--version":
		args[0] = "version"
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		usage(stderr)
		return &exitError{exitBadInput, fmt.Errorf("unknown command %q", args[0])}
	}
	return commands[i].run(ctx, &cli{args: args[1:], stdin: stdin, stdout: stdout, stderr: stderr, getenv: getenv})
}

func usage(w io.Writer) {
	fmt.Fprint(w, "llmtap shows every LLM call of an agent fleet, and says why calls fail and whose change did it.\n\nUsage: llmtap <command> [flags]\n\n")
	for _, c := range commands {
		if !c.hidden {
			fmt.Fprintf(w, "  %-9s %s\n", c.name, c.short)
		}
	}
	fmt.Fprint(w, "\nStart with: llmtap demo\nHelp on a command: llmtap <command> --help\n")
}

// flags returns a flag set whose help starts with text: a sentence, then examples. Every flag can also be set by the
// environment variable LLMTAP_<FLAG>, dashes as underscores.
func (c *cli) flags(name, text string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // parse prints by itself, to the right stream
	fs.Usage = func() {
		fmt.Fprintf(c.stdout, "%s\n\nFlags (each also as LLMTAP_<FLAG> in the environment):\n", strings.TrimSpace(text))
		fs.SetOutput(c.stdout)
		fs.VisitAll(func(f *flag.Flag) {
			arg, help := flag.UnquoteUsage(f)
			line := "  --" + f.Name
			if arg != "" {
				line += " " + arg
			}
			if f.DefValue != "" && f.DefValue != "false" {
				help += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(c.stdout, "%-28s %s\n", line, help)
		})
	}
	return fs
}

// parse sets the flags from the environment and the arguments; see config.ParseFlags.
func (c *cli) parse(fs *flag.FlagSet) error {
	switch err := config.ParseFlags(fs, c.args, c.getenv); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return err
	default:
		return &exitError{exitBadInput, fmt.Errorf("%w; see llmtap %s --help", err, fs.Name())}
	}
}
