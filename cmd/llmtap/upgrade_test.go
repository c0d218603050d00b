package main

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var previous = flag.String("previous", "", "binary of the previous release, for TestUpgrade; empty skips it")

// A copy of the data directory of a stopped llmtap is a backup: started on it, llmtap has everything, and goes on.
func TestBackup(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	up := startUp(t)
	load := startAgents(t, up.url(), 100)
	up.ready(t)
	time.Sleep(3 * time.Second)
	acked := load.stop(t)
	up.stop(t)

	restored := &upProcess{dir: t.TempDir(), port: freePort(t)}
	must.Do(t, os.CopyFS(restored.dir, os.DirFS(up.dir)))
	must.Do(t, os.RemoveAll(up.dir))
	restored.start(t)
	t.Cleanup(func() { restored.kill(t) })
	restored.ready(t)
	more := startAgents(t, restored.url(), 100)
	time.Sleep(2 * time.Second)
	acked = append(acked, more.stop(t)...)
	rows := restored.rows()
	defer rows.close()
	auditStore(t, restored.url(), rows, acked).check(t)
}

// An upgrade, a rollback and the upgrade again, while agents go on, lose nothing: the new release reads the schema, the buckets and the
// stream of the previous one, and the previous one reads those of the new.
//
//	git worktree add /tmp/previous TAG && go -C /tmp/previous build -o /tmp/llmtap-previous ./cmd/llmtap
//	go test ./cmd/llmtap -run TestUpgrade -previous /tmp/llmtap-previous -v
func TestUpgrade(t *testing.T) {
	if *previous == "" {
		t.Skip("NOT TESTED: use -previous with a binary")
	}
	needClickHouse(t)
	up := &upProcess{dir: t.TempDir(), port: freePort(t), binary: *previous}
	up.start(t)
	t.Cleanup(func() { up.kill(t) })
	up.ready(t)
	load := startAgents(t, up.url(), 100)
	for _, binary := range []string{"", *previous, ""} {
		time.Sleep(5 * time.Second)
		up.stop(t)
		up.binary = binary
		up.start(t)
		up.ready(t)
	}
	time.Sleep(5 * time.Second)
	acked := load.stop(t)
	rows := up.rows()
	defer rows.close()
	a := auditStore(t, up.url(), rows, acked)
	a.check(t)
	t.Logf("%d calls acknowledged, %d stored", a.acked, a.stored)
}
