package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

var (
	metricName  = regexp.MustCompile(`^llmtap_(ingest|analyzer|sinks|alerts)_[a-z_]+$`)
	runtimeName = regexp.MustCompile(`^(go|process)_`)
	descName    = regexp.MustCompile(`fqName: "([^"]*)"`)
)

// Every metric of a collector at work is named after its folder, and promlint has nothing to say about those that have
// a value. (The linter reads all of them in the source.)
func TestMetrics(t *testing.T) {
	needClickHouse(t)
	c := busyCollector(t)
	gatherer := prometheus.Gatherers{c.reg, &c.analyzer.metrics}
	problems, err := testutil.GatherAndLint(gatherer)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var served []string
	for _, f := range families {
		served = append(served, f.GetName())
	}
	var silent []string
	for _, name := range slices.Concat(described(c.reg), described(c.analyzer.metrics.regs[0])) {
		if !metricName.MatchString(name) && !runtimeName.MatchString(name) {
			t.Errorf("%s: want %s", name, metricName)
		}
		if !slices.Contains(served, name) {
			silent = append(silent, name)
		}
	}
	t.Logf("%d metrics served, without a value so far: %v", len(served), silent)
	for _, folder := range []string{"ingest", "analyzer", "sinks", "sinks_clickhouse", "sinks_chdb", "alerts"} {
		if !slices.ContainsFunc(served, func(name string) bool { return strings.HasPrefix(name, "llmtap_"+folder+"_") }) {
			t.Errorf("no metric of %s", folder)
		}
	}
}

// busyCollector is a collector that has stored what a few agents did, and still runs.
func busyCollector(t *testing.T) *collector {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir, cfg.Listen, cfg.Proxy.Listen, cfg.NATSServer.Port = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", -1
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := openCollector(context.WithoutCancel(t.Context()), cfg, slog.New(slog.DiscardHandler), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- c.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})

	p := httptest.NewServer(provider.New(provider.Config{}))
	defer p.Close()
	report, err := agents.Run(t.Context(), agents.Config{ProviderURL: p.URL, NATSURL: c.natsURL, Tasks: 10})
	if err != nil || report.Exchanges == 0 {
		t.Fatalf("run the agents: %+v, %v", report, err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		counts, err := c.sink.Counts(t.Context())
		if err == nil && counts["exchanges"] >= report.Published {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("stored: %v, %v; published: %d", counts, err, report.Published)
		}
	}
}

// described returns the names of all metrics that are registered, with a value or not.
func described(reg *prometheus.Registry) []string {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	var names []string
	for d := range descs {
		if m := descName.FindStringSubmatch(d.String()); m != nil {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
