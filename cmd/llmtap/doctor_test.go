package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks/chdb"
)

// seeDoctor runs llmtap doctor and returns its checks by name, the worst one of each.
func seeDoctor(t *testing.T, env map[string]string, args ...string) (checks map[string]checkup, code int) {
	t.Helper()
	var out, stderr bytes.Buffer
	getenv := func(k string) string {
		if k == "LLMTAP_CONFIG" && env[k] == "" {
			return os.DevNull // whatever this machine has in /etc
		}
		return env[k]
	}
	err := run(t.Context(), append([]string{"doctor", "--format", "json"}, args...), nil, &out, &stderr, getenv)
	code = command.Report(err, &stderr)
	var answer struct {
		Status string
		Checks []checkup
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &stderr)
	}
	if failed := answer.Status == verdictFail; failed != (code == command.ExitFailed) || !failed && code != command.ExitOK {
		t.Errorf("status %s, exit code %d", answer.Status, code)
	}
	checks = map[string]checkup{}
	rank := map[string]int{verdictOK: 1, verdictWarn: 2, verdictFail: 3}
	for _, c := range answer.Checks {
		t.Logf("%s %s: %s; %s", c.Status, c.Check, c.Detail, c.Fix)
		if rank[c.Status] > rank[checks[c.Check].Status] {
			checks[c.Check] = c
		}
	}
	return checks, code
}

// expect compares what a check says: its status, and parts of its text.
func expect(t *testing.T, checks map[string]checkup, check, status string, parts ...string) {
	t.Helper()
	c := checks[check]
	text := c.Detail + "; " + c.Fix
	if c.Status != status {
		t.Errorf("%s is %q, want %q: %s", check, c.Status, status, text)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s says %q, want %q in it", check, text, p)
		}
	}
}

func TestDoctorWithNothingRunning(t *testing.T) {
	dir := t.TempDir()
	checks, code := seeDoctor(t, nil, "--data-dir", dir)
	if code != command.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	expect(t, checks, "config", verdictOK, os.DevNull)
	expect(t, checks, "collector", verdictFail, "no llmtap runs on "+dir, "embedded NATS and ClickHouse", "llmtap up")
	expect(t, checks, "slack", verdictWarn, "slack.channel")
	for _, absent := range []string{"nats", "clickhouse", "backlog"} {
		if c, ok := checks[absent]; ok {
			t.Errorf("%+v, though nothing can be asked", c)
		}
	}
}

func TestDoctorWithWrongConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "llmtap.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nats:\n  ur: x\nroles: [cook]\n")
	checks, _ := seeDoctor(t, nil, "--config", file)
	expect(t, checks, "config", verdictFail, file+":2: unknown key nats.ur; did you mean nats.url?")
	if len(checks) != 1 {
		t.Errorf("%d checks without a configuration", len(checks))
	}
	// What is right but names a file that is not there.
	write("slack:\n  channel: C1\n  token_file: " + dir + "/token\n")
	checks, _ = seeDoctor(t, nil, "--config", file, "--data-dir", dir)
	expect(t, checks, "config", verdictFail, "slack.token_file: open "+dir+"/token", "let the user that runs llmtap read it")
	expect(t, checks, "slack", verdictFail, "read token_file")
}

func TestDoctorOnRunningCollector(t *testing.T) {
	needClickHouse(t)
	cfg := collectortest.Config(t, func(*config.Config) {})
	c := runCollector(t, cfg)
	collectortest.RunAgents(t, c.NATSURL(), c.ClickHouse())
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":true,"team":"Acme","user":"llmtap"}`)
	}))
	defer slack.Close()
	env := map[string]string{"LLMTAP_SLACK_CHANNEL": "#oncall", "LLMTAP_SLACK_TOKEN": "xoxb-1", "LLMTAP_SLACK_API_URL": slack.URL}
	var checks map[string]checkup
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		checks, _ = seeDoctor(t, env, "--data-dir", cfg.DataDir)
		// The last rows may be on their way, and a second is over two seconds later.
		if checks["backlog"].Status == verdictOK && checks["tallies"].Detail != "none yet" || time.Now().After(deadline) {
			break
		}
	}
	expect(t, checks, "collector", verdictOK, fmt.Sprintf("process %d", os.Getpid()), "is ready")
	expect(t, checks, "nats", verdictOK, c.NATSURL())
	expect(t, checks, "streams", verdictOK, "as configured")
	expect(t, checks, "clock", verdictOK)
	expect(t, checks, "backlog", verdictOK, "embedded reads it")
	expect(t, checks, "tallies", verdictOK, "the newest is")
	expect(t, checks, "losses", verdictOK, "none in the last hour")
	expect(t, checks, "dead_letters", verdictOK, "none")
	expect(t, checks, "libchdb", verdictOK)
	expect(t, checks, "clickhouse", verdictOK, "embedded in "+config.ClickHouseDir(cfg.DataDir))
	expect(t, checks, "schema", verdictOK, "up to date")
	expect(t, checks, "slack", verdictOK, "#oncall: posts as llmtap of Acme")
}

// external is the configuration of a set-up whose NATS is at url, and whose ClickHouse is away.
func external(url string) map[string]string {
	return map[string]string{
		"LLMTAP_NATS_URL": url, "LLMTAP_CLICKHOUSE_DSN": "http://u:hunter2@127.0.0.1:1/llmtap", "LLMTAP_NATS_MAX_BYTES": "1MiB",
	}
}

func TestDoctorWithServersAway(t *testing.T) {
	t.Parallel()
	checks, _ := seeDoctor(t, external("nats://127.0.0.1:1"), "--data-dir", t.TempDir())
	expect(t, checks, "collector", verdictOK, "others may run elsewhere")
	expect(t, checks, "nats", verdictFail, "nats://127.0.0.1:1", "start the server, or correct nats.url")
	expect(t, checks, "clickhouse", verdictFail, "start the server, or correct clickhouse.dsn")
	for _, c := range checks {
		if strings.Contains(c.Detail, "hunter2") {
			t.Errorf("a password is told: %s", c.Detail)
		}
	}
}

func TestDoctorWithoutJetStream(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	checks, _ := seeDoctor(t, external(srv.ClientURL()), "--data-dir", t.TempDir())
	expect(t, checks, "nats", verdictFail, "has no JetStream", "-js")
}

func startNATS(t *testing.T, token string) string {
	t.Helper()
	cfg := natsserver.Default()
	cfg.Dir, cfg.Port, cfg.Token, cfg.Logger = filepath.Join(t.TempDir(), "nats"), -1, token, slog.New(slog.DiscardHandler)
	srv, err := natsserver.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return srv.URL()
}

func TestDoctorOnNATS(t *testing.T) {
	natsURL := startNATS(t, "s3cret")
	env := external(natsURL)
	checks, _ := seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "nats", verdictFail, "Authorization Violation", "set nats.user and password, nats.token")
	env["LLMTAP_NATS_TOKEN"] = "s3cret"
	checks, _ = seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "streams", verdictFail, "is missing", "start llmtap up")

	cfg := jetstream.Default()
	cfg.URL, cfg.Token, cfg.MaxBytes = natsURL, "s3cret", 1<<20
	conn, err := jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	checks, _ = seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "streams", verdictOK, "LLMTAP has 0 events, 0 B of 1MiB, for 24h")
	expect(t, checks, "backlog", verdictFail, "nobody reads it", "role analyze")
	expect(t, checks, "tallies", verdictOK, "none yet")

	// 700 KiB that are not stored, in a stream that takes 1 MiB.
	p := conn.NewPublisher(0)
	for i := range 7 {
		e := &event.Event{
			Kind: event.Request, Exchange: fmt.Sprintf("x%d", i), Time: time.Now(), Labels: event.Labels{Service: "checkout"},
			Part: 1, Parts: 1, Body: make([]byte, 100<<10),
		}
		if err := p.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader, err := conn.OpenReader(t.Context(), jetstream.ReaderConfig{Partition: 0, Partitions: 1, Owner: "here"})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(t.Context())
	conn.DeadLetter(t.Context(), &event.Event{Kind: event.Request}, 1, "too_large", "test")
	tally, err := json.Marshal(analyzer.Tally{Epoch: 1, Counts: []analyzer.Count{
		{Metric: analyzer.MetricDropped, Labels: map[string]string{"service": "checkout"}, N: 3},
		{Metric: analyzer.MetricLost, Labels: map[string]string{"service": "planner"}, N: 4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for second := range int64(2) {
		if err := conn.PublishTally(t.Context(), 0, 1, second, tally); err != nil {
			t.Fatal(err)
		}
	}
	checks, _ = seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "backlog", verdictFail, "p0of1: 7 events wait", "of 24h (68 % of its bytes)", "clickhouse")
	expect(t, checks, "dead_letters", verdictWarn, "too_large 1", event.StreamDead)
	expect(t, checks, "losses", verdictWarn, "hooks dropped exchanges in the last hour: checkout 6")
	expect(t, checks, "tallies", verdictOK)

	env["LLMTAP_NATS_MAX_AGE"] = "12h"
	checks, _ = seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "streams", verdictWarn, "stream LLMTAP: max_age is 24h0m0s, want 12h0m0s", "restart llmtap up")
}

func TestDoctorOnClickHouse(t *testing.T) {
	needClickHouse(t)
	cfg := chdb.Default()
	cfg.Dir = filepath.Join(t.TempDir(), "clickhouse")
	srv, err := chdb.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(t.Context())
	u, err := url.Parse(srv.DSN())
	if err != nil {
		t.Fatal(err)
	}
	env := external(startNATS(t, ""))
	env["LLMTAP_CLICKHOUSE_DSN"] = srv.DSN()
	checks, _ := seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "clickhouse", verdictOK, "database llmtap")
	expect(t, checks, "schema", verdictWarn, "migrations are missing: 0001_exchanges.sql", "start llmtap up")
	if c := checks["disk"]; c.Status == "" || !strings.Contains(c.Detail, "clickhouse's disk default") {
		t.Errorf("disk: %+v", c)
	}
	u.User = url.UserPassword(u.User.Username(), "hunter2")
	env["LLMTAP_CLICKHOUSE_DSN"] = u.String()
	checks, _ = seeDoctor(t, env, "--data-dir", t.TempDir())
	expect(t, checks, "clickhouse", verdictFail, "rejects the login", "clickhouse.password_file")
	if strings.Contains(checks["clickhouse"].Detail, "hunter2") {
		t.Errorf("the password is told: %s", checks["clickhouse"].Detail)
	}
}

// Thresholds, by the values themselves.
func TestDoctorThresholds(t *testing.T) {
	now := time.Now()
	f := func(check, status string, look func(d *doctor)) {
		t.Helper()
		d := &doctor{s: &config.Effective{Config: config.Default()}, now: now}
		look(d)
		if len(d.results) != 1 || d.results[0].Check != check || d.results[0].Status != status {
			t.Errorf("%+v, want %s %s", d.results, status, check)
		}
	}
	backlog := func(behind uint64, age time.Duration, messages, bytes uint64) func(d *doctor) {
		return func(d *doctor) {
			p := jetstream.PartitionState{Name: "p0of1", Owner: "o", LeaseUntil: now.Add(time.Second), Pending: behind, OldestPending: now.Add(-age)}
			d.checkBacklog(&p, &jetstream.StreamState{MaxAge: 24 * time.Hour, MaxBytes: 1000, Messages: messages, Bytes: bytes})
		}
	}
	f("backlog", verdictOK, backlog(0, 0, 100, 900))
	f("backlog", verdictOK, backlog(10, time.Second, 100, 900))
	f("backlog", verdictWarn, backlog(10, 2*time.Minute, 100, 900))
	f("backlog", verdictFail, backlog(10, 13*time.Hour, 100, 900))
	f("backlog", verdictFail, backlog(60, time.Second, 100, 900))
	f("backlog", verdictFail, func(d *doctor) {
		d.checkBacklog(&jetstream.PartitionState{Owner: "dead", LeaseUntil: now.Add(-time.Second)}, &jetstream.StreamState{})
	})
	clock := func(skew, rtt time.Duration) func(d *doctor) {
		return func(d *doctor) { d.checkClock(&jetstream.State{Skew: skew, RTT: rtt}) }
	}
	f("clock", verdictOK, clock(-time.Second, 0))
	f("clock", verdictOK, clock(3*time.Second, 3*time.Second)) // the network may be it
	f("clock", verdictWarn, clock(-3*time.Second, time.Millisecond))
	f("clock", verdictFail, clock(time.Minute, time.Millisecond))
	disk := func(free, total, stream uint64) func(d *doctor) {
		return func(d *doctor) { d.judgeDisk("/", free, total, stream) }
	}
	f("disk", verdictOK, disk(50, 100, 20))
	f("disk", verdictWarn, disk(50, 100, 60))
	f("disk", verdictWarn, disk(9, 100, 0))
	f("disk", verdictFail, disk(1, 100, 0))
}
