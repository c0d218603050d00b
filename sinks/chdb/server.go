package chdb

import (
	"context"
	"crypto/rand"
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

	"github.com/cenkalti/backoff/v5"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// A Server is an embedded ClickHouse. It runs in a child process, which is restarted whenever it exits before Close.
type Server struct {
	log      *slog.Logger
	metrics  *metrics
	lock     *dirLock
	listener *net.TCPListener // reserves the port; only children accept connections
	socket   *os.File         // copy of listener for the children
	config   childConfig
	dsn      string

	cancel context.CancelFunc // stops the supervisor gracefully
	kill   context.CancelFunc // stops the supervisor immediately
	done   chan struct{}      // closed when the supervisor ends

	mu     sync.Mutex
	health error // guarded by mu; nil while a child accepts queries
}

// startTimeout bounds the first start. Loading a large directory takes seconds, not minutes.
const startTimeout = 2 * time.Minute

// Start installs the library if it is missing, starts the child, and returns once the child has answered a query. If this machine has
// several ClickHouses and the first does not start, Start tries the next. ctx applies only to the start.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("check ClickHouse configuration: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	found, err := findLibraries(ctx, LibraryConfig{CacheDir: cfg.CacheDir, Progress: cfg.Progress})
	if err != nil {
		return nil, err
	}
	m := newMetrics(cfg.Registerer)
	var errs []error
	for _, library := range found {
		s, err := startWith(ctx, cfg, library, m)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrInUse) {
			return s, err
		}
		errs = append(errs, fmt.Errorf("%s: %w", library, err))
	}
	return nil, errors.Join(errs...)
}

// startWith starts a server with this library or program.
func startWith(ctx context.Context, cfg Config, library string, m *metrics) (*Server, error) {
	ctx, stopTimer := context.WithTimeout(ctx, startTimeout)
	defer stopTimer()
	s, err := newServer(ctx, cfg, library)
	if err != nil {
		return nil, err
	}
	s.metrics = m
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

func newServer(ctx context.Context, cfg Config, library string) (*Server, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find ClickHouse directory: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create ClickHouse directory: %w", err)
	}
	s := &Server{log: cfg.Logger, done: make(chan struct{}), health: errors.New("ClickHouse is starting")}
	if s.lock, err = lockDir(ctx, dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: cfg.Port}); err != nil {
		return nil, fmt.Errorf("listen for ClickHouse clients: %w", err)
	}
	if s.socket, err = s.listener.File(); err != nil {
		return nil, fmt.Errorf("copy ClickHouse socket: %w", err)
	}
	s.config = childConfig{
		Library: library, Dir: dir, Password: rand.Text(),
		MemoryLimit: cfg.MemoryLimit, MinFreeDisk: cfg.MinFreeDisk, MaxConcurrentQueries: cfg.MaxConcurrentQueries,
	}
	dsn := url.URL{Scheme: "http", User: url.UserPassword(httpd.User, s.config.Password), Host: s.listener.Addr().String(), Path: "/" + Database}
	s.dsn = dsn.String()
	if s.config.ReaderPassword, err = announceReader(dir, dsn); err != nil {
		return nil, err
	}
	if err = s.lock.announce(owner{PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), DSN: s.dsn}); err != nil {
		return nil, err
	}
	return s, nil
}

// DSN returns the DSN for clickhouse-go, which includes the password: http://default:…@127.0.0.1:port/llmtap. The
// database exists. The DSN stays the same until Close.
func (s *Server) DSN() string { return s.dsn }

// Health returns nil while a child accepts queries, and otherwise the reason why no child does.
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

// Close stops the child, which stops serving, closes the engine and exits. When ctx is done, or after 10 s, the child
// is killed, which does not lose acknowledged data. A second call does nothing.
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

// release releases the resources of newServer.
func (s *Server) release() {
	_ = s.socket.Close() // closing a nil socket or listener has no effect
	_ = s.listener.Close()
	s.lock.release()
}

// Backoff between restarts.
const (
	minBackoff   = 100 * time.Millisecond
	maxBackoff   = 10 * time.Second
	healthyAfter = 30 * time.Second // a child that has served for longer resets the backoff
)

// supervise runs children, one after another, until run or killed is done. It sends the result of the first start to
// ready.
func (s *Server) supervise(run, killed context.Context, ready chan<- error) {
	defer close(s.done)
	defer s.release()
	unlock := lockThread()
	defer unlock()
	first := true
	restart := &backoff.ExponentialBackOff{InitialInterval: minBackoff, MaxInterval: maxBackoff, Multiplier: 2}
	lockDeadline := time.Now().Add(lockTimeout)
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
		if first && (!isLocked(err) || time.Now().After(lockDeadline)) {
			ready <- err
			return
		}
		if !since.IsZero() && time.Since(since) > healthyAfter {
			restart.Reset()
		}
		wait := restart.NextBackOff()
		if !first {
			s.metrics.restarts.Inc()
			s.log.Warn("clickhouse exited, restarting", "error", err, "wait", wait)
		}
		select {
		case <-time.After(wait):
		case <-run.Done():
		case <-killed.Done():
		}
	}
}

// lockTimeout is the maximum time the first start waits for the engine's lock, because a killed child may still be
// exiting.
const lockTimeout = 5 * time.Second

func isLocked(err error) bool { return strings.Contains(err.Error(), "Cannot lock file") }
