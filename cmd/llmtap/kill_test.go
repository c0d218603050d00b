package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/agents"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

var kills = flag.Int("kills", 2, "how often TestKilledCollector kills the collector")

// A collector that is killed with SIGKILL while agents publish, NATS and ClickHouse with it, has afterwards every
// exchange whose publishing was acknowledged, once, and finds what an undisturbed one finds.
func TestKilledCollector(t *testing.T) {
	needClickHouse(t)
	calm := runFleetOn(t, 0)
	killed := runFleetOn(t, *kills)
	if calm.exchanges != calm.published || killed.exchanges != killed.published {
		t.Errorf("exchanges stored of those acknowledged: undisturbed %d of %d, killed %d of %d", calm.exchanges, calm.published, killed.exchanges, killed.published)
	}
	if !maps.Equal(calm.findings, killed.findings) {
		t.Errorf("findings by rule and root cause:\nundisturbed %v\nkilled      %v", calm.findings, killed.findings)
	}
	if !maps.Equal(calm.toolCalls, killed.toolCalls) {
		t.Errorf("tool calls by state:\nundisturbed %v\nkilled      %v", calm.toolCalls, killed.toolCalls)
	}
	t.Logf("%d kills: %d exchanges acknowledged, %d stored; findings %v", *kills, killed.published, killed.exchanges, killed.findings)
}

// stored is what a run left in ClickHouse, and what the agents know of it.
type stored struct {
	published, exchanges uint64
	findings, toolCalls  map[string]uint64
}

// runFleetOn runs the demo's agents on a collector that is killed n times meanwhile.
func runFleetOn(t *testing.T, n int) stored {
	t.Helper()
	up := &upProcess{dir: t.TempDir(), port: freePort(t)}
	up.start(t)
	defer up.kill(t)
	p := httptest.NewServer(provider.New(provider.Config{Seed: 7}))
	defer p.Close()

	cfg := agents.Default()
	cfg.ProviderURL, cfg.NATSURL, cfg.Seed, cfg.Tasks = p.URL, fmt.Sprintf("nats://127.0.0.1:%d", up.port), 7, 40
	cfg.Duration, cfg.FlushTimeout = time.Duration(3+2*n)*time.Second, 30*time.Second
	done := make(chan struct{})
	var report agents.Report
	var runErr error
	go func() {
		defer close(done)
		report, runErr = agents.Run(t.Context(), cfg)
	}()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for range n {
		time.Sleep(time.Second + time.Duration(rng.Int64N(int64(time.Second))))
		up.kill(t)
		up.start(t)
	}
	<-done
	if runErr != nil || report.Dropped > 0 || report.Pending > 0 {
		t.Fatalf("agents: %v, %d dropped, %d pending", runErr, report.Dropped, report.Pending)
	}
	return up.counts(t, report.Published)
}

// upProcess is `llmtap up` as a process of its own.
type upProcess struct {
	dir    string
	port   int
	cmd    *exec.Cmd
	stderr lockedBuffer
}

func (u *upProcess) start(t *testing.T) {
	t.Helper()
	u.cmd = exec.Command(os.Args[0], "up", "--data-dir", u.dir, "--listen", "127.0.0.1:0", "--proxy-listen", "127.0.0.1:0", "--nats-port", fmt.Sprint(u.port))
	u.cmd.Stderr = &u.stderr
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

func (u *upProcess) kill(t *testing.T) {
	t.Helper()
	if u.cmd == nil {
		return
	}
	if err := u.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = u.cmd.Wait() // killed, as asked
	u.cmd = nil
}

// counts waits until the collector has stored what was published, and for a moment more, so that doubles would show.
func (u *upProcess) counts(t *testing.T, published uint64) stored {
	t.Helper()
	sink := u.open(t)
	defer sink.Close()
	s := stored{published: published}
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		counts, err := sink.Counts(t.Context())
		if err == nil {
			s.exchanges = counts["exchanges"]
		}
		if s.exchanges >= published {
			break
		}
	}
	time.Sleep(2 * time.Second)
	s.exchanges = groups(t, sink, "SELECT '', count() FROM exchanges_final")[""]
	s.findings = groups(t, sink, "SELECT rule_id || ' ' || root_cause, count() FROM findings_final GROUP BY 1")
	s.toolCalls = groups(t, sink, "SELECT state, count() FROM tool_calls_final GROUP BY 1")
	if s.exchanges != published {
		t.Logf("the collector's log:\n%s", u.stderr.String())
	}
	return s
}

func (u *upProcess) open(t *testing.T) *clickhouse.Sink {
	t.Helper()
	var err error
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		dsn, ok := chdb.Running(clickhouseDir(u.dir))
		if !ok {
			continue
		}
		cfg := clickhouse.Default()
		cfg.DSN = dsn
		var sink *clickhouse.Sink
		if sink, err = clickhouse.Open(t.Context(), cfg, slog.New(slog.DiscardHandler), nil); err == nil {
			return sink
		}
	}
	t.Fatalf("reach the collector's ClickHouse: %v\n%s", err, u.stderr.String())
	return nil
}

func groups(t *testing.T, sink *clickhouse.Sink, sql string) map[string]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	res, err := sink.Query(ctx, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, row := range res.Rows {
		m[row[0].(string)] = row[1].(uint64)
	}
	return m
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// lockedBuffer is a buffer that a process writes while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(slices.Clone(l.b.Bytes()))
}
