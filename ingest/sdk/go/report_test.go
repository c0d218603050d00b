package llmtap

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// A logBuffer contains the lines of a logger.
type logBuffer struct{ testnet.Buffer }

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// await waits until the log contains text.
func (l *logBuffer) await(t *testing.T, text string) {
	t.Helper()
	must.Wait(t, text, func() bool { return strings.Contains(l.String(), text) }, func() any { return l })
}

// The hook says where it cannot connect, and why, even without a call; it says when it is connected; and nothing else.
func TestReportsConnection(t *testing.T) {
	var log logBuffer
	dir, port := t.TempDir(), testnet.FreePort(t)
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, agentURL(port), srv.URL, func(c *Config) { c.Logger = log.logger() })
	log.await(t, "cannot publish to NATS")
	startNATS(t, dir, port)
	log.await(t, "connected to NATS")
	call(t, h, srv.URL, strings.NewReader(question), nil)
	must.Do(t, h.Close())
	text := log.String()
	if !strings.Contains(text, "nats=nats://127.0.0.1:") || !strings.Contains(text, "connection refused") || strings.Contains(text, "agent") {
		t.Error(text)
	}
	must.Equal(t, strings.Count(text, "\n"), 2, "lines:\n%s", text)
}

func TestSilentOnSuccess(t *testing.T) {
	var log logBuffer
	n := startNATS(t, t.TempDir(), -1)
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, n.url, srv.URL, func(c *Config) { c.Logger = log.logger() })
	call(t, h, srv.URL, strings.NewReader(question), nil)
	must.Do(t, h.Close())
	must.Equal(t, log.String(), "", "log")
}

// Close states the number of lost exchanges, even before the first attempt to connect has ended.
func TestReportsLostExchanges(t *testing.T) {
	f := func(url, before, reason string) {
		t.Helper()
		var log logBuffer
		srv := startProvider(t, &traffic{}, 200, answer)
		h := openHook(t, url, srv.URL, func(c *Config) {
			c.Logger, c.FlushTimeout, c.NATSOptions = log.logger(), 50*time.Millisecond, []nats.Option{nats.Timeout(time.Minute)}
		})
		for range 3 {
			call(t, h, srv.URL, strings.NewReader(question), nil)
		}
		h.RunStarted(WithRun(t.Context(), "run-1"))
		log.await(t, before)
		must.Fail(t, h.Close(), "publish 3 exchanges and 1 run and tool events to nats://127.0.0.1:")
		for _, text := range []string{reason, "exchanges=3 run_and_tool_events=1"} {
			must.Contain(t, log.String(), text)
		}
	}
	f(agentURL(testnet.FreePort(t)), "cannot publish", "connection refused")
	f(agentURL(silentServer(t)), "", "no connection within 50ms")
}

func TestReportInterval(t *testing.T) {
	var log logBuffer
	now := time.Now()
	r := newReporter(&Config{URL: "nats://token@a:4222, b", Logger: log.logger(), Service: "svc"})
	lines := func() int { return strings.Count(log.String(), "\n") }
	for range 7 * 60 { // logged at 0, 1, 3 and 7 minutes
		r.failed(errors.New("refused"), true, now)
		now = now.Add(time.Second)
	}
	if lines() != 3 || strings.Contains(log.String(), "token") || !strings.Contains(log.String(), "nats=nats://a:4222,nats://b") {
		t.Error(log.String())
	}
	for range 12 * 60 { // every hour at the end
		r.failed(errors.New("refused"), true, now)
		now = now.Add(time.Minute)
	}
	if n := lines(); n < 14 || n > 18 {
		t.Errorf("%d lines", n)
	}
	r.succeeded(5, now)
	r.succeeded(5, now)
	if !strings.Contains(log.String(), "after=12h7m0s dropped_exchanges=5") || strings.Count(log.String(), "connected") != 1 {
		t.Error(log.String())
	}
	before := lines()
	if err := r.lost(unsent{}, 5, time.Second); err != nil || lines() != before {
		t.Errorf("%v, %s", err, &log)
	}
	if err := r.lost(unsent{}, 7, time.Second); err != nil || !strings.Contains(log.String(), "dropped because memory was full or NATS rejected them\" exchanges=2") {
		t.Errorf("%v, %s", err, &log)
	}
}

// NATS and the agent may start at the same time.
func TestReportGrace(t *testing.T) {
	var log logBuffer
	now := time.Now()
	r := newReporter(&Config{URL: "nats://a:4222", Logger: log.logger(), Service: "svc"})
	r.failed(errors.New("refused"), false, now)
	r.succeeded(0, now.Add(time.Second))
	must.Equal(t, log.String(), "", "log")
	r.failed(errors.New("refused"), false, now)
	r.failed(errors.New("refused"), false, now.Add(startGrace))
	r.failed(errors.New("refused"), true, now.Add(startGrace+time.Second))
	must.Equal(t, strings.Count(log.String(), "\n"), 1, "lines")
}

func TestFlushErrorCountsExchanges(t *testing.T) {
	srv := startProvider(t, &traffic{}, 200, answer)
	h := openHook(t, agentURL(testnet.FreePort(t)), srv.URL, func(c *Config) { c.FlushTimeout = time.Millisecond })
	call(t, h, srv.URL, strings.NewReader(question), nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	must.Fail(t, h.Flush(ctx), "publish 1 exchange: context deadline exceeded")
}

// silentServer accepts connections on the returned port and never responds.
func silentServer(t *testing.T) int {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}
