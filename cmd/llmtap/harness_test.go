package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collector"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Helpers shared with the packages of the command.
type lockedBuffer = testnet.Buffer

var (
	needClickHouse = collectortest.NeedClickHouse
	freePort       = testnet.FreePort
	groups         = collectortest.Groups
	replayStream   = collectortest.ReplayStream
)

// runCollector runs a collector until the test ends, and waits until it is ready.
func runCollector(t *testing.T, cfg config.Config) *collector.Collector {
	t.Helper()
	c, err := collector.Open(context.WithoutCancel(t.Context()), cfg, collector.Options{Logger: slog.New(slog.DiscardHandler), Progress: func(s string) { t.Log(s) }})
	must.Do(t, err)
	collectortest.RunReady(t, c)
	return c
}

// An upProcess is a process of llmtap up, with an embedded NATS on port.
type upProcess struct {
	dir    string // data directory
	port   int
	binary string   // "": the test binary
	flags  []string // additional ones
	env    []string // likewise
	cmd    *exec.Cmd
	stdout lockedBuffer
	stderr lockedBuffer
	client http.Client // of readiness
}

// startUp runs `llmtap up` until the test ends.
func startUp(t *testing.T, flags ...string) *upProcess {
	t.Helper()
	u := &upProcess{dir: t.TempDir(), port: freePort(t), flags: flags}
	u.start(t)
	t.Cleanup(func() { u.kill(t) })
	return u
}

func (u *upProcess) start(t *testing.T) {
	t.Helper()
	args := []string{"up", "--data-dir", u.dir, "--listen", "127.0.0.1:0", "--proxy-listen", "127.0.0.1:0", "--receive-listen", "127.0.0.1:0", "--receive-grpc-listen", "127.0.0.1:0", "--ui-listen", "127.0.0.1:0", "--nats-port", strconv.Itoa(u.port)}
	u.cmd = exec.Command(cmp.Or(u.binary, os.Args[0]), append(args, u.flags...)...)
	u.cmd.Env = append(append(u.cmd.Environ(), "LLMTAP_NATS_SERVER_COLLECTOR_TOKEN="+collectortest.CollectorToken), u.env...)
	u.cmd.Stdout, u.cmd.Stderr = &u.stdout, &u.stderr
	must.Do(t, u.cmd.Start())
}

func (u *upProcess) kill(t *testing.T) {
	t.Helper()
	if u.cmd == nil {
		return
	}
	must.Do(t, u.cmd.Process.Kill())
	_ = u.cmd.Wait() // its error is the kill
	u.cmd = nil
}

// stop ends u as systemd does, and waits until it has ended.
func (u *upProcess) stop(t *testing.T) {
	t.Helper()
	signalProcess(t, u.cmd.Process.Pid, syscall.SIGTERM)
	must.Do(t, u.cmd.Wait(), "SIGTERM", u.stderr.String())
	u.cmd = nil
}

// ready waits until u is ready.
func (u *upProcess) ready(t *testing.T) {
	t.Helper()
	waitFor(t, u, "readiness", func() bool { return strings.HasPrefix(u.readiness(), "ready") })
}

// waitFor waits until done returns true.
func waitFor(t *testing.T, up *upProcess, what string, done func() bool) {
	t.Helper()
	must.Wait(t, what, done, func() any { return up.readiness() + "\n" + up.stdout.String() + up.stderr.String() })
}

// inBanner waits until u has printed a match of pattern, which happens a moment after it is ready, and returns its first group.
func (u *upProcess) inBanner(t *testing.T, pattern string) string {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	var match []string
	waitFor(t, u, pattern, func() bool {
		match = expr.FindStringSubmatch(u.stdout.String())
		return match != nil
	})
	return match[1]
}

// readiness returns the answer of /readyz, or why there is none.
func (u *upProcess) readiness() string {
	r, err := collector.FindRunning(u.dir)
	if err != nil {
		return err.Error()
	}
	resp, err := u.client.Get(r.URL() + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// metrics returns the metrics of u.
func (u *upProcess) metrics(t *testing.T) string {
	t.Helper()
	_, body := fetch(t, "http://"+running(t, u.dir).HTTPAddr+"/metrics", "")
	return body
}

// running returns the collector on a data directory.
func running(t *testing.T, dir string) collector.Running {
	t.Helper()
	return must.Get(collector.FindRunning(dir))(t)
}

// fetch returns the status and the body of a URL. A token is sent unless it is empty.
func fetch(t *testing.T, url, token string) (int, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(body)
}

// streams returns the JetStream of a NATS server, with the rights of a collector, until the test ends.
func streams(t *testing.T, url string) natsjs.JetStream {
	t.Helper()
	nc := must.Get(nats.Connect(url, nats.Token(collectortest.CollectorToken), nats.MaxReconnects(-1)))(t)
	t.Cleanup(nc.Close)
	return must.Get(natsjs.New(nc))(t)
}

// rows returns the embedded ClickHouse of u.
func (u *upProcess) rows() *store {
	return &store{dsn: func() (string, bool) { return chdb.Running(config.ClickHouseDir(u.dir)) }}
}

// open opens the embedded ClickHouse of u once it runs.
func (u *upProcess) open(t *testing.T) *clickhouse.Sink {
	t.Helper()
	s := u.rows()
	waitFor(t, u, "ClickHouse answers", func() bool { return must.Err(s.query(t.Context(), "SELECT 1")) == nil })
	return s.sink
}

// clickhouseChild returns the pid of the embedded ClickHouse of parent once it runs.
func clickhouseChild(t *testing.T, parent int) int {
	t.Helper()
	return waitChild(t, parent, "ClickHouse runs", func(proc string) bool {
		env, err := os.ReadFile(filepath.Join(proc, "environ"))
		return err == nil && bytes.HasPrefix(env, []byte("LLMTAP_CHDB_CHILD="))
	})
}

// waitChild returns the pid of the child of a process whose directory in /proc is the wanted one, once there is one.
func waitChild(t *testing.T, parent int, what string, wanted func(proc string) bool) (pid int) {
	t.Helper()
	must.Wait(t, what, func() bool {
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		i := slices.IndexFunc(dirs, func(dir string) bool { return procField(dir, "PPid") == strconv.Itoa(parent) && wanted(dir) })
		if i >= 0 {
			pid, _ = strconv.Atoi(filepath.Base(dirs[i]))
		}
		return i >= 0
	})
	return pid
}

// procField returns a field of /proc/PID/status without its unit, or "" if the process has exited.
func procField(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSuffix(strings.TrimSpace(v), " kB")
		}
	}
	return ""
}

func signalProcess(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %v to process %d: %v", sig, pid, err)
	}
}

// A store is a ClickHouse that may be down at times, and may restart under another address.
type store struct {
	dsn    func() (string, bool)
	column string // time of an exchange, see newest; default: stored_at
	at     string
	sink   *clickhouse.Sink
}

// query does not retry; callers do.
func (s *store) query(ctx context.Context, sql string) (*clickhouse.Result, error) {
	dsn, ok := s.dsn()
	if !ok {
		return nil, fmt.Errorf("no ClickHouse")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if s.sink == nil || s.at != dsn {
		s.close()
		sink, err := openDSN(ctx, dsn)
		if err != nil {
			return nil, err
		}
		s.sink, s.at = sink, dsn
	}
	return s.sink.Query(ctx, sql, nil)
}

func openDSN(ctx context.Context, dsn string) (*clickhouse.Sink, error) {
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	return clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
}

// openSink opens a ClickHouse until the test ends.
func openSink(t *testing.T, dsn string) *clickhouse.Sink {
	t.Helper()
	sink := must.Get(openDSN(t.Context(), dsn))(t)
	t.Cleanup(func() { _ = sink.Close() })
	return sink
}

func (s *store) close() {
	if s.sink != nil {
		_ = s.sink.Close()
		s.sink = nil
	}
}

// newest returns the time of the newest stored exchange, by default of its storage in the stream; zero if there is none or ClickHouse
// is down.
func (s *store) newest(ctx context.Context) time.Time {
	res, err := s.query(ctx, "SELECT max("+cmp.Or(s.column, "stored_at")+") FROM exchanges")
	if err != nil || len(res.Rows) != 1 {
		return time.Time{}
	}
	return res.Rows[0][0].(time.Time)
}

// waitNewer waits for an exchange published after t0 and returns the time from t0 until it was stored.
func (s *store) waitNewer(t *testing.T, t0 time.Time, within time.Duration) time.Duration {
	t.Helper()
	for time.Since(t0) < within {
		if s.newest(t.Context()).After(t0) {
			return time.Since(t0)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("nothing newer than %v was stored within %v", t0, within)
	return 0
}
