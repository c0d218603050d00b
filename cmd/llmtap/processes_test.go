package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Two collectors share four partitions; one of them is killed with SIGKILL under load. The other takes its partitions over
// when the leases end: every exchange that was acknowledged is stored once, with the findings of an undisturbed run.
func TestKilledBesideAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long, and the race detector sees nothing new in it")
	}
	t.Parallel()
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, processes are found in /proc")
	}
	natsURL, dsn := servers(t)
	rows := &store{dsn: func() (string, bool) { return dsn, true }}
	t.Cleanup(rows.close)
	flags := []string{"--roles", "analyze", "--nats-url", natsURL, "--clickhouse-dsn", dsn, "--partitions", "4"}
	first := startUp(t, flags...)
	load := startAgents(t, natsURL, *killRate)
	rows.waitNewer(t, time.Now(), time.Minute)
	second := startUp(t, flags...)
	reading := func(u *upProcess) int { return strings.Count(u.stderr.String(), `msg="reading partition"`) }
	for begun := time.Now(); reading(second) < 2; time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("the second collector holds %d partitions\n%s", reading(second), second.stderr.String())
		}
	}
	time.Sleep(time.Second)
	first.kill(t)
	killed := time.Now()
	for reading(second) < 4 {
		if time.Since(killed) > time.Minute {
			t.Fatalf("the partitions of the dead are not taken over\n%s", second.stderr.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	took := time.Since(killed)
	time.Sleep(time.Second)
	verdict := judge(t, natsURL, rows, load.stop(t))
	verdict.check(t)
	t.Log("\n" + columns([][]string{
		{"killed", "acked", "stored", "missing", "double", "findings", "tool calls", "wrong rows", "in tallies", "taken over after"},
		{
			"one of two collectors", fmt.Sprint(verdict.acked), fmt.Sprint(verdict.stored), fmt.Sprint(verdict.missing), fmt.Sprint(verdict.double),
			fmt.Sprint(verdict.findings), fmt.Sprint(verdict.calls), fmt.Sprint(len(verdict.wrong)), fmt.Sprint(verdict.tallied), fmt.Sprintf("%.1f s", took.Seconds()),
		},
	}))
}
