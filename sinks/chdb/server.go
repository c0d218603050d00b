package chdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// A Server is an embedded ClickHouse: a child process, kept alive until Close.
type Server struct {
	log      *slog.Logger
	metrics  *metrics
	lock     *dirLock
	listener *net.TCPListener // never accepts; each child gets a copy
	socket   *os.File         // the copy that children inherit
	config   childConfig
	dsn      string

	cancel context.CancelFunc // asks the supervisor to stop
	kill   context.CancelFunc // makes it stop now
	done   chan struct{}      // closed by the supervisor at its end

	mu     sync.Mutex
	health error // guarded by mu; nil while a child serves
}

// startTimeout bounds a first start; loading the parts of a large directory takes seconds, not minutes.
const startTimeout = 2 * time.Minute

// Start gets the library, starts the child and returns when it answers a query. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check clickhouse configuration: %w", err)
	}
	cfg = cfg.withoutNil()
	library, err := FindLibrary(ctx, LibraryConfig{CacheDir: cfg.CacheDir, Progress: cfg.Progress})
	if err != nil {
		return nil, err
	}
	ctx, stopTimer := context.WithTimeout(ctx, startTimeout)
	defer stopTimer()
	s, err := newServer(cfg, library)
	if err != nil {
		return nil, err
	}
	cfg.Progress("starting ClickHouse")
	ready := make(chan error, 1)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	killed, kill := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.kill = cancel, kill
	go s.supervise(run, killed, ready)
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = fmt.Errorf("start ClickHouse: %w: %w", context.Cause(ctx), s.Health())
		kill()
	}
	if err != nil {
		_ = s.Close(ctx)
		return nil, err
	}
	return s, nil
}

func newServer(cfg Config, library string) (*Server, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find ClickHouse directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create ClickHouse directory: %w", err)
	}
	s := &Server{log: cfg.Logger, done: make(chan struct{}), health: errors.New("ClickHouse is starting")}
	if s.lock, err = lockDir(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("listen for ClickHouse clients: %w", err)
	}
	if s.socket, err = s.listener.File(); err != nil {
		return nil, fmt.Errorf("copy ClickHouse socket: %w", err)
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	s.config = childConfig{
		Library: library, Dir: dir, Password: hex.EncodeToString(secret[:]),
		MemoryLimit: cfg.MemoryLimit, MaxConcurrentQueries: cfg.MaxConcurrentQueries,
	}
	dsn := url.URL{Scheme: "http", User: url.UserPassword(httpd.User, s.config.Password), Host: s.listener.Addr().String(), Path: "/" + Database}
	s.dsn = dsn.String()
	if err = s.lock.announce(owner{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), DSN: s.dsn}); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(cfg.Registerer)
	return s, nil
}

// DSN is the address for clickhouse-go, with password: http://default:…@127.0.0.1:port/llmtap. The database exists.
// It stays the same until Close.
func (s *Server) DSN() string { return s.dsn }

// Health is nil while a child serves; else it says why none does.
func (s *Server) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

func (s *Server) setHealth(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health = err
}

// Close stops the child: it serves no more, closes the engine and ends. When ctx ends first, and after 10 s, it is
// killed, which loses nothing that was acknowledged. Closing twice does nothing.
func (s *Server) Close(ctx context.Context) error {
	s.cancel()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.kill()
		<-s.done
	}
	s.kill()
	return nil
}

// release gives back what newServer took.
func (s *Server) release() {
	if s.socket != nil {
		_ = s.socket.Close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.lock != nil {
		s.lock.release()
	}
}

// Back-off between restarts.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
	wellAfter  = 30 * time.Second // a child that served this long starts the back-off anew
)

// supervise runs children until run ends; the first one's readiness goes to ready.
func (s *Server) supervise(run, killed context.Context, ready chan<- error) {
	defer close(s.done)
	defer s.release()
	unlock := lockThread()
	defer unlock()
	first := true
	pause := firstPause
	locked := time.Now().Add(lockPatience)
	for {
		var since time.Time
		err := s.child(run, killed, func() {
			since = time.Now()
			s.setHealth(nil)
			if first {
				first = false
				ready <- nil
			}
		})
		if run.Err() != nil || killed.Err() != nil {
			s.setHealth(errors.New("ClickHouse is stopped"))
			return
		}
		s.setHealth(err)
		if first && (!isLocked(err) || time.Now().After(locked)) {
			ready <- err
			return
		}
		if !since.IsZero() && time.Since(since) > wellAfter {
			pause = firstPause
		}
		if !first {
			s.metrics.restarts.Inc()
			s.log.Warn("clickhouse died, starting it again", "error", err, "pause", pause)
		}
		select {
		case <-time.After(pause):
		case <-run.Done():
		case <-killed.Done():
		}
		pause = min(2*pause, maxPause)
	}
}

// lockPatience is how long a first start waits for the engine's own lock: the child of a process that was killed
// may still be dying.
const lockPatience = 5 * time.Second

func isLocked(err error) bool { return strings.Contains(err.Error(), "Cannot lock file") }
