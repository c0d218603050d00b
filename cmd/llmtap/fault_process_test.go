package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb"
)

// Processes of llmtap and of the engine that die or stop.
var processFaults = []fault{
	{
		name: "llmtap with NATS and ClickHouse is killed", short: true, times: 5, start: embedded,
		strike: func(r *faultRun) func() { r.up().kill(r.T); r.up().start(r.T); return nil },
	},
	{
		name: "llmtap with NATS and ClickHouse is paused", hold: 20 * time.Second, start: embedded,
		strike: func(r *faultRun) func() { return pause(r, r.up().cmd.Process.Pid) },
	},
	{
		name: "analyzer is killed", times: 5, start: separate,
		strike: func(r *faultRun) func() { r.up().kill(r.T); r.up().start(r.T); return nil },
	},
	{
		name: "embedded ClickHouse is killed", short: true, times: 5, start: embedded,
		strike: func(r *faultRun) func() { signalProcess(r.T, engineOf(r), syscall.SIGKILL); return nil },
	},
	{
		name: "one of two llmtap is killed", short: true, start: pair,
		strike: func(r *faultRun) func() {
			r.up().kill(r.T)
			return func() { // the burst begins before the partitions are taken over
				waitFor(r.T, r.ups[1], "the partitions of the killed process", func() bool { return readPartitions(r.ups[1]) >= pairPartitions })
			}
		},
	},
	{
		name: "one of two llmtap is paused", hold: 25 * time.Second, start: pair,
		strike: func(r *faultRun) func() { return pause(r, r.up().cmd.Process.Pid) },
	},
}

// pause stops a process with SIGSTOP until the end of the fault.
func pause(r *faultRun, pid int) func() {
	signalProcess(r.T, pid, syscall.SIGSTOP)
	return func() { signalProcess(r.T, pid, syscall.SIGCONT) }
}

// engineOf returns the process of the embedded ClickHouse.
func engineOf(r *faultRun) int { return clickhouseChild(r.T, r.up().cmd.Process.Pid) }

// embedded starts one llmtap with its own NATS and ClickHouse.
func embedded(r *faultRun) {
	r.startUp()
	r.natsURL, r.rows = r.up().url(), r.up().rows()
}

// startUp starts a collector with further flags.
func (r *faultRun) startUp(flags ...string) *upProcess {
	r.Helper()
	// The audit needs all events, also if the clock of NATS jumps.
	if len(r.ups) == 0 {
		r.configure("nats: {keep_stored: true, max_age: 240h%s}", r.natsSettings)
	}
	up := startUp(r.T, append([]string{"--config", r.config}, flags...)...)
	r.ups = append(r.ups, up)
	return up
}

// separate starts the roles analyze and alert of llmtap beside a nats-server and a ClickHouse.
func separate(r *faultRun) {
	r.nats = startNATSProcess(r.T)
	dsn := r.startEngine()
	r.natsURL, r.rows = r.nats.url(), direct(dsn)
	r.startUp("--roles", "analyze", "--nats-url", r.natsURL, "--clickhouse-dsn", dsn)
	r.startUp("--roles", "alert", "--nats-url", r.natsURL, "--clickhouse-dsn", dsn)
}

// pairPartitions is the number of partitions of a pair.
const pairPartitions = 4

// pair starts two llmtap that share the partitions, beside a nats-server and a ClickHouse. The first one sends the
// notifications.
func pair(r *faultRun) {
	r.nats = startNATSProcess(r.T)
	dsn := r.startEngine()
	r.natsURL, r.rows = r.nats.url(), direct(dsn)
	flags := []string{"--roles", "analyze,alert", "--nats-url", r.natsURL, "--clickhouse-dsn", dsn, "--partitions", strconv.Itoa(pairPartitions)}
	await(r.T, r.startUp(flags...), "took the lease", 0)
	second := r.startUp(flags...)
	waitFor(r.T, second, "the partitions of the second process", func() bool { return readPartitions(second) >= pairPartitions/2 })
}

// readPartitions returns the number of partitions that u has begun to read.
func readPartitions(u *upProcess) int {
	return strings.Count(u.stderr.String(), `msg="reading partition"`)
}

// direct returns the ClickHouse at dsn.
func direct(dsn string) *store { return &store{dsn: func() (string, bool) { return dsn, true }} }

// startEngine runs a ClickHouse outside of the collectors.
func (r *faultRun) startEngine() (dsn string) {
	r.Helper()
	r.engineDir = r.TempDir()
	return startEngine(r.T, r.engineDir)
}

// startEngine runs a ClickHouse outside of a collector until the test ends.
func startEngine(t *testing.T, dir string) (dsn string) {
	t.Helper()
	cfg := chdb.Default()
	cfg.Dir = dir
	ch := must.Get(chdb.Start(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = ch.Close(t.Context()) }) // ctx has ended: it is killed
	return ch.DSN()
}

// servers runs a NATS and a ClickHouse server outside of a collector.
func servers(t *testing.T) (natsURL, dsn string) {
	t.Helper()
	return collectortest.StartNATS(t, ""), startEngine(t, t.TempDir())
}

// proxied starts llmtap with its own NATS and a ClickHouse behind a proxy. The audit does not use the proxy.
func proxied(r *faultRun) {
	dsn := r.startEngine()
	u := must.Get(url.Parse(dsn))(r)
	r.proxy = startProxy(r.T, u.Host)
	u.Host = r.proxy.addr
	r.startUp("--clickhouse-dsn", u.String())
	r.natsURL, r.rows = r.up().url(), direct(dsn)
}

// clustered starts llmtap with its own ClickHouse beside a cluster of three nats-servers with three replicas.
func clustered(apart bool) func(r *faultRun) {
	return func(r *faultRun) {
		r.cluster = startNATSCluster(r.T, apart)
		r.natsURL = r.cluster.url()
		r.natsSettings = fmt.Sprintf(", url: '%s', replicas: 3", r.natsURL)
		r.startUp()
		r.rows = r.up().rows()
		r.cluster.awaitReplicas(r.T)
	}
}
