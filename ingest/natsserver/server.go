package natsserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/ingest/secret"
)

// startTimeout is the maximum time for the recovery of the streams. The recovery of 10 GiB takes seconds.
const startTimeout = 2 * time.Minute

// tlsTimeout is the time that a client has for the TLS handshake.
const tlsTimeout = 5 * time.Second

// maxStore is a limit of all streams that is never reached, because each has its own. The default is 3/4 of what is free when the
// server starts: on a small or nearly full disk, it would refuse the streams.
const maxStore = 1 << 50

// A Server is an embedded nats-server.
type Server struct {
	cfg    Config
	guard  *guard
	lock   *os.File
	own    string // token of this machine's llmtap; "" with AllowAll
	tls    *tls.Config
	encKey string

	mu     sync.Mutex     // guards the fields below
	nats   *server.Server // nil while it does not run
	closed bool
	stop   context.CancelFunc // ends background; nil until Start

	background sync.WaitGroup
}

// New checks cfg, locks the directory and checks that the port is free, without starting the server. Callers must call
// Shutdown.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{cfg: cfg}
	var err error
	if s.lock, err = lockDir(cfg.Dir); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// prepare reads the files of the configuration and checks that the port is free.
func (s *Server) prepare() (err error) {
	if !s.cfg.AllowAll {
		if s.own, err = secret.Make("the token of this machine's llmtap", TokenFile(s.cfg.Dir)); err != nil {
			return err
		}
	}
	if s.tls, err = s.cfg.TLS.Config(s.cfg.Logger); err != nil {
		return err
	}
	if s.encKey, err = secret.Read("", "encryption_key_file", s.cfg.EncryptionKeyFile); err != nil {
		return err
	}
	if s.guard, err = newGuard(&s.cfg, s.own); err != nil {
		return err
	}
	// nats-server would only log that the port is in use.
	s.cfg.Port, err = freePort(s.cfg.Host, max(s.cfg.Port, 0))
	return err
}

// TokenFile returns the file with the token with which the llmtap of this machine may do everything on a server with this directory.
func TokenFile(dir string) string { return filepath.Join(dir, "collector.token") }

// Token returns the token in TokenFile; "" with Config.AllowAll.
func (s *Server) Token() string { return s.own }

// InProcessConn connects to the server within this process, without TLS. It implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nats == nil {
		return nil, errors.New("the embedded NATS does not run")
	}
	return s.nats.InProcessConn()
}

// freePort returns port, or any free port if port is 0, after it has listened on it.
func freePort(host string, port int) (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return 0, fmt.Errorf("listen for NATS clients: %w; choose another port", err)
	}
	port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("release the NATS client port: %w", err)
	}
	return port, nil
}

// Start is New followed by Server.Start.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := New(cfg) //nolint:contextcheck // listens for an instant only
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

// Start starts the server and waits until it accepts clients. If ctx ends first, Start stops the server and returns an
// error. After an error, Start may be called again.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the server is shut down")
	}
	opts := &server.Options{
		ServerName: "llmtap", Host: s.cfg.Host, Port: s.cfg.Port, MaxPayload: int32(s.cfg.MaxPayload),
		JetStream: true, StoreDir: s.cfg.Dir, JetStreamMaxStore: maxStore, NoSigs: true, MaxClosedClients: maxClosed,
	}
	if s.guard.needed() {
		opts.CustomClientAuthentication = s.guard
	}
	if s.tls != nil {
		opts.TLS, opts.TLSConfig, opts.TLSTimeout = true, s.tls, tlsTimeout.Seconds()
	}
	if s.encKey != "" {
		opts.JetStreamKey, opts.JetStreamCipher = s.encKey, server.ChaCha
	}
	s.guard.account.Store(nil) // that of the server before
	n, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("create nats-server: %w", err)
	}
	fatal := make(chan string, 1)
	n.SetLoggerV2(&logger{log: s.cfg.Logger.With("component", "nats-server"), fatal: fatal}, false, false, false)
	n.Start()
	err = waitReady(ctx, n, fatal)
	if err == nil { // with more than one account earlier, nats-server would not enable JetStream
		err = s.guard.addAccount(n)
	}
	if err != nil {
		n.Shutdown()
		n.WaitForShutdown()
		return fmt.Errorf("start nats-server in %s: %w", s.cfg.Dir, err)
	}
	s.nats = n
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.background.Go(func() { s.expireCacheSooner(background) })
	return nil
}

func waitReady(ctx context.Context, n *server.Server, fatal <-chan string) error {
	for end := time.Now().Add(startTimeout); time.Now().Before(end); {
		if n.ReadyForConnections(50 * time.Millisecond) {
			if !n.JetStreamEnabled() {
				return errors.New("JetStream is not enabled; see the log")
			}
			return nil
		}
		select {
		case msg := <-fatal:
			return errors.New(msg)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
	return fmt.Errorf("not ready after %v", startTimeout)
}

// WriteError returns why a stream cannot be written to, or nil. After an error of the disk, nats-server takes no message for
// that stream until it is restarted, even if the disk works again.
func (s *Server) WriteError() error {
	if !s.mu.TryLock() {
		return nil // the server is starting or stopping
	}
	defer s.mu.Unlock()
	if s.nats == nil || s.closed {
		return nil
	}
	for _, e := range s.nats.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}

// Restart stops the server and starts it again, as Start does. Clients reconnect.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	if s.nats != nil && !s.closed {
		s.stopNATS()
	}
	s.mu.Unlock()
	return s.Start(ctx)
}

// stopNATS stops nats-server. The caller holds mu.
func (s *Server) stopNATS() {
	s.stop()
	s.background.Wait()
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	s.nats = nil
}

// URL returns the URL for clients on this machine.
func (s *Server) URL() string {
	scheme := "nats"
	if s.tls != nil {
		scheme = "tls"
	}
	return scheme + "://" + net.JoinHostPort(s.cfg.Host, strconv.Itoa(s.cfg.Port))
}

// Shutdown closes the clients, flushes the streams and waits until the server has stopped. It is idempotent.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.nats != nil {
		s.stopNATS()
	}
	_ = s.lock.Close() // the lock file has no content
}

// lockDir creates dir and locks it. Closing the file releases the lock.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the stream directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close() // the lock file has no content
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("directory %s is in use by another server; stop it or choose another directory", dir)
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}

// logger logs the lines of nats-server with slog, each as an attribute. Notices have debug level, because there is a
// page of them per start.
type logger struct {
	log      *slog.Logger
	fatal    chan<- string // receives the first fatal line, after which the server runs but is unusable
	violated atomic.Int64  // second at which a violation of permissions was logged as a warning
}

// violationPeriod is the minimum time between two warnings about violations of permissions.
const violationPeriod = time.Minute

func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats-server notice", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats-server warning", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	switch {
	case strings.Contains(line, server.ErrAuthentication.Error()):
		l.log.Debug("nats-server error", "line", line) // the guard logs it, but not each attempt
	case strings.Contains(line, " Violation "): // of permissions; a client decides how often
		if last, now := l.violated.Load(), time.Now().Unix(); now-last < int64(violationPeriod.Seconds()) || !l.violated.CompareAndSwap(last, now) {
			l.log.Debug("nats-server error", "line", line)
			return
		}
		l.log.Warn("NATS refused what a client is not permitted to do", "line", line,
			"fix", "hooks may publish the events of their service: compare the service's name with nats_server.service_tokens; llmtap on another machine needs nats_server.collector_token")
	default:
		l.log.Error("nats-server error", "line", line)
	}
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}

func (l *logger) Fatalf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	select {
	case l.fatal <- msg:
	default:
	}
	l.log.Error("nats-server failed", "line", msg)
}
