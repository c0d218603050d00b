package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
)

// AgentsCommand is the hidden command of this binary that runs the agents.
const AgentsCommand = "demo-agents"

// An agentsConfig is passed to the agents' process on stdin.
type agentsConfig struct {
	ProviderURL string `json:"provider_url"`
	NATSURL     string `json:"nats_url"`
	Seed        uint64 `json:"seed"`
}

// runAgents runs the agents in a process of their own and prints the progress.
func (d *demo) runAgents(ctx context.Context) (made agents.Report, err error) {
	self, err := os.Executable()
	if err != nil {
		return made, fmt.Errorf("find this binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, AgentsCommand)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stderr = d.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return made, err
	}
	defer stdin.Close() // the agents end when their stdin is closed, and so when this process dies
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return made, err
	}
	if err := cmd.Start(); err != nil {
		return made, fmt.Errorf("start the agents: %w", err)
	}
	cfg := agentsConfig{ProviderURL: d.providerURL, NATSURL: d.collector.NATSURL(), Seed: d.Seed}
	if err := json.NewEncoder(stdin).Encode(cfg); err != nil {
		return made, fmt.Errorf("configure the agents: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := json.NewDecoder(stdout).Decode(&made)
		ended <- errors.Join(err, cmd.Wait())
	}()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return made, context.Cause(ctx)
			}
			if err != nil {
				err = fmt.Errorf("run the agents: %w", err)
			}
			return made, err
		case <-tick.C:
			var r report
			if err := r.read(ctx, d.collector.ClickHouse()); err == nil {
				d.progress("%d calls recorded, %d of them failed", r.Exchanges, r.Failed)
			}
		}
	}
}

// RunAgents runs the agents: it reads their configuration from stdin and writes their report to stdout. They end when stdin is
// closed.
func RunAgents(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var cfg agentsConfig
	if err := json.NewDecoder(stdin).Decode(&cfg); err != nil {
		return fmt.Errorf("read the configuration of the agents: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	run := agents.Default()
	run.ProviderURL, run.NATSURL, run.Seed = cfg.ProviderURL, cfg.NATSURL, cfg.Seed
	run.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	report, err := agents.Run(ctx, run)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(report)
}
