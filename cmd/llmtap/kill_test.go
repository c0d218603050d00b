package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var (
	kills    = flag.Int("kills", 2, "number of times TestKills kills each victim")
	killRate = flag.Int("kill-rate", 100, "exchanges per second of the agents")
)

// A victim is a part of a collector, which a test kills with SIGKILL.
type victim struct {
	name string
	// start starts a collector and returns its NATS, its store, and a function that kills its part, and restarts it if nothing
	// else does.
	start func(t *testing.T) (natsURL string, rows *store, kill func())
}

// Every acknowledged exchange is stored once, whatever is killed under load; its findings and tool calls and the ledger equal
// those of an undisturbed run, and each call is tallied once.
//
//	go test ./cmd/llmtap -run TestKills -kills 20 -v
func TestKills(t *testing.T) {
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
	}
	t.Parallel()
	rows := make([][]string, len(victims))
	t.Cleanup(func() {
		head := []string{"killed", "times", "acked", "stored", "missing", "duplicates", "findings", "tool calls", "ledger", "differences", "in tallies", "recovery p50", "max"}
		t.Log("\n" + columns(append([][]string{head}, rows...)))
	})
	for i, v := range victims {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			rows[i] = killUnderLoad(t, v)
		})
	}
}

var victims = []victim{
	{"collector with NATS and ClickHouse", func(t *testing.T) (string, *store, func()) {
		up := startUp(t)
		return up.url(), up.rows(), func() { up.kill(t); up.start(t) }
	}},
	{"embedded ClickHouse", func(t *testing.T) (string, *store, func()) {
		up := startUp(t)
		return up.url(), up.rows(), func() { signalProcess(t, clickhouseChild(t, up.cmd.Process.Pid), syscall.SIGKILL) }
	}},
	{"analyzer", func(t *testing.T) (string, *store, func()) {
		natsURL, dsn := servers(t)
		up := startUp(t, "--roles", "analyze", "--nats-url", natsURL, "--clickhouse-dsn", dsn)
		return natsURL, &store{dsn: func() (string, bool) { return dsn, true }}, func() { up.kill(t); up.start(t) }
	}},
}

// servers runs a NATS and a ClickHouse server outside of a collector.
func servers(t *testing.T) (natsURL, dsn string) {
	t.Helper()
	chCfg := chdb.Default()
	chCfg.Dir = t.TempDir()
	ch, err := chdb.Start(t.Context(), chCfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.Close(t.Context()) }) // ctx has ended: it is killed
	return collectortest.StartNATS(t, ""), ch.DSN()
}

// killUnderLoad kills v under load and returns its row of the table.
func killUnderLoad(t *testing.T, v victim) []string {
	natsURL, rows, kill := v.start(t)
	t.Cleanup(rows.close)
	load := startAgents(t, natsURL, *killRate)
	rows.waitNewer(t, time.Now(), time.Minute)
	rng := rand.New(rand.NewPCG(uint64(*kills), uint64(len(v.name))))
	var back []time.Duration
	for k := range *kills {
		time.Sleep(time.Duration(rng.Int64N(int64(1500 * time.Millisecond))))
		killed := time.Now()
		kill()
		if k%4 == 2 && k < *kills-1 {
			continue // kill it again while it restarts
		}
		back = append(back, rows.waitNewer(t, killed, time.Minute))
	}
	result := auditStore(t, natsURL, rows, load.stop(t))
	result.check(t)
	return []string{
		v.name, fmt.Sprint(*kills), fmt.Sprint(result.acked), fmt.Sprint(result.stored), fmt.Sprint(result.missing), fmt.Sprint(result.duplicates),
		fmt.Sprint(result.findings), fmt.Sprint(result.toolCalls), fmt.Sprint(result.ledgerEntries), fmt.Sprint(len(result.differences)), fmt.Sprint(result.tallied),
		fmt.Sprintf("%.1f s", quantile(back, 0.5).Seconds()), fmt.Sprintf("%.1f s", quantile(back, 1).Seconds()),
	}
}
