package chdb

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/sinks/chdb/engine"
	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// childEnv is the environment variable that marks a child process.
const childEnv = "LLMTAP_CHDB_CHILD"

// childConfig is the configuration of a child. It is passed on standard input as one JSON value.
type childConfig struct {
	Library              string `json:"library"`
	Dir                  string `json:"dir"`
	Password             string `json:"password"`
	ReaderPassword       string `json:"reader_password"`
	MemoryLimit          int64  `json:"memory_limit"`
	MinFreeDisk          int64  `json:"min_free_disk"`
	MaxConcurrentQueries int    `json:"max_concurrent_queries"`
}

// A report is a message from the child to the parent: one line of JSON.
type report struct {
	Ready   bool         `json:"ready,omitempty"`
	Query   *httpd.Query `json:"query,omitempty"`
	Failed  string       `json:"failed,omitempty"`
	Dropped int          `json:"dropped,omitempty"` // number of reports lost before this one
}

// childGrace is the grace period for statements when a child stops; they are killed after half of it.
const childGrace = 5 * time.Second

// RunChild must be the first call of main, and of TestMain in packages whose tests Start a Server, because the child
// process executes the same binary. In a child process, RunChild serves until the parent exits and then exits as well;
// in any other process, it returns immediately.
func RunChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	reports := newReporter(os.NewFile(4, "reports"))
	code := 0
	if err := runChild(reports); err != nil {
		reports.send(report{Failed: err.Error()})
		code = 1
	}
	reports.close()
	os.Exit(code)
}

// childEnviron returns the environment of the child, without the secrets of the parent.
func childEnviron() []string {
	env := []string{childEnv + "=1", "TZ=UTC"}
	for _, name := range []string{"PATH", "TMPDIR", "LANG", "GOTRACEBACK", "GODEBUG", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func runChild(reports *reporter) error {
	// Only the parent may stop a child. systemd sends signals to all processes of a unit, but the parent must still
	// store rows.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	preferOOM()
	stdin := bufio.NewReader(os.Stdin)
	var cfg childConfig
	dec := json.NewDecoder(stdin)
	if err := dec.Decode(&cfg); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	stop, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	socket := os.NewFile(3, "socket")
	ln, err := net.FileListener(socket)
	_ = socket.Close()
	if err != nil {
		return fmt.Errorf("inherit socket: %w", err)
	}

	ready := func() { reports.send(report{Ready: true}) }
	if !isLibrary(cfg.Library) {
		return runProgram(stop, cfg, ln, ready)
	}
	lib, err := engine.Load(cfg.Library)
	if err != nil {
		return err
	}
	configFile, err := writeEngineConfig(cfg, 0)
	if err != nil {
		return err
	}
	path := "--path=" + filepath.Join(cfg.Dir, "data")
	base, err := lib.Connect(path, "--config-file="+configFile) // base stays open, because closing the last connection stops the engine
	if err != nil {
		return err
	}
	connect := func() (*engine.Conn, error) { return lib.Connect(path) }
	if err := checkEngine(connect); err != nil {
		return err
	}
	server, err := initEngine(base)
	if err != nil {
		return err
	}
	handler := httpd.New(httpd.Config{
		Password: cfg.Password, ReaderPassword: cfg.ReaderPassword, MaxConcurrentQueries: cfg.MaxConcurrentQueries, Server: server,
		Connect: connect,
		Observe: func(q httpd.Query) { reports.send(report{Query: &q}) },
	})
	if err := serve(stop, ln, handler, ready); err != nil {
		return err // returns without closing the engine, because statements are still running
	}
	handler.Close()
	base.Close()
	return nil
}

// initEngine creates the database and reads the version of the engine.
func initEngine(c *engine.Conn) (httpd.Server, error) {
	var s httpd.Server
	if err := c.Exec("CREATE DATABASE IF NOT EXISTS " + Database); err != nil {
		return s, fmt.Errorf("create database: %w", err)
	}
	err := c.Query("SELECT version(), displayName(), timezone()", "TabSeparated", nil, func(out []byte, _ engine.Stats) error {
		f := strings.Split(strings.TrimSpace(string(out)), "\t")
		if len(f) != 3 {
			return fmt.Errorf("unexpected answer %q", out)
		}
		s = httpd.Server{Version: f[0], DisplayName: f[1], Timezone: f[2]}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read version: %w", err)
	}
	return s, nil
}

// serve serves h until stop is done and every statement has completed or, after half of childGrace, has been killed.
func serve(stop context.Context, ln net.Listener, h http.Handler, ready func()) error {
	running, cancel := context.WithCancel(context.WithoutCancel(stop))
	defer cancel()
	hs := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return running },
	}
	served := make(chan error, 1)
	go func() { served <- hs.Serve(ln) }()
	ready()
	select {
	case <-stop.Done():
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
	shutdown := func(ctx context.Context) error {
		ctx, done := context.WithTimeout(ctx, childGrace/2)
		defer done()
		return hs.Shutdown(ctx)
	}
	after := context.WithoutCancel(stop)
	if shutdown(after) == nil {
		return nil
	}
	cancel() // kills the statements
	if err := shutdown(after); err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return nil
}

// reportQueue is the maximum number of queued reports; further reports are dropped and counted.
const reportQueue = 1024

// A reporter sends reports to the parent without blocking statements.
type reporter struct {
	queue   chan report   // never closed, because a statement that cannot be stopped may still send a report
	quit    chan struct{} // closed by close
	dropped atomic.Int64
	wg      sync.WaitGroup
}

func newReporter(f *os.File) *reporter {
	r := &reporter{queue: make(chan report, reportQueue), quit: make(chan struct{})}
	r.wg.Go(func() {
		defer func() { _ = f.Close() }()
		enc := json.NewEncoder(f)
		for {
			select {
			case rep := <-r.queue:
				r.write(enc, rep)
			case <-r.quit:
				for len(r.queue) > 0 {
					r.write(enc, <-r.queue)
				}
				return
			}
		}
	})
	return r
}

func (r *reporter) write(enc *json.Encoder, rep report) {
	rep.Dropped = int(r.dropped.Swap(0))
	_ = enc.Encode(rep) // fails only if the parent has exited, which also ends standard input
}

func (r *reporter) send(rep report) {
	select {
	case r.queue <- rep:
	default:
		r.dropped.Add(1)
	}
}

// close sends the queued reports and stops r.
func (r *reporter) close() {
	close(r.quit)
	r.wg.Wait()
}
