package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/llmtap/llmtap/ingest/secret"
)

// startTimeout bounds the recovery of the streams; 10 GiB take seconds.
const startTimeout = 2 * time.Minute

// A Server is a running nats-server.
type Server struct {
	nats *server.Server
	lock *os.File
	stop sync.Once
}

// Start starts a server and waits until it accepts clients, or stops it when ctx ends. It installs no signal handlers:
// callers must call Shutdown.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	n, err := start(ctx, cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Server{nats: n, lock: lock}, nil
}

func start(ctx context.Context, cfg Config) (*server.Server, error) {
	if cfg.Port > 0 {
		// The server would only log that the port is in use.
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
		if err != nil {
			return nil, fmt.Errorf("listen for NATS clients: %w; choose another port", err)
		}
		if err := l.Close(); err != nil {
			return nil, fmt.Errorf("release the NATS client port: %w", err)
		}
	}
	token, err := secret.Read(cfg.Token, "token_file", cfg.TokenFile)
	if err != nil {
		return nil, err
	}
	n, err := server.NewServer(&server.Options{
		ServerName: "llmtap", Host: cfg.Host, Port: cfg.Port, Authorization: token, MaxPayload: int32(cfg.MaxPayload),
		JetStream: true, StoreDir: cfg.Dir, NoSigs: true,
	})
	if err != nil {
		return nil, fmt.Errorf("create nats-server: %w", err)
	}
	fatal := make(chan string, 1)
	n.SetLoggerV2(&logger{log: cfg.Logger.With("component", "nats-server"), fatal: fatal}, false, false, false)
	n.Start()
	if err := waitReady(ctx, n, fatal); err != nil {
		n.Shutdown()
		n.WaitForShutdown()
		return nil, fmt.Errorf("start nats-server in %s: %w", cfg.Dir, err)
	}
	return n, nil
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

// URL returns the URL for clients on this machine.
func (s *Server) URL() string { return s.nats.ClientURL() }

// Shutdown closes the clients, flushes the streams and waits until the server has stopped. It is idempotent.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		_ = s.lock.Close() // nothing was written
	})
}
