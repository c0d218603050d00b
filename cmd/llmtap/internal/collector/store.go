package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A store is the ClickHouse of this process, which open starts and connects to in the background. Until then it refuses
// rows, which wait in the stream. On a machine without a ClickHouse they wait until there is one, or until the stream, at its
// limits, deletes the oldest: that is no failure. Nor is the download before the first start.
type store struct {
	cfg    clickhouse.Config
	chdb   chdb.Config // engine, used if cfg has no DSN
	logger *slog.Logger
	reg    prometheus.Registerer
	sink   atomic.Pointer[clickhouse.Sink] // nil until the embedded ClickHouse has started

	mu      sync.Mutex // guards the fields below
	failure error      // reason why sink is nil
	engine  *chdb.Server
}

var _ sinks.Sink = (*store)(nil)

// errNoStore is the state of a store that has no ClickHouse to start.
var errNoStore = fmt.Errorf("ClickHouse: %w. Alerts, problems and counts work; calls wait in NATS, up to its limits, and are stored once there is one. To add it, run: %s",
	web.ErrNoStore, chdb.HowToAdd)

// ErrDownload is the state of a store whose ClickHouse is being downloaded, or started after that.
var ErrDownload = fmt.Errorf("ClickHouse: %w yet, it is being downloaded. Alerts, problems and counts work; calls wait in NATS, and are stored once it runs", web.ErrNoStore)

// newStore returns the store of cfg. It fails if the configuration is invalid.
func newStore(cfg *config.Config, progress func(string), logger *slog.Logger, reg prometheus.Registerer) (*store, error) {
	s := &store{cfg: cfg.ClickHouse, chdb: cfg.Chdb, logger: logger, reg: reg, failure: errors.New("ClickHouse is starting")}
	s.chdb.Logger, s.chdb.Progress = logger, progress
	if s.cfg.DSN == "" {
		present, err := chdb.PresentLibrary(chdb.LibraryConfig{CacheDir: s.chdb.CacheDir})
		switch {
		case errors.Is(err, chdb.ErrNone):
			s.failure, err = errNoStore, nil
		case err == nil && present == "":
			s.failure = ErrDownload
		}
		return s, err
	}
	return s, s.newSink(s.cfg.DSN)
}

// toDownload reports whether ClickHouse can be downloaded, and is not here yet.
func (s *store) toDownload() bool {
	present, err := chdb.PresentLibrary(chdb.LibraryConfig{CacheDir: s.chdb.CacheDir})
	return err == nil && present == ""
}

func (s *store) newSink(dsn string) error {
	cfg := s.cfg
	cfg.DSN = dsn
	sink, err := clickhouse.OpenLazy(cfg, s.logger, s.reg)
	if err != nil {
		return fmt.Errorf("open ClickHouse: %w", err)
	}
	s.sink.Store(sink)
	return nil
}

// open starts the embedded ClickHouse, if there is one, and connects to ClickHouse. It retries until it succeeds or ctx
// ends. It returns an error only if another process uses the directory.
func (s *store) open(ctx context.Context) error {
	wait, logged := newBackOff(), time.Time{}
	for {
		err := s.tryOpen(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, chdb.ErrInUse) {
			return err
		}
		if time.Since(logged) >= logInterval && (logged.IsZero() || s.missing() == nil) {
			logged = time.Now()
			s.logFailure(err)
		}
		sleep(ctx, wait.NextBackOff())
	}
}

func (s *store) tryOpen(ctx context.Context) error {
	if s.sink.Load() == nil {
		err := s.startEngine(ctx)
		s.mu.Lock()
		s.failure = err
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return s.sink.Load().Prepare(ctx)
}

func (s *store) startEngine(ctx context.Context) error {
	cfg, reg := s.chdb, prometheus.NewRegistry() // an attempt that fails leaves no metrics
	cfg.Registerer = reg
	engine, err := chdb.Start(ctx, cfg)
	switch {
	case errors.Is(err, chdb.ErrNone):
		return errNoStore
	case err != nil && s.toDownload():
		return fmt.Errorf("ClickHouse: %w, it cannot be downloaded, which is tried again: %w. Alerts, problems and counts work; calls wait in NATS, up to its limits, and are stored once it runs", web.ErrNoStore, err)
	case err != nil:
		return fmt.Errorf("start embedded ClickHouse: %w", err)
	}
	s.mu.Lock()
	s.engine = engine
	s.mu.Unlock()
	s.reg.MustRegister(reg)
	return s.newSink(engine.DSN())
}

func (s *store) logFailure(err error) {
	hint := ""
	if retry, ok := errors.AsType[*sinks.RetryError](err); ok {
		hint = retry.Hint
	}
	const effect = "rows wait in the stream, alerts are not affected"
	switch {
	case errors.Is(err, errNoStore):
		s.logger.Warn("nothing is stored", "reason", err)
	case errors.Is(err, web.ErrNoStore):
		s.logger.Error("nothing is stored yet", "reason", err)
	case s.sink.Load() == nil:
		s.logger.Error("embedded ClickHouse does not start, retrying", "err", err, "effect", effect,
			"fix", "if files are damaged, restore them, or move "+s.chdb.Dir+" away to start without the rows stored in it")
	case hint != "":
		s.logger.Error("ClickHouse is not usable, retrying", "err", err, "effect", effect, "hint", hint)
	default:
		s.logger.Warn("ClickHouse is not reachable, retrying", "err", err, "effect", effect)
	}
}

// Write implements sinks.Sink.
func (s *store) Write(ctx context.Context, b *sinks.Batch) error {
	if sink := s.sink.Load(); sink != nil {
		return sink.Write(ctx, b)
	}
	if errors.Is(s.missing(), errNoStore) && b.Rows() == len(b.Alerts)+len(b.Actions)+len(b.Audit) {
		return nil // the state of alerts is in NATS, the audit in the log; their history is not kept
	}
	return &sinks.RetryError{Err: s.startFailure()}
}

// Ping returns nil if ClickHouse responds and is prepared, and otherwise the reason.
func (s *store) Ping(ctx context.Context) error {
	if sink := s.sink.Load(); sink != nil {
		return sink.Ping(ctx)
	}
	return s.startFailure()
}

func (s *store) startFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// missing returns errNoStore, ErrDownload or why that failed if this machine has no ClickHouse, or nil.
func (s *store) missing() error {
	if s != nil && s.sink.Load() == nil {
		if err := s.startFailure(); errors.Is(err, web.ErrNoStore) {
			return err
		}
	}
	return nil
}

// Close implements sinks.Sink. It does not close ClickHouse, which all roles share.
func (s *store) Close() error { return nil }

// close closes the connections and stops the embedded ClickHouse.
func (s *store) close() {
	if sink := s.sink.Load(); sink != nil {
		if err := sink.Close(); err != nil {
			s.logger.Error("sink did not close cleanly", "err", err)
		}
	}
	if s.engine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := s.engine.Close(ctx); err != nil {
		s.logger.Error("embedded clickhouse did not stop cleanly", "err", err)
	}
}
