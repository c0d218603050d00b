// Package demo runs a fleet of agents, three of them defective, against a complete llmtap on this machine.
//
//	agents (second process) ─> strict provider
//	          └─ HTTP with the hook ─> collector: NATS ─> analyze ─> ClickHouse ─> Report
//	                                                              └─> alert ─> local Slack, terminal
//
// Only the provider and Slack are simulated.
package demo

import (
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/alerts/wording"
	"github.com/llmtap/llmtap/analyzer/price"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/slack"
)

const (
	storeTimeout     = 30 * time.Second // maximum wait for the last rows to arrive in ClickHouse
	alertTimeout     = 60 * time.Second // maximum wait for the alert after the agents have ended
	pollInterval     = 200 * time.Millisecond
	progressInterval = 5 * time.Second
	maxPosts         = 1000 // maximum posts stored
)

// Options configure a demo.
type Options struct {
	Exit    bool   // end after the report; otherwise, run until ctx ends
	Format  string // format of the report: text or json
	DataDir string // "": a temporary directory
	Seed    uint64 // seed of the agents' behavior
	Version string
	Stdout  io.Writer // receives the report
	Stderr  io.Writer // receives progress and the alert
}

// A demo is the state of one run.
type demo struct {
	Options
	started     time.Time
	providerURL string
	slackURL    string // of the web page
	slack       *slack.Server
	collector   *collector.Collector

	mu     sync.Mutex // guards alerts and posts
	alerts []alerts.Alert
	posts  []slack.Message // all messages and updates
}

// Run runs the demo and writes its report.
func Run(ctx context.Context, o Options) error {
	o.Stderr = &lockedWriter{w: o.Stderr} // shared by progress, alerts and agents
	if o.DataDir == "" {
		dir, err := os.MkdirTemp("", "llmtap-demo-")
		if err != nil {
			return fmt.Errorf("create temporary directory: %w", err)
		}
		defer func() {
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintf(o.Stderr, "could not remove the temporary directory: %v\n", err)
			}
		}()
		o.DataDir = dir
	}
	return (&demo{Options: o, started: time.Now()}).run(ctx)
}

// progress prints a line with the seconds since the start.
func (d *demo) progress(format string, args ...any) {
	fmt.Fprintf(d.Stderr, "%4.0fs  %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) (err error) {
	// The servers outlive ctx: on interrupt, the collector stops first.
	servers, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	cfg, err := d.startServers(servers)
	if err != nil {
		return err
	}
	d.collector, err = collector.Open(ctx, cfg, collector.Options{
		Logger:   slog.New(slog.NewTextHandler(d.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Progress: func(s string) { d.progress("%s", s) }, Notifiers: []alerts.Notifier{d}, Version: d.Version,
	})
	if err != nil {
		return err
	}
	defer d.collector.Close()
	d.progress("open %s/ in a browser: the fleet, live in a few seconds", cfg.UI.ExternalURL) // not before something listens there
	d.progress("NATS, a strict provider and a local Slack are running")

	ctx, stop := context.WithCancelCause(ctx)
	stopped := make(chan error, 1)
	go func() {
		err := d.collector.Run(ctx)
		stop(err) // ends the demo if the collector has failed
		stopped <- err
	}()
	defer func() {
		stop(nil)
		if stopErr := <-stopped; err == nil {
			err = stopErr
		}
	}()

	if err := d.collector.WaitReady(ctx); err != nil {
		return context.Cause(ctx)
	}
	if missing := d.collector.NoStore(); missing != nil {
		d.progress("%v", missing)
	}
	d.progress("three services run; version 2.4.0 of checkout-agent does not save tool_calls")
	made, err := d.runAgents(ctx)
	if err != nil {
		return err
	}
	r, err := d.report(ctx, made)
	if err != nil {
		return err
	}
	if err := r.write(d.Stdout, d.Format, d.DataDir); err != nil {
		return err
	}
	if !d.Exit {
		d.progress("press the buttons of the Slack message: %s", d.slackURL)
		d.progress("still running: set LLMTAP_NATS_URL=%s in your agents; Ctrl-C to end", d.collector.NATSURL())
		<-ctx.Done()
	}
	return nil
}

// startServers starts the provider and Slack and returns the configuration of the collector.
func (d *demo) startServers(ctx context.Context) (cfg config.Config, err error) {
	cfg = config.Default()
	cfg.Roles = []string{config.RoleAnalyze, config.RoleAlert, config.RoleUI} // no proxy, because the agents use the hook
	cfg.DataDir, cfg.Listen, cfg.NATSServer.Port = d.DataDir, "127.0.0.1:0", -1
	if cfg.UI.Listen, err = freeAddress(ctx); err != nil {
		return cfg, err
	}
	cfg.UI.ExternalURL = "http://" + cfg.UI.Listen
	cfg.Prices = append(cfg.Prices, price.Price{Model: "deepseek-chat", Input: 0.28, CachedInput: 0.028, Output: 0.42})
	d.slack = slack.New(slack.Config{Channels: []string{"oncall"}, OnPost: d.posted})
	if d.providerURL, err = serveLocal(ctx, provider.New(provider.Default())); err != nil {
		return cfg, err
	}
	slackURL, err := serveLocal(ctx, d.slack)
	if err != nil {
		return cfg, err
	}
	d.slackURL = slackURL + "/"
	cfg.Slack.Token, cfg.Slack.AppToken, cfg.Slack.Channel, cfg.Slack.APIURL = "xoxb-demo", "xapp-demo", "#oncall", d.slackURL+"api/"
	return cfg, cfg.Validate()
}

// freeAddress returns a loopback address that nothing listens on. The pages need it before they are served: links to them are part
// of the configuration.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// serveLocal serves h on a free loopback port until ctx ends, and returns its URL.
func serveLocal(ctx context.Context, h http.Handler) (url string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen on loopback: %w", err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	go func() { _ = srv.Serve(l) }() // returns when srv is closed
	return "http://" + l.Addr().String(), nil
}

// Notify implements alerts.Notifier: it prints new alerts and changes of their severity. An alert that becomes critical
// remains one alert, as in Slack.
func (d *demo) Notify(_ context.Context, g alerts.Group) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range g.Current() {
		i := slices.IndexFunc(d.alerts, func(b alerts.Alert) bool { return b.Series() == a.Series() })
		news := i < 0 || d.alerts[i].Severity() != a.Severity()
		if i < 0 {
			d.alerts = append(d.alerts, a)
		} else {
			d.alerts[i] = a
		}
		if news {
			d.progress("ALERT %s (%s): %s", a.Name, a.Labels["severity"], wording.Summary(&a))
		}
	}
	return nil
}

func (d *demo) posted(m slack.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.posts) < maxPosts {
		d.posts = append(d.posts, m)
	}
}

// report waits for the last rows and the alert, then reads the counts. made is the report of the agents.
func (d *demo) report(ctx context.Context, made agents.Report) (*report, error) {
	r := &report{Published: made.Published, Alerts: []alert{}}
	d.progress("the agents have ended: %d calls published; waiting for the last rows", r.Published)
	for errors.Is(d.collector.NoStore(), collector.ErrDownload) && ctx.Err() == nil {
		time.Sleep(pollInterval)
	}
	if err := d.collector.WaitReady(ctx); err != nil {
		return nil, context.Cause(ctx)
	}
	var err error
	if waitErr := poll(ctx, storeTimeout, func() bool {
		if missing := d.collector.NoStore(); missing != nil {
			r.Missing = missing.Error()
			return true
		}
		err = r.read(ctx, d.collector.ClickHouse())
		return err != nil || r.ClickHouse["exchanges"] >= r.Published
	}); waitErr != nil {
		return nil, waitErr
	}
	if err != nil {
		return nil, err
	}
	if made := uint64(made.Exchanges); r.Missing == "" && made > r.ClickHouse["exchanges"] {
		r.Lost = made - r.ClickHouse["exchanges"]
	}
	err = poll(ctx, alertTimeout, func() bool { return len(d.slack.Messages()) > 0 })
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range (alerts.Group{Alerts: d.alerts}).Current() { // an alert may have become critical
		r.Alerts = append(r.Alerts, newAlert(&a, d.posts))
	}
	return r, err
}

// newAlert returns the report on a, with its Slack message from posts.
func newAlert(a *alerts.Alert, posts []slack.Message) alert {
	r := alert{Alert: a.Name, Labels: a.Labels, Value: a.Value, State: string(a.State)}
	for _, p := range posts {
		if p.ThreadTS != "" || !strings.Contains(p.Text, a.Labels["service"]+"/"+a.Labels["stage"]) || !strings.Contains(p.Text, strings.ToUpper(a.Severity())) {
			continue
		}
		r.text = slack.Text(p)
		at := p.ReceivedAt
		if p.Updates > 0 {
			at = p.UpdatedAt
		}
		if r.PublishedToPosted == 0 { // only the first post counts
			r.PublishedToPosted = float64(at.Sub(a.TriggeredAt).Microseconds()) / 1000
		}
	}
	return r
}

// poll calls done until it returns true or the timeout expires. It returns an error only if ctx ends.
func poll(ctx context.Context, timeout time.Duration, done func() bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for deadline := time.Now().Add(timeout); !done() && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// A lockedWriter is an io.Writer that is safe for concurrent use.
type lockedWriter struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// AgentsCommand is the hidden command of this binary that runs the agents.
const AgentsCommand = "demo-agents"

// An agentsConfig is the configuration that the agents' process reads from stdin.
type agentsConfig struct {
	ProviderURL string `json:"provider_url"`
	NATSURL     string `json:"nats_url"`
	Seed        uint64 `json:"seed"`
}

// runAgents runs the agents in a separate process and prints their progress.
func (d *demo) runAgents(ctx context.Context) (made agents.Report, err error) {
	self, err := os.Executable()
	if err != nil {
		return made, fmt.Errorf("find this binary: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go d.showProgress(ctx)
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, self, AgentsCommand)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, d.Stderr, 5*time.Second
	stdin, err := cmd.StdinPipe()
	if err == nil {
		defer stdin.Close() // the agents end when their stdin is closed, even if this process is killed
		err = cmd.Start()
	}
	if err == nil {
		err = json.NewEncoder(stdin).Encode(agentsConfig{ProviderURL: d.providerURL, NATSURL: d.collector.NATSURL(), Seed: d.Seed})
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &made)
	}
	switch {
	case ctx.Err() != nil:
		return made, context.Cause(ctx)
	case err != nil:
		return made, fmt.Errorf("run the agents: %w", err)
	}
	return made, nil
}

// showProgress prints counts until ctx ends.
func (d *demo) showProgress(ctx context.Context) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sink := d.collector.ClickHouse()
		if sink == nil {
			continue
		}
		var r report
		if err := r.read(ctx, sink); err == nil {
			d.progress("%d calls recorded, %d of them failed", r.Exchanges, r.Failed)
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
