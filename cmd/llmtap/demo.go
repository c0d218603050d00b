package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	fleetslack "github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
)

var (
	demoCommand   = &command.Command{Name: "demo", Short: "Watch a fleet of agents fail, and the alert arrive", Long: demoHelp, Run: runDemo}
	agentsCommand = &command.Command{Name: agentsName, Hidden: true, Run: runAgents}
)

const demoHelp = `Watch a fleet of agents fail, and the alert arrive. Everything is real but the provider and Slack, which are local: a NATS
server, ClickHouse, and in a second process agents that use the openai-go client. Three of the agents carry bugs that
have broken real fleets. Nothing leaves this machine; all data lies in a temporary directory.

  llmtap demo
  llmtap demo --exit
  llmtap demo --exit --format json | jq .alerts`

const (
	agentsName   = "demo-agents"
	storeTimeout = 30 * time.Second // for the last rows to arrive in ClickHouse
	alertTimeout = 60 * time.Second // for the alert, after the agents have ended
)

// agentsConfig is what the demo hands to its second process on stdin.
type agentsConfig struct {
	ProviderURL string `json:"provider_url"`
	NATSURL     string `json:"nats_url"`
	Seed        uint64 `json:"seed"`
}

func runDemo(ctx context.Context, c *command.Call) error {
	fs := c.Flags
	exit := fs.Bool("exit", false, "end when everything was shown, instead of running until interrupted")
	format := c.Format(command.Text, command.JSON)
	dataDir := fs.String("data-dir", "", "`directory` to keep; empty: a temporary one that is removed at the end")
	seed := fs.Uint64("seed", 1, "seed of the agents' behaviour")
	if err := c.Parse(); err != nil {
		return err
	}
	c.Stderr = &lockedWriter{w: c.Stderr} // progress, the alert and the agents write to it
	d := &demo{c: c, started: time.Now(), format: *format, seed: *seed}
	if *dataDir == "" {
		tmp, err := os.MkdirTemp("", "llmtap-demo-")
		if err != nil {
			return fmt.Errorf("make a directory for the demo: %w", err)
		}
		defer func() {
			if err := os.RemoveAll(tmp); err != nil {
				fmt.Fprintf(c.Stderr, "the demo's directory stays behind: %v\n", err)
			}
		}()
		*dataDir = tmp
	}
	return d.run(ctx, *dataDir, *exit)
}

// A demo is one run of the tour.
type demo struct {
	c       *command.Call
	started time.Time
	format  string
	seed    uint64

	providerURL string
	slack       *fleetslack.Server
	col         *collector.Collector

	mu    sync.Mutex // guards fired and posts
	fired []alerts.Alert
	posts []fleetslack.Message
}

// say prints a line of progress, with the seconds since the start.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.c.Stderr, "%4.0fs  %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context, dataDir string, exit bool) (err error) {
	// The servers outlive ctx: when the user interrupts, the collector stops first and in peace.
	servers, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	d.say("starting NATS, ClickHouse, a strict provider and a local Slack")
	cfg, err := d.startServers(servers, dataDir)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(d.c.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	d.col, err = collector.Open(ctx, cfg, collector.Options{
		Logger: logger, Progress: func(s string) { d.say("%s", s) }, Notifiers: []alerts.Notifier{d}, Version: buildVersion().Version,
	})
	if err != nil {
		return err
	}
	defer d.col.Close()

	running, stopCollector := context.WithCancel(ctx)
	collected := make(chan error, 1)
	go func() { collected <- d.col.Run(running) }()
	defer func() {
		stopCollector()
		if stopErr := <-collected; err == nil {
			err = stopErr
		}
	}()

	d.say("three services are at work; version 2.4.0 of checkout-agent forgets to save tool_calls, as in a real incident")
	report, err := d.runAgents(ctx, collected)
	if err != nil {
		return err
	}
	result, err := d.result(ctx, report)
	if err != nil {
		return err
	}
	if err := result.write(d.c.Stdout, d.format, dataDir); err != nil {
		return err
	}
	if exit {
		return nil
	}
	d.say("still running; your own agents may publish to LLMTAP_NATS_URL=%s; interrupt to end", d.col.NATSURL())
	select {
	case <-ctx.Done():
		return nil
	case err := <-collected:
		collected <- err
		return err
	}
}

// startServers starts the provider and Slack and returns the configuration of a collector beside them.
func (d *demo) startServers(ctx context.Context, dataDir string) (config.Config, error) {
	cfg := config.Default()
	cfg.Roles = []string{config.RoleAnalyze, config.RoleAlert} // its agents have the hook
	cfg.DataDir, cfg.Listen, cfg.NATSServer.Port = dataDir, "127.0.0.1:0", -1
	d.slack = fleetslack.New(fleetslack.Config{Channels: []string{"oncall"}, OnPost: d.posted})
	var err error
	if d.providerURL, err = serveLocal(ctx, provider.New(provider.Default())); err != nil {
		return cfg, err
	}
	slackURL, err := serveLocal(ctx, d.slack)
	if err != nil {
		return cfg, err
	}
	cfg.Slack.Token, cfg.Slack.Channel, cfg.Slack.APIURL = "xoxb-demo", "#oncall", slackURL+"/api/"
	return cfg, cfg.Validate()
}

// serveLocal serves h on a free port of the loopback interface until ctx ends, and returns its URL.
func serveLocal(ctx context.Context, h http.Handler) (url string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen on loopback: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() { _ = srv.Serve(l) }() // ends when it is closed
	return "http://" + l.Addr().String(), nil
}

// Notify implements alerts.Notifier: it tells the terminal what Slack is told.
func (d *demo) Notify(_ context.Context, g alerts.Group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range g.Alerts {
		known := false
		for i := range d.fired {
			if d.fired[i].ID() == a.ID() {
				d.fired[i], known = a, true
			}
		}
		if !known {
			d.fired = append(d.fired, a)
			d.say("ALERT %s (%s): %s of %s, %d of %d calls failed", a.Name, a.Labels["severity"], a.Labels["stage"], a.Labels["service"],
				a.Evidence.Failed, a.Evidence.Calls)
		}
	}
	return nil
}

// runAgents runs the agents in a process of their own and shows how it goes.
func (d *demo) runAgents(ctx context.Context, collected chan error) (agents.Report, error) {
	var report agents.Report
	in, err := json.Marshal(agentsConfig{ProviderURL: d.providerURL, NATSURL: d.col.NATSURL(), Seed: d.seed})
	if err != nil {
		return report, err
	}
	self, err := os.Executable()
	if err != nil {
		return report, fmt.Errorf("find this binary: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, agentsName)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stderr = d.c.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return report, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return report, err
	}
	if err := cmd.Start(); err != nil {
		return report, fmt.Errorf("start the agents: %w", err)
	}
	// The pipe stays open as a lifeline: the agents end when this process does.
	defer stdin.Close()
	if _, err := stdin.Write(append(in, '\n')); err != nil {
		return report, fmt.Errorf("configure the agents: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		err := json.NewDecoder(out).Decode(&report)
		done <- errors.Join(err, cmd.Wait())
	}()
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil && ctx.Err() == nil {
				return report, fmt.Errorf("run the agents: %w", err)
			}
			return report, ctx.Err()
		case err := <-collected:
			collected <- err
			return report, fmt.Errorf("the collector stopped: %w", err)
		case <-ticker.C:
			var r demoReport
			if err := r.fill(ctx, d.col.ClickHouse()); err == nil {
				d.say("%d calls recorded, %d of them failed", r.Exchanges, r.Failed)
			}
		}
	}
}

// result waits for the last rows and the alert, then counts.
func (d *demo) result(ctx context.Context, agentsReport agents.Report) (*demoReport, error) {
	r := &demoReport{Published: agentsReport.Published, Alerts: []demoAlert{}}
	d.say("agents have ended: %d exchanges published; waiting for the last rows", r.Published)
	deadline := time.Now().Add(storeTimeout)
	for {
		if err := r.fill(ctx, d.col.ClickHouse()); err != nil {
			return nil, err
		}
		if r.ClickHouse["exchanges"] >= r.Published || time.Now().After(deadline) {
			break
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	if made := uint64(agentsReport.Exchanges); made > r.ClickHouse["exchanges"] {
		r.Lost = made - r.ClickHouse["exchanges"]
	}
	for deadline := time.Now().Add(alertTimeout); len(d.slack.Messages()) == 0 && time.Now().Before(deadline); {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	d.addAlerts(r)
	return r, nil
}

// addAlerts adds what the terminal was told and what Slack shows of it.
func (d *demo) addAlerts(r *demoReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.fired {
		da := demoAlert{Alert: a.Name, Labels: a.Labels, Value: a.Value, State: string(a.State)}
		for _, p := range d.posts {
			if p.ThreadTS == "" && strings.Contains(p.Text, a.Labels["service"]+"/"+a.Labels["stage"]) &&
				strings.Contains(p.Text, strings.ToUpper(a.Severity())) {
				da.text = fleetslack.Text(p)
				at := p.ReceivedAt
				if p.Updates > 0 {
					at = p.UpdatedAt
				}
				if da.PublishedToPosted == 0 { // the first post that says it
					da.PublishedToPosted = float64(at.Sub(a.TriggeredAt).Microseconds()) / 1000
				}
			}
		}
		r.Alerts = append(r.Alerts, da)
	}
}

// maxPosts bounds the posts that a demo left running keeps.
const maxPosts = 1000

// posted keeps every message and every update as Slack got it.
func (d *demo) posted(m fleetslack.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.posts) < maxPosts {
		d.posts = append(d.posts, m)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// runAgents is the demo's second process: the agents, with their configuration on stdin and their report on stdout.
func runAgents(ctx context.Context, c *command.Call) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dec := json.NewDecoder(c.Stdin)
	var cfg agentsConfig
	if err := dec.Decode(&cfg); err != nil {
		return fmt.Errorf("read the agents' configuration: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, c.Stdin) // ends when the demo does
		cancel()
	}()
	run := agents.Default()
	run.ProviderURL, run.NATSURL, run.Seed = cfg.ProviderURL, cfg.NATSURL, cfg.Seed
	run.Log = slog.New(slog.NewTextHandler(c.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	report, err := agents.Run(ctx, run)
	if err != nil {
		return err
	}
	return json.NewEncoder(c.Stdout).Encode(report)
}

// lockedWriter lets several goroutines write whole lines.
type lockedWriter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
