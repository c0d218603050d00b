package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
	llmtap "github.com/llmtap/llmtap/ingest/sdk/go"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const ended = "0 0" // in place of size and status

// An agentConfig configures a process that makes calls at a rate, which its hook publishes. It gets the answers without a
// network.
type agentConfig struct {
	NATSURL, Service, Environment, Shape string
	Seed                                 uint64
	Rate                                 float64 // calls per second
	Start                                time.Time
	For                                  time.Duration
}

// agent is the main function of such a process. It writes the size and the status of each call to out, and ended when all are
// published. It ends with ctx, so that its CPU time can be read until then.
func agent(ctx context.Context, out io.Writer, _ *flag.FlagSet, args []string) error {
	var cfg agentConfig
	if err := json.Unmarshal([]byte(args[0]), &cfg); err != nil {
		return err
	}
	hook, err := llmtap.Open(llmtap.Config{ //nolint:contextcheck // until Close
		URL: cfg.NATSURL, Service: cfg.Service, ServiceVersion: "1.0.0", Environment: cfg.Environment, Agent: "agent", Capture: event.CaptureFull,
	})
	if err != nil {
		return err
	}
	f := load.NewFleet(load.FleetConfig{
		Seed: cfg.Seed, Shape: cfg.Shape, Services: 1, Environment: fmt.Sprintf("%s-%d-%d", cfg.Environment, cfg.Start.Unix(), cfg.Seed), TextBytes: 1 << 20,
	})
	f.Agents(1)
	f.Next()
	var c *load.Call
	client := &http.Client{Transport: hook.Transport(roundTripper(func(q *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, q.Body)
		return &http.Response{
			StatusCode: c.Status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {c.ResponseType}}, Body: io.NopCloser(bytes.NewReader(c.Response)), Request: q,
		}, err
	}))}
	for i := 0; i < int(cfg.Rate*cfg.For.Seconds()) && time.Since(cfg.Start) < cfg.For && ctx.Err() == nil; i++ {
		time.Sleep(time.Until(cfg.Start.Add(time.Duration(float64(i) / cfg.Rate * float64(time.Second)))))
		c, _ = f.Next()
		labeled := llmtap.WithStage(llmtap.WithConversation(ctx, c.Labels.Conversation), c.Labels.Stage)
		q, err := http.NewRequestWithContext(labeled, http.MethodPost, c.URL, bytes.NewReader(c.Request))
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		res, err := client.Do(q)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		fmt.Fprintln(out, c.Size(), c.Status)
	}
	if err := hook.Flush(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, ended)
	<-ctx.Done()
	return hook.Close() //nolint:contextcheck // ctx has ended
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// agents are running processes.
type agents struct {
	processes []process.Process
	start     time.Time // of their calls
	reports   *os.File
	stops     []func()
}

func (a *agents) stop() {
	for _, stop := range a.stops {
		stop()
	}
}

// startAgents starts n processes that together make the calls of a phase, and waits until they begin.
func (o *rateOptions) startAgents(ctx context.Context, t *target, p phase) (a *agents, err error) {
	dir, err := os.MkdirTemp("", "llmtap-bench-agents-")
	if err != nil {
		return nil, err
	}
	a = &agents{start: time.Now().Add(5*time.Second + time.Duration(o.processes)*100*time.Millisecond)}
	defer func() {
		if err != nil {
			a.stop()
		}
	}()
	a.stops = append(a.stops, func() { _ = os.RemoveAll(dir) })
	fifo := filepath.Join(dir, "reports")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		return a, err
	}
	if a.reports, err = os.OpenFile(fifo, os.O_RDWR, 0); err != nil {
		return a, err
	}
	a.stops = append(a.stops, func() { _ = a.reports.Close() })
	self, err := os.Executable()
	if err != nil {
		return a, err
	}
	for i := range o.processes {
		cfg := agentConfig{
			t.natsURL, fmt.Sprintf("bench-%03d", i%o.services), o.environmentLabel, o.shape, o.seed + uint64(i), p.rate / float64(o.processes),
			a.start.Add(time.Duration(float64(i) / p.rate * float64(time.Second))), p.duration,
		}
		cmd, stop, err := process.Start(ctx, fifo, os.Environ(), self, "agent", string(load.Marshal(cfg)))
		if err != nil {
			return a, err
		}
		a.stops = append([]func(){stop}, a.stops...)
		a.processes = append(a.processes, process.Process{Name: "agents", PID: cmd.Process.Pid})
	}
	time.Sleep(time.Until(a.start))
	return a, ctx.Err()
}

// wait adds the calls of agents to sent until all have published theirs. kept is as in paced.
func (a *agents) wait(p phase, sent *published) (kept float64, err error) {
	if err := a.reports.SetReadDeadline(a.start.Add(p.duration + time.Minute)); err != nil { // if one has died
		return 0, err
	}
	calls, left := 0, len(a.processes)
	for r := bufio.NewScanner(a.reports); left > 0; {
		if !r.Scan() {
			return 0, fmt.Errorf("%d agents have not ended: %w", left, r.Err())
		}
		if r.Text() == ended {
			left--
			continue
		}
		var size, status int
		if _, err := fmt.Sscan(r.Text(), &size, &status); err != nil {
			return 0, fmt.Errorf("an agent says: %s", r.Text())
		}
		calls++
		sent.addSize(size, status >= 400)
	}
	return float64(calls) / max(1, p.rate*p.duration.Seconds()), nil
}
