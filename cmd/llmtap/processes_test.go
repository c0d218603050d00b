package main

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Two collectors share four partitions, and one is killed with SIGKILL under load. The other acquires its partitions when the
// leases expire: every acknowledged exchange is stored once, with the findings of an undisturbed run.
func TestTakeover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	needClickHouse(t)
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED, requires /proc")
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
			t.Fatalf("the second collector reads %d partitions\n%s", reading(second), second.stderr.String())
		}
	}
	time.Sleep(time.Second)
	first.kill(t)
	killed := time.Now()
	for reading(second) < 4 {
		if time.Since(killed) > time.Minute {
			t.Fatalf("the partitions of the killed collector are not taken over\n%s", second.stderr.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	took := time.Since(killed)
	time.Sleep(time.Second)
	result := auditStore(t, natsURL, rows, load.stop(t))
	result.check(t)
	t.Log("\n" + columns([][]string{
		{"killed", "acked", "stored", "missing", "duplicates", "findings", "tool calls", "differences", "in tallies", "taken over after"},
		{
			"one of two collectors", fmt.Sprint(result.acked), fmt.Sprint(result.stored), fmt.Sprint(result.missing), fmt.Sprint(result.duplicates),
			fmt.Sprint(result.findings), fmt.Sprint(result.toolCalls), fmt.Sprint(len(result.differences)), fmt.Sprint(result.tallied), fmt.Sprintf("%.1f s", took.Seconds()),
		},
	}))
}
