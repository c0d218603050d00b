package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// smallDisk mounts a file system of its own in memory until the test ends, and returns its directory.
func smallDisk(t *testing.T, megabytes int) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", megabytes), "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("mount a small disk: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED, requires root to mount a small disk: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "--lazy", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v\n%s", err, out)
		}
	})
	return dir
}

// fill writes a file until only leave bytes of the disk are free. It returns a function that removes the file.
func fill(t *testing.T, dir string, leave uint64) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f := must.Get(os.Create(name))(t)
	defer f.Close()
	for chunk := make([]byte, 64<<10); ; {
		free, _, err := config.DiskSpace(dir)
		must.Do(t, err)
		if free <= leave {
			break
		}
		if _, err := f.Write(chunk[:min(uint64(len(chunk)), free-leave)]); errors.Is(err, syscall.ENOSPC) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// The disk of the embedded servers fills up, first to the reserve, then to the last byte. Events are refused before that, which
// /readyz and an alert say at once; when there is room again, llmtap goes on by itself, and every acknowledged exchange is
// stored once.
func TestDiskFull(t *testing.T) {
	slowtest.Skip(t)
	t.Parallel()
	needClickHouse(t)
	const reserve = 100 << 20
	u := &upProcess{dir: filepath.Join(smallDisk(t, 600), "data"), port: freePort(t), env: []string{fmt.Sprintf("LLMTAP_DISK_RESERVE=%d", reserve)}}
	u.start(t)
	t.Cleanup(func() { u.kill(t) })
	rows := u.rows()
	t.Cleanup(rows.close)
	u.ready(t)
	load := startAgents(t, u.url(), 50)
	rows.waitNewer(t, time.Now(), 5*time.Minute)
	for _, leave := range []uint64{reserve * 8 / 10, 0} {
		empty := fill(t, u.dir, leave)
		waitFor(t, u, "events are refused", func() bool {
			return strings.Contains(u.readiness(), "NATS refuses new events") && strings.Contains(u.metrics(t), "\nllmtap_ingest_refusing_events 1\n")
		})
		waitFor(t, u, "an alert fires", func() bool { return strings.Contains(u.stderr.String(), "state=firing alert=DiskFull") })
		time.Sleep(2 * time.Second) // acknowledgements on their way
		acked := load.count()
		time.Sleep(2 * time.Second)
		if n := load.count(); n > acked {
			t.Errorf("%d events were acknowledged while the disk is full", n-acked)
		}
		empty()
		waitFor(t, u, "events are accepted", func() bool { return strings.HasPrefix(u.readiness(), "ready") && load.count() > acked })
		rows.waitNewer(t, time.Now(), 5*time.Minute)
	}
	result := auditStore(t, u.url(), rows, load.stop(t))
	result.check(t)
	if n := strings.Count(u.stderr.String(), "starting NATS again"); n > 0 {
		t.Logf("NATS was started again %d times", n)
	}
}
