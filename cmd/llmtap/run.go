package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/connect"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/hooked"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

var runProgramCommand = &command.Command{
	Name:  "run",
	Args:  "-- COMMAND...",
	Short: "Run a Python or Node.js program with the hook, without changing its code",
	Long: `Replaces itself with COMMAND, in whose environment Python and Node.js load the hook:
the program, and what it starts, such as the workers of uvicorn, pytest or the
kernels of notebooks. The package llmtap must be installed for the program; if it is
not, the program runs without it and says so once on standard error.

The hook sends to the llmtap on the data directory, unless LLMTAP_NATS_URL or
LLMTAP_ENDPOINT is set. The service is LLMTAP_SERVICE or OTEL_SERVICE_NAME, else
the name in pyproject.toml or package.json, else that of the directory; the version
is LLMTAP_SERVICE_VERSION, else that of git describe. They are defaults for a program
that calls instrument() itself, and for Go programs with the hook. PYTHONPATH,
NODE_OPTIONS and an existing sitecustomize keep working.

Exit code: that of COMMAND; 127 if it is not found, 126 if it cannot be run.`,
	Examples: `  llmtap run -- python agent.py
  llmtap run --service checkout-agent -- uvicorn app:app --workers 4
  llmtap run -- node agent.mjs
  llmtap run --capture full -- pytest tests/agent`,
	Run: runRun,
}

func runRun(ctx context.Context, c *command.Call) error {
	env := hooked.Env(os.Environ())
	service := c.Parameters.String("service", "", "`name` of the service")
	version := c.Parameters.String("service-version", "", "its `version`")
	capture := c.Choice(c.Parameters, "capture", "", "what the hook publishes of `bodies`, by default shape", event.CaptureShape, event.CaptureFull, event.CaptureNone)
	servers := connect.HookFlags(c)
	if err := c.Parse(); err != nil {
		return err
	}
	env.Set(event.EnvService, *service)
	env.Set(event.EnvServiceVersion, *version)
	env.Set(event.EnvCapture, *capture)
	if env.Get(event.EnvNATSURL)+env.Get(event.EnvEndpoint) == "" {
		url, err := servers.HookURL()
		if err != nil {
			return err
		}
		env.Set(event.EnvNATSURL, url) // else the hook has a default, and says that nobody listens there
	}
	return become(ctx, env, c)
}

// become replaces this process with the command of c, in env and with the hook.
func become(ctx context.Context, env hooked.Env, c *command.Call) error {
	path, err := lookPath(c.Args[0])
	if err != nil {
		return err
	}
	if err := prepare(ctx, &env); err != nil {
		fmt.Fprintf(c.Stderr, "llmtap: the calls of this program are not recorded: %v\n", err)
	}
	return &command.ExitError{Code: exitCannotRun, Err: fmt.Errorf("run %s: %w", path, syscall.Exec(path, c.Args, env))}
}

func prepare(ctx context.Context, env *hooked.Env) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	env.Label(ctx, dir)
	return env.Load()
}

// Exit codes of shells.
const (
	exitCannotRun = 126
	exitNotFound  = 127
	exitSignal    = 128 // plus the number of the signal
)

// lookPath returns the path of a program.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		code := exitNotFound
		if errors.Is(err, fs.ErrPermission) {
			code = exitCannotRun
		}
		return "", &command.ExitError{Code: code, Err: fmt.Errorf("run %s: %w", name, cmp.Or(errors.Unwrap(err), err))}
	}
	return path, nil
}
