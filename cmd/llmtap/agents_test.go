package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	sdk "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

const (
	// ackingCommand runs the demo's agents in the test binary until stdin ends. They print the id of each exchange that NATS has
	// acknowledged: the collector must store it once. The line burstLine on stdin starts a burst.
	ackingCommand = "acking-agents"
	burstLine     = "burst"
	// burstService is the service all of whose calls fail in a burst.
	burstService = "burst-agent"
	burstEvery   = 100 * time.Millisecond // time between the calls of a burst
)

type ackingConfig struct {
	ProviderURL, NATSURL string
	Rate                 int   // about, exchanges per second
	MemoryLimit          int64 // of each hook; 0: the default
}

// ackingMain runs the agents and returns the exit code.
func ackingMain() int {
	stdin := bufio.NewReader(os.Stdin)
	var in ackingConfig
	first, err := stdin.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(first, &in)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var burst burstLoad
	go func() {
		for lines := bufio.NewScanner(stdin); lines.Scan(); {
			if lines.Text() == burstLine {
				burst.start(ctx, in)
			}
		}
		cancel()
	}()
	cfg := agents.Default()
	perTask := 1300.0 / float64(cfg.Tasks) // exchanges, see agents.Default
	cfg.ProviderURL, cfg.NATSURL, cfg.Seed = in.ProviderURL, in.NATSURL, uint64(os.Getpid())
	cfg.Duration, cfg.FlushTimeout, cfg.MemoryLimit = time.Hour, flushTimeout, in.MemoryLimit
	cfg.Tasks = int(float64(in.Rate) * cfg.Duration.Seconds() / perTask)
	cfg.OnPublished = printAcknowledged
	report, err := agents.Run(ctx, cfg)
	if err == nil {
		err = burst.wait(&report)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// flushTimeout is the time in which the hooks publish what they hold when the load ends.
const flushTimeout = time.Minute

func printAcknowledged(exchange string) { fmt.Println(exchange) } // one write, so lines stay whole

// A burstLoad is a service all of whose calls are rejected, because their history was rebuilt without the tool calls.
type burstLoad struct {
	done sync.WaitGroup

	mu    sync.Mutex // guards the rest
	err   error
	stats sdk.Stats
}

// start makes calls until ctx ends.
func (b *burstLoad) start(ctx context.Context, in ackingConfig) {
	b.done.Go(func() {
		stats, err := burstCalls(ctx, in)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stats, b.err = stats, err
	})
}

// wait waits for the end of the burst and adds its calls to r.
func (b *burstLoad) wait(r *agents.Report) error {
	b.done.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Published, r.Dropped, r.Pending = r.Published+b.stats.Published, r.Dropped+b.stats.Dropped, r.Pending+b.stats.Pending
	return b.err
}

func burstCalls(ctx context.Context, in ackingConfig) (stats sdk.Stats, err error) {
	u, err := url.Parse(in.ProviderURL)
	if err != nil {
		return stats, err
	}
	hook, err := sdk.Open(sdk.Config{
		URL: in.NATSURL, Service: burstService, ServiceVersion: "1.0.0", Environment: "demo", Capture: "full", Hosts: []string{u.Host},
		Logger: slog.New(slog.DiscardHandler), FlushTimeout: flushTimeout, MemoryLimit: in.MemoryLimit, OnPublished: printAcknowledged,
	})
	if err != nil {
		return stats, err
	}
	client := &http.Client{Transport: hook.Transport(nil)}
	tick := time.NewTicker(burstEvery)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		body := fmt.Sprintf(`{"model":"gpt-4.1","messages":[{"role":"user","content":"book order %d"},{"role":"assistant","content":"I will."},{"role":"tool","tool_call_id":"call_%d","content":"booked"}]}`, i, i)
		ctx := sdk.WithStage(sdk.WithConversation(context.WithoutCancel(ctx), fmt.Sprintf("burst-%d-%d", os.Getpid(), i/8)), "planner") // what waits of one conversation is sent in a frame
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.ProviderURL+provider.OpenAIPath+"/chat/completions", strings.NewReader(body))
		if err != nil {
			return stats, err
		}
		req.Header.Set("Content-Type", "application/json")
		if resp, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	err = hook.Close()
	return hook.Stats(), err
}

// An agentsProcess is a running ackingMain.
type agentsProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	done   chan error
	stderr lockedBuffer

	mu     sync.Mutex // guards the rest
	acked  []string
	report agents.Report
}

func startAgents(t *testing.T, natsURL string, rate int) *agentsProcess {
	t.Helper()
	return startLoad(t, ackingConfig{NATSURL: natsURL, Rate: rate})
}

// startLoad is startAgents with further settings.
func startLoad(t *testing.T, cfg ackingConfig) *agentsProcess {
	t.Helper()
	p := httptest.NewServer(provider.New(provider.Config{Seed: 7}))
	t.Cleanup(p.Close)
	cfg.ProviderURL = p.URL
	a := &agentsProcess{done: make(chan error, 1), cmd: exec.Command(os.Args[0], ackingCommand)}
	a.cmd.Stderr = &a.stderr
	stdin := must.Get(a.cmd.StdinPipe())(t)
	stdout := must.Get(a.cmd.StdoutPipe())(t)
	must.Do(t, a.cmd.Start())
	a.stdin = stdin
	must.Do(t, json.NewEncoder(stdin).Encode(cfg))
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			a.read(lines.Bytes())
		}
		a.done <- a.cmd.Wait()
	}()
	t.Cleanup(func() { stdin.Close() })
	return a
}

func (a *agentsProcess) read(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if line[0] == '{' {
		_ = json.Unmarshal(line, &a.report) // if it stays empty, the test fails
		return
	}
	a.acked = append(a.acked, string(line))
}

func (a *agentsProcess) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.acked)
}

// burst starts a burst, which lasts until the agents stop.
func (a *agentsProcess) burst(t *testing.T) {
	t.Helper()
	must.Get(fmt.Fprintln(a.stdin, burstLine))(t)
}

// stop stops the agents and returns the ids of the acknowledged exchanges. They must have dropped none.
func (a *agentsProcess) stop(t *testing.T) []string {
	t.Helper()
	acked, r := a.end(t)
	if r.Dropped > 0 {
		t.Fatalf("the hooks dropped %d exchanges", r.Dropped)
	}
	return acked
}

// end is stop for hooks that may drop exchanges.
func (a *agentsProcess) end(t *testing.T) ([]string, agents.Report) {
	t.Helper()
	a.stdin.Close()
	select {
	case err := <-a.done:
		if r := &a.report; err != nil || r.Pending > 0 || r.Published != uint64(len(a.acked)) {
			t.Fatalf("agents: %v, %d acknowledged, %d published, %d dropped, %d pending\n%s", err, len(a.acked), r.Published, r.Dropped, r.Pending, a.stderr.String())
		}
	case <-time.After(flushTimeout + 30*time.Second):
		t.Fatal("the agents did not stop")
	}
	return a.acked, a.report
}

// kill kills the agents with SIGKILL and returns the ids of the exchanges acknowledged by then.
func (a *agentsProcess) kill(t *testing.T) []string {
	t.Helper()
	must.Do(t, a.cmd.Process.Kill())
	<-a.done // its error is the kill
	return a.acked
}
