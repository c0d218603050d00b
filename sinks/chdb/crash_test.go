package chdb

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The child is killed repeatedly during inserts: it is restarted at the same address, every acknowledged batch is stored once,
// and no batch is stored partially.
func TestKill(t *testing.T) {
	s := start(t, t.TempDir())
	c := open(t, s)
	mustExec(t, c, "CREATE TABLE t (batch UInt32, n UInt32, s String) ENGINE = MergeTree ORDER BY (batch, n)")
	const kills, writers, perBatch = 3, 2, 2000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	acked := map[uint32]bool{}
	next := uint32(0)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			c := open(t, s, func(o *clickhouse.Options) { o.ReadTimeout = 20 * time.Second })
			for ctx.Err() == nil {
				mu.Lock()
				next++
				id := next
				mu.Unlock()
				b, err := c.PrepareBatch(context.Background(), "INSERT INTO t")
				if err != nil {
					continue
				}
				for i := range perBatch {
					if err := b.Append(id, uint32(i), strings.Repeat("abc def ", 20)); err != nil {
						t.Error(err)
						return
					}
				}
				if b.Send() == nil {
					mu.Lock()
					acked[id] = true
					mu.Unlock()
				}
			}
		})
	}
	ackedMore := func(n int) {
		t.Helper()
		mu.Lock()
		want := len(acked) + n
		mu.Unlock()
		must.Wait(t, "more batches are acknowledged", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acked) >= want
		}, func() any { return s.Health() })
	}
	for range kills {
		ackedMore(5)
		killChild(t)
	}
	ackedMore(5)
	cancel()
	wg.Wait()
	must.Do(t, s.Health())
	must.Equal(t, testutil.ToFloat64(s.metrics.restarts), kills, "restarts")
	rows := must.Get(c.Query(t.Context(), "SELECT batch, count() FROM t GROUP BY batch"))(t)
	defer rows.Close()
	whole := map[uint32]bool{}
	for rows.Next() {
		var id uint32
		var n uint64
		must.Do(t, rows.Scan(&id, &n))
		must.Equal(t, n, perBatch, "rows of batch %d", id)
		whole[id] = true
	}
	for id := range acked {
		if !whole[id] {
			t.Errorf("batch %d was acknowledged but is missing", id)
		}
	}
	t.Logf("%d batches acknowledged, %d present, %d kills", len(acked), len(whole), kills)
}

// killChild kills the newest child of this process.
func killChild(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		t.Skip("NOT TESTED: needs /proc to find the child")
	}
	newest, started := 0, 0 // by start time: process ids wrap
	for _, f := range files {
		b, _ := os.ReadFile(f) // the thread may have ended
		for pid := range strings.FieldsSeq(string(b)) {
			stat, _ := os.ReadFile(filepath.Join("/proc", pid, "stat"))
			_, fields, _ := strings.Cut(string(stat), ") ")
			if f := strings.Fields(fields); len(f) > 19 {
				if ticks, _ := strconv.Atoi(f[19]); ticks > started {
					started = ticks
					newest, _ = strconv.Atoi(pid)
				}
			}
		}
	}
	p, err := os.FindProcess(newest)
	if err != nil || newest == 0 {
		t.Fatal("no child found", err)
	}
	must.Do(t, p.Kill())
}

// A directory is used by one server at a time, and its data outlives the server.
func TestSecondProcess(t *testing.T) {
	dir := t.TempDir()
	needLibrary(t)
	cfg := Default()
	cfg.Dir = dir
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	first := must.Get(Start(t.Context(), cfg))(t)
	c := open(t, first)
	mustExec(t, c, "CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n")
	insertNumbers(t, t.Context(), c, "t", 1, 2, 3)

	cfg.Registerer = nil
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), "clickhouse.dsn") {
		t.Errorf("second server: %v", err)
	}
	if dsn, ok := Running(dir); !ok || dsn != first.DSN() {
		t.Errorf("Running: %q %v", dsn, ok)
	}
	// The error is as clear if an engine without our lock uses the data. The lock is held by the first child.
	other := t.TempDir()
	must.Do(t, os.Symlink(filepath.Join(dir, "data"), filepath.Join(other, "data")))
	cfg.Dir = other
	must.Fail(t, must.Err(Start(t.Context(), cfg)), "another ClickHouse has the directory open", "two engines on the same data")

	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if n, err := testutil.GatherAndCount(reg, "llmtap_sinks_chdb_queries_total"); err != nil || n == 0 {
		t.Errorf("%d query counters, %v", n, err)
	}
	since := time.Now()
	must.Do(t, first.Close(t.Context()))
	if d := time.Since(since); d > childGrace {
		t.Errorf("stopping took %s", d)
	}
	must.Do(t, first.Close(t.Context()))
	if first.Health() == nil {
		t.Error("Health returns nil after Close")
	}
	if _, ok := Running(dir); ok {
		t.Error("Running returns a server after Close")
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "status")); !os.IsNotExist(err) {
		t.Error("the engine was not closed:", err)
	}
	must.Equal(t, count(t, open(t, start(t, dir)), "t"), 3, "rows after a restart")
}

// Close does not wait for an endless statement or for clients with open connections.
func TestStopUnderLoad(t *testing.T) {
	s := start(t, t.TempDir())
	c := open(t, s)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Exec(context.Background(), "SELECT count() FROM numbers_mt(1000000000000) WHERE sipHash64(number) = 3")
	}()
	waitRunning(t, open(t, s), 1)
	start := time.Now()
	must.Do(t, s.Close(t.Context()))
	if d := time.Since(start); d > stopTimeout {
		t.Errorf("stopping took %s", d)
	}
	if err := <-ended; err == nil {
		t.Error("the endless statement returned no error")
	}
}

// parentEnv makes the test binary a parent that starts a server on this directory and then waits.
const parentEnv = "LLMTAP_CHDB_TEST_PARENT"

func parentMain(dir string) {
	cfg := Default()
	cfg.Dir = dir
	s, err := Start(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.DSN())
	select {}
}

// The child dies with its parent, and the next process can open the directory immediately.
func TestParentKilled(t *testing.T) {
	needLibrary(t)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), parentEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatal(line, err)
	}
	if dsn, ok := Running(dir); !ok || dsn+"\n" != line {
		t.Errorf("Running: %q %v, want %q", dsn, ok, line)
	}
	opt := must.Get(clickhouse.ParseDSN(strings.TrimSpace(line)))(t)
	c := must.Get(clickhouse.Open(opt))(t)
	mustExec(t, c, "CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n")
	insertNumbers(t, t.Context(), c, "t", 1, 2, 3)
	c.Close()
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must.Equal(t, count(t, open(t, start(t, dir)), "t"), 3, "rows")
}
