package main

import (
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/natsserver"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var (
	kills    = flag.Int("kills", 2, "how often TestKills kills each victim")
	killRate = flag.Int("kill-rate", 100, "exchanges a second that agents publish meanwhile")
)

// A victim is a part of a collector that a test kills with SIGKILL.
type victim struct {
	name string
	// start starts a collector and returns where its agents publish, where its rows are, and how its part is killed, and
	// brought back if that is nobody else's task.
	start func(t *testing.T) (natsURL string, rows *store, kill func())
}

// Whatever is killed under load: every exchange whose publishing was acknowledged is stored, once, its findings and tool
// calls and the ledger are those of a run that nobody disturbs, and the tallies count each call once.
//
//	go test ./cmd/llmtap -run TestKills -kills 20 -v
func TestKills(t *testing.T) {
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, processes are found in /proc")
	}
	rows := make([][]string, len(victims))
	t.Cleanup(func() {
		head := []string{"killed", "times", "acked", "stored", "missing", "double", "findings", "tool calls", "ledger", "wrong rows", "in tallies", "back p50", "max"}
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

// servers runs a NATS and a ClickHouse that belong to no collector.
func servers(t *testing.T) (natsURL, dsn string) {
	t.Helper()
	natsCfg := natsserver.Default()
	natsCfg.Dir, natsCfg.Port, natsCfg.Logger = t.TempDir(), -1, slog.New(slog.DiscardHandler)
	nats, err := natsserver.Start(t.Context(), natsCfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Shutdown)
	chCfg := chdb.Default()
	chCfg.Dir = t.TempDir()
	ch, err := chdb.Start(t.Context(), chCfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ch.Close(t.Context()) }) // it is killed then
	return nats.URL(), ch.DSN()
}

// killUnderLoad kills v under load and returns its line of the table.
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
			continue // and once more, while it comes back
		}
		back = append(back, rows.waitNewer(t, killed, time.Minute))
	}
	verdict := judge(t, natsURL, rows, load.stop(t))
	verdict.check(t)
	return []string{
		v.name, fmt.Sprint(*kills), fmt.Sprint(verdict.acked), fmt.Sprint(verdict.stored), fmt.Sprint(verdict.missing), fmt.Sprint(verdict.double),
		fmt.Sprint(verdict.findings), fmt.Sprint(verdict.calls), fmt.Sprint(verdict.entries), fmt.Sprint(len(verdict.wrong)), fmt.Sprint(verdict.tallied),
		fmt.Sprintf("%.1f s", quantile(back, 0.5).Seconds()), fmt.Sprintf("%.1f s", quantile(back, 1).Seconds()),
	}
}
