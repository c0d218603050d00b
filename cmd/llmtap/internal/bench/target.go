package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// Names of the measured processes.
const (
	Load       = "load"
	NATS       = "NATS"
	Analyzer   = "analyzer"
	Alert      = "alert"
	LLMTap     = "llmtap" // with the embedded NATS
	ClickHouse = "ClickHouse"
)

// A target is the measured llmtap.
type target struct {
	connect   func(context.Context) (*jetstream.Conn, error)
	store     rows.Querier
	own       []*process.LLMTap // processes with metrics; none if the servers are given
	engine    process.Process   // ClickHouse; no PID if it is given
	receiver  *receiver         // nil: alerts are not received
	natsDir   string            // "" if NATS is given
	engineDir string            // likewise
	closers   []func()
}

func (t *target) close() {
	for _, f := range slices.Backward(t.closers) {
		f()
	}
}

// processes returns the processes of llmtap and its servers.
func (t *target) processes() (all []process.Process) {
	for _, l := range t.own {
		all = append(all, l.Process)
	}
	if t.engine.PID != 0 {
		all = append(all, t.engine)
	}
	return all
}

// metrics returns the sums of the metrics of all processes.
func (t *target) metrics(ctx context.Context) (process.Metrics, error) {
	sum := process.Metrics{}
	for _, l := range t.own {
		m, err := l.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		sum.Add(m)
	}
	return sum, nil
}

// open starts the measured processes, unless they are given.
func open(ctx context.Context, o *Options, dir string) (t *target, err error) {
	t = &target{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if o.Given != nil {
		t.connect, t.store = o.Given.Connect, o.Given.Store
		return t, nil
	}
	if t.receiver, err = newReceiver(ctx); err != nil {
		return t, err
	}
	t.closers = append(t.closers, t.receiver.close)
	if o.Config == "" {
		o.Config = filepath.Join(dir, "llmtap.yaml")
		if err := os.WriteFile(o.Config, []byte("{}\n"), 0o600); err != nil {
			return t, err
		}
	}
	o.Progress.Printf("starting llmtap")
	if o.Analyzers == 0 {
		err = t.openSingle(ctx, o, dir)
	} else {
		err = t.openProcesses(ctx, o, dir)
	}
	return t, err
}

// start starts a process of llmtap.
func (t *target) start(ctx context.Context, o *Options, name, dir string, flags ...string) (*process.LLMTap, error) {
	l, err := process.StartLLMTap(ctx, o.Binary, name, dir, t.receiver.environment(), append([]string{"--config", o.Config}, flags...)...)
	if err != nil {
		return nil, fmt.Errorf("start llmtap: %w", err)
	}
	t.own = append(t.own, l)
	t.closers = append(t.closers, l.Stop)
	return l, nil
}

// openSingle starts one process of all roles, with embedded servers.
func (t *target) openSingle(ctx context.Context, o *Options, dir string) error {
	up, err := t.start(ctx, o, LLMTap, dir)
	if err != nil {
		return err
	}
	if up.NATSURL == "" {
		return errors.New("the configuration selects an external NATS; to measure it, use --nats-url and --clickhouse-dsn")
	}
	t.natsDir, t.engineDir = filepath.Join(dir, "nats"), config.ClickHouseDir(dir)
	dsn, ok := chdb.Running(t.engineDir)
	if !ok {
		return errors.New("the configuration selects an external ClickHouse; to measure it, use --nats-url and --clickhouse-dsn")
	}
	if t.engine, err = process.In(ClickHouse, t.engineDir); err != nil {
		return err
	}
	return t.dial(ctx, up.NATSURL, dsn)
}

// openProcesses starts a process for each part.
func (t *target) openProcesses(ctx context.Context, o *Options, dir string) error {
	cfg := chdb.Default()
	t.engineDir = config.ClickHouseDir(dir)
	cfg.Dir = t.engineDir
	engine, err := chdb.Start(ctx, cfg)
	if err != nil {
		return err
	}
	t.closers = append(t.closers, func() { _ = engine.Close(context.WithoutCancel(ctx)) }) // its data is removed
	if t.engine, err = process.In(ClickHouse, t.engineDir); err != nil {
		return err
	}
	nats, err := t.start(ctx, o, NATS, filepath.Join(dir, "broker"), "--roles", config.RoleProxy)
	if err != nil {
		return err
	}
	t.natsDir = filepath.Join(nats.Dir, "nats")
	flags := []string{"--nats-url", nats.NATSURL, "--clickhouse-dsn", engine.DSN(), "--partitions", strconv.Itoa(max(o.Partitions, o.Analyzers))}
	if _, err := t.start(ctx, o, Alert, filepath.Join(dir, "alert"), append(flags, "--roles", config.RoleAlert)...); err != nil {
		return err
	}
	for i := range o.Analyzers {
		if _, err := t.start(ctx, o, Analyzer, filepath.Join(dir, fmt.Sprint("analyzer", i)), append(flags, "--roles", config.RoleAnalyze)...); err != nil {
			return err
		}
	}
	return t.dial(ctx, nats.NATSURL, engine.DSN())
}

// dial connects to own servers.
func (t *target) dial(ctx context.Context, natsURL, dsn string) error {
	t.connect = func(ctx context.Context) (*jetstream.Conn, error) {
		cfg := jetstream.Default()
		cfg.URL = natsURL
		return jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	}
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	sink, err := clickhouse.Open(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return fmt.Errorf("reach ClickHouse: %w", err)
	}
	t.store = sink
	t.closers = append(t.closers, func() { _ = sink.Close() }) // used for reading only
	return nil
}
