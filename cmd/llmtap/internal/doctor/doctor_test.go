package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/certs/certstest"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
)

func TestMain(m *testing.M) {
	chdb.RunChild() // the embedded ClickHouse is this binary again
	m.Run()
}

// examine runs the checks with the configuration of env and returns the worst result of each.
func examine(t *testing.T, env map[string]string) map[string]Result {
	t.Helper()
	// Not the configuration and data of this machine.
	settings := map[string]string{"LLMTAP_CONFIG": os.DevNull, "LLMTAP_DATA_DIR": t.TempDir()}
	maps.Copy(settings, env)
	var report *Report
	if cfg, err := config.Load("", func(k string) string { return settings[k] }); err != nil {
		report = Invalid(err)
	} else {
		report = Run(t.Context(), cfg)
	}
	checks := map[string]Result{}
	worst, rank := OK, map[string]int{OK: 1, Warn: 2, Fail: 3}
	for _, r := range report.Checks {
		t.Logf("%s %s: %s; %s", r.Status, r.Check, r.Detail, r.Fix)
		switch worse := rank[r.Status] - rank[checks[r.Check].Status]; {
		case worse > 0:
			checks[r.Check] = r
		case worse == 0:
			checks[r.Check] = Result{Check: r.Check, Status: r.Status, Detail: checks[r.Check].Detail + "\n" + r.Detail, Fix: checks[r.Check].Fix + "\n" + r.Fix}
		}
		if rank[r.Status] > rank[worst] {
			worst = r.Status
		}
	}
	must.Equal(t, report.Status, worst, "status")
	return checks
}

// expect compares the status of a result, and parts of its text.
func expect(t *testing.T, checks map[string]Result, check, status string, parts ...string) {
	t.Helper()
	r := checks[check]
	text := r.Detail + "; " + r.Fix
	must.Equal(t, r.Status, status, "%s is: %s", check, text)
	for _, p := range parts {
		must.Contain(t, text, p, check)
	}
}

func TestNothingRunning(t *testing.T) {
	dir := t.TempDir()
	checks := examine(t, map[string]string{"LLMTAP_DATA_DIR": dir})
	expect(t, checks, "config", OK, os.DevNull)
	expect(t, checks, "collector", Fail, "llmtap is not running on "+dir, "embedded NATS and ClickHouse", "llmtap up")
	expect(t, checks, "slack", Warn, "slack.channel")
	for _, absent := range []string{"nats", "clickhouse", "backlog"} {
		if c, ok := checks[absent]; ok {
			t.Errorf("%+v without a running process", c)
		}
	}
}

func TestInvalidConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "llmtap.yaml")
	write := func(text string) {
		t.Helper()
		filetest.Write(t, file, text)
	}
	write("nats:\n  ur: x\nroles: [cook]\n")
	checks := examine(t, map[string]string{"LLMTAP_CONFIG": file})
	expect(t, checks, "config", Fail, file+":2: unknown key nats.ur; did you mean nats.url?")
	must.Equal(t, len(checks), 1, "checks of an invalid configuration")
	// A valid configuration with a missing file.
	write("slack:\n  channel: C1\n  token_file: " + dir + "/token\n")
	checks = examine(t, map[string]string{"LLMTAP_CONFIG": file})
	expect(t, checks, "config", Fail, "slack.token_file: open "+dir+"/token", "make it readable for the user that runs llmtap")
	expect(t, checks, "slack", Fail, "read token_file")
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ca := certstest.NewCA(t, dir, "ca")
	file := filepath.Join(dir, "llmtap.yaml")
	f := func(text, status string, parts ...string) {
		t.Helper()
		filetest.Write(t, file, strings.ReplaceAll(text, "DIR", dir))
		expect(t, examine(t, map[string]string{"LLMTAP_CONFIG": file}), "certificates", status, parts...)
	}
	ca.Issue(t, dir, "soon", "collector.internal") // for an hour
	f("tls: {cert_file: DIR/soon.pem, key_file: DIR/soon.key}", Warn, "tls.cert_file: collector.internal, expires in", "renew it")
	f("http: {ca_file: DIR/soon.key}", Fail, "http.ca_file: "+dir+"/soon.key has no certificate")
	f("tls: {cert_file: DIR/soon.pem, key_file: DIR/ca.pem}", Fail, "tls: read cert_file and key_file")
	now := time.Now()
	for until, want := range map[time.Duration]string{-time.Hour: Fail, 30 * 24 * time.Hour: OK, 24 * time.Hour: Warn} {
		ca.IssueUntil(t, dir, "x", "10.0.0.7", now.Add(until))
		f("http: {cert_file: DIR/x.pem, key_file: DIR/x.key}", want, "http.cert_file: 10.0.0.7", now.Add(until).UTC().Format(time.DateOnly))
	}
	// The CA is public, the key is not.
	for _, name := range []string{"soon.key", "soon.pem"} {
		must.Do(t, os.Chmod(filepath.Join(dir, name), 0o644))
	}
	checks := examine(t, map[string]string{"LLMTAP_TLS_CERT_FILE": dir + "/soon.pem", "LLMTAP_TLS_KEY_FILE": dir + "/soon.key"})
	expect(t, checks, "config", Warn, "tls.key_file: every user of this machine can read "+dir+"/soon.key", "chmod")
}

func TestRunningCollector(t *testing.T) {
	collectortest.NeedClickHouse(t)
	cfg := collectortest.Config(t, func(c *config.Config) { c.NATSServer.Token = "s3cret" })
	c := must.Get(collector.Open(context.WithoutCancel(t.Context()), cfg, collector.Options{Logger: slog.New(slog.DiscardHandler), Progress: func(s string) { t.Log(s) }}))(t)
	collectortest.RunReady(t, c)
	collectortest.RunAgents(t, strings.Replace(c.NATSURL(), "nats://", "nats://s3cret@", 1), c.ClickHouse())
	slack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"ok":true,"team":"Acme","user":"llmtap","channels":[{"name":"oncall","is_member":true}]}`)
	}))
	defer slack.Close()
	env := map[string]string{"LLMTAP_SLACK_CHANNEL": "#oncall", "LLMTAP_SLACK_TOKEN": "xoxb-1", "LLMTAP_SLACK_API_URL": slack.URL, "LLMTAP_DATA_DIR": cfg.DataDir, "LLMTAP_NATS_SERVER_TOKEN": "s3cret"}
	var checks map[string]Result
	must.Wait(t, "no backlog, and tallies", func() bool { // the last rows may be pending, and a second is tallied two seconds later
		checks = examine(t, env)
		return checks["backlog"].Status == OK && checks["tallies"].Detail != "none yet"
	}, func() any { return checks })
	expect(t, checks, "collector", OK, fmt.Sprintf("process %d", os.Getpid()), "is ready")
	expect(t, checks, "receive", OK, "receives events and OpenTelemetry over HTTP at http://127.0.0.1:", "OpenTelemetry over gRPC at http://127.0.0.1:")
	expect(t, checks, "nats", OK, c.NATSURL())
	expect(t, checks, "streams", OK, "as configured")
	expect(t, checks, "clock", OK)
	expect(t, checks, "backlog", OK, "read by embedded")
	expect(t, checks, "tallies", OK, "the newest is")
	expect(t, checks, "losses", OK, "none in the last hour")
	expect(t, checks, "clients", OK, "none refused in the last hour")
	expect(t, checks, "users", OK, `export LLMTAP_SHAPE_KEY="$(cat '`, "shape.key")
	expect(t, checks, "dead_letters", OK, "none")
	expect(t, checks, "libchdb", OK)
	expect(t, checks, "clickhouse", OK, "embedded in "+config.ClickHouseDir(cfg.DataDir))
	expect(t, checks, "schema", OK, "up to date")
	expect(t, checks, "services", OK, ": hook go/", " calls", ", the newest ")
	expect(t, checks, "slack", OK, "#oncall: posts as llmtap of Acme")

	for range 3 {
		if nc, err := nats.Connect(c.NATSURL(), nats.Token("old"), nats.Name("llmtap-go/checkout")); err == nil {
			nc.Close()
			t.Error("connected with a wrong token")
		}
	}
	expect(t, examine(t, env), "clients", Warn, "3 connections from 127.0.0.1 (llmtap-go/checkout) refused in ", "ago: wrong token",
		"set LLMTAP_NATS_URL=nats://TOKEN@HOST:", "the token of nats_server.token")
}

// external returns the configuration of a NATS at url and a ClickHouse that is down.
func external(url string) map[string]string {
	return map[string]string{
		"LLMTAP_COLLECTOR_NATS_URL": url, "LLMTAP_CLICKHOUSE_DSN": "http://u:hunter2@127.0.0.1:1/llmtap", "LLMTAP_NATS_MAX_BYTES": "1MiB",
	}
}

func TestServersDown(t *testing.T) {
	t.Parallel()
	checks := examine(t, external("nats://127.0.0.1:1"))
	expect(t, checks, "collector", OK, "it may run elsewhere")
	expect(t, checks, "nats", Fail, "nats://127.0.0.1:1", "start the server or correct nats.url")
	expect(t, checks, "clickhouse", Fail, "start the server or correct clickhouse.dsn")
	for _, c := range checks {
		if strings.Contains(c.Detail, "hunter2") {
			t.Errorf("password in %s", c.Detail)
		}
	}
}

func TestNoJetStream(t *testing.T) {
	srv := must.Get(server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true}))(t)
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	checks := examine(t, external(srv.ClientURL()))
	expect(t, checks, "nats", Fail, "has no JetStream", "-js")
}

func TestNATS(t *testing.T) {
	natsURL := collectortest.StartNATS(t, "s3cret")
	env := external(natsURL)
	checks := examine(t, env)
	expect(t, checks, "nats", Fail, "Authorization Violation", "set nats.user and nats.password, nats.token")
	env["LLMTAP_NATS_TOKEN"] = "s3cret"
	checks = examine(t, env)
	expect(t, checks, "streams", Fail, "is missing", "run llmtap up")

	cfg := jetstream.Default()
	cfg.URL, cfg.Token, cfg.MaxBytes = natsURL, "s3cret", 1<<20
	conn := must.Get(jetstream.Connect(t.Context(), cfg, slog.New(slog.DiscardHandler), nil))(t)
	defer conn.Close()
	must.Do(t, conn.Ensure(t.Context()))
	checks = examine(t, env)
	expect(t, checks, "streams", OK, "LLMTAP has 0 messages, 0 B of 1MiB, retention 24h")
	expect(t, checks, "backlog", Fail, "no process reads it", "role analyze")
	expect(t, checks, "tallies", OK, "none yet")

	// 700 KiB are pending, in a stream of at most 1 MiB.
	p := conn.NewPublisher(0)
	for i := range 7 {
		e := &event.Event{
			Kind: event.Request, Exchange: fmt.Sprintf("x%d", i), Time: time.Now(), Labels: event.Labels{Service: "checkout"},
			Part: 1, Parts: 1, Body: make([]byte, 100<<10),
		}
		must.Do(t, p.Publish(t.Context(), e))
	}
	must.Do(t, p.Flush(t.Context()))
	reader := must.Get(conn.OpenReader(t.Context(), jetstream.ReaderConfig{Partition: 0, Partitions: 1, Owner: "here"}))(t)
	defer reader.Close(t.Context())
	conn.DeadLetter(t.Context(), &event.Event{Kind: event.Request}, 1, 0, "too_large", "test")
	tally := must.Get(json.Marshal(analyzer.Tally{Epoch: 1, Counts: []analyzer.Count{
		{Metric: analyzer.MetricDropped, Labels: map[string]string{"service": "checkout"}, N: 3},
		{Metric: analyzer.MetricLost, Labels: map[string]string{"service": "planner"}, N: 4},
		{Metric: analyzer.MetricUncaptured, Labels: map[string]string{"service": "dspy", "transport": event.TransportGRPC}, N: 5},
		{Metric: analyzer.MetricUncaptured, Labels: map[string]string{"service": "nightly", "transport": analyzer.TransportBatch}, N: 1},
	}}))(t)
	for second := range int64(2) {
		must.Do(t, conn.PublishTally(t.Context(), 0, 1, second, tally))
	}
	checks = examine(t, env)
	expect(t, checks, "backlog", Fail, "p0of1: ", " messages pending, ", "of 24h (68% of its size)", "clickhouse")
	expect(t, checks, "dead_letters", Warn, "too_large 1", event.StreamDead)
	expect(t, checks, "losses", Warn, "hooks dropped calls in the last hour: checkout 6")
	expect(t, checks, "capture", Warn, "not recorded in the last hour: batches: nightly 2", "llmtap import")
	expect(t, checks, "capture", Warn, "not recorded in the last hour: calls over gRPC: dspy 10", "transport=")
	expect(t, checks, "tallies", OK)
	expect(t, checks, "clients", OK, "not checked", "log of the NATS server")

	env["LLMTAP_NATS_MAX_AGE"] = "12h"
	checks = examine(t, env)
	expect(t, checks, "streams", Warn, "stream LLMTAP: max_age is 24h0m0s, want 12h0m0s", "restart llmtap up")
}

func TestClickHouse(t *testing.T) {
	collectortest.NeedClickHouse(t)
	srv := collectortest.StartClickHouse(t)
	u := must.Get(url.Parse(srv.DSN()))(t)
	env := external(collectortest.StartNATS(t, ""))
	env["LLMTAP_CLICKHOUSE_DSN"] = srv.DSN()
	checks := examine(t, env)
	expect(t, checks, "clickhouse", OK, "database llmtap")
	expect(t, checks, "schema", Warn, "migrations are missing: 0001_exchanges.sql", "start llmtap up")
	if c := checks["disk"]; c.Status == "" || !strings.Contains(c.Detail, "ClickHouse disk default") {
		t.Errorf("disk: %+v", c)
	}
	u.User = url.UserPassword(u.User.Username(), "hunter2")
	env["LLMTAP_CLICKHOUSE_DSN"] = u.String()
	checks = examine(t, env)
	expect(t, checks, "clickhouse", Fail, "rejects the login", "clickhouse.password_file")
	if strings.Contains(checks["clickhouse"].Detail, "hunter2") {
		t.Errorf("password in %s", checks["clickhouse"].Detail)
	}
}

func TestThresholds(t *testing.T) {
	now := time.Now()
	f := func(check, status string, look func(c *checker)) {
		t.Helper()
		c := newChecker(&config.Effective{Config: config.Default()}, now)
		look(c)
		if got := c.report.Checks; len(got) != 1 || got[0].Check != check || got[0].Status != status {
			t.Errorf("%+v, want %s %s", got, status, check)
		}
	}
	backlog := func(behind uint64, age time.Duration, messages, bytes uint64) func(c *checker) {
		return func(c *checker) {
			p := jetstream.PartitionState{Name: "p0of1", Owner: "o", LeaseUntil: now.Add(time.Second), Pending: behind, OldestPending: now.Add(-age)}
			c.checkBacklog(&p, &jetstream.StreamState{MaxAge: 24 * time.Hour, MaxBytes: 1000, Messages: messages, Bytes: bytes})
		}
	}
	f("backlog", OK, backlog(0, 0, 100, 900))
	f("backlog", OK, backlog(10, time.Second, 100, 900))
	f("backlog", Warn, backlog(10, 2*time.Minute, 100, 900))
	f("backlog", Fail, backlog(10, 13*time.Hour, 100, 900))
	f("backlog", Fail, backlog(60, time.Second, 100, 900))
	f("backlog", Fail, func(c *checker) {
		c.checkBacklog(&jetstream.PartitionState{Owner: "dead", LeaseUntil: now.Add(-time.Second)}, &jetstream.StreamState{})
	})
	clock := func(skew, rtt time.Duration) func(c *checker) {
		return func(c *checker) { c.checkClock(&jetstream.State{Skew: skew, RTT: rtt}) }
	}
	f("clock", OK, clock(-time.Second, 0))
	f("clock", OK, clock(3*time.Second, 3*time.Second)) // the round trip may explain it
	f("clock", Warn, clock(-3*time.Second, time.Millisecond))
	f("clock", Fail, clock(time.Minute, time.Millisecond))
	disk := func(free, total, stream uint64) func(c *checker) {
		return func(c *checker) { c.checkSpace("/", free, total, stream) }
	}
	f("disk", OK, disk(50, 100, 20))
	f("disk", Warn, disk(50, 100, 60))
	f("disk", Warn, disk(9, 100, 0))
	f("disk", Fail, disk(1, 100, 0))
}
