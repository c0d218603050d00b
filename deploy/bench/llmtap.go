package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/sinks/chdb"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

// A target is a running llmtap.
type target struct {
	conn      *jetstream.Conn
	store     *clickhouse.Sink
	processes []process.Process // none if llmtap was not started by this program
	engine    process.Process   // the one of them that is ClickHouse
	queue     string            // directory of NATS
	natsURL   string
	dsn       string
	flags     []string // of each process of llmtap
	stops     []func()
}

func (t *target) close() {
	for _, stop := range slices.Backward(t.stops) {
		stop()
	}
}

// dial connects to the servers of t.
func (t *target) dial(ctx context.Context, natsURL, dsn string) (err error) {
	t.natsURL, t.dsn = natsURL, dsn
	cfg := jetstream.Default()
	cfg.URL = natsURL
	if t.conn, err = jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil); err != nil {
		return err
	}
	t.stops = append(t.stops, t.conn.Close)
	if t.store, err = openStore(dsn); err != nil {
		return err
	}
	t.stops = append(t.stops, func() { _ = t.store.Close() }) // used for reading only
	return nil
}

// openStore connects to a ClickHouse. It creates nothing there.
func openStore(dsn string) (*clickhouse.Sink, error) {
	cfg := clickhouse.Default()
	cfg.DSN = dsn
	return clickhouse.OpenLazy(cfg, slog.New(slog.DiscardHandler), nil)
}

// start starts a process of llmtap.
func (t *target) start(ctx context.Context, o *options, name, dir string, flags ...string) (*process.LLMTap, error) {
	l, err := process.StartLLMTap(ctx, o.binary, name, dir, o.environment(), append(flags, t.flags...)...)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	t.processes = append(t.processes, l.Process)
	t.stops = append(t.stops, l.Stop)
	return l, nil
}

// startSingle starts one process of all roles, with embedded servers.
func (t *target) startSingle(ctx context.Context, o *options, dir string) error {
	up, err := t.start(ctx, o, "llmtap", dir)
	if err != nil {
		return err
	}
	t.queue = filepath.Join(dir, "nats")
	dsn, ok := chdb.Running(filepath.Join(dir, "clickhouse"))
	if !ok {
		return fmt.Errorf("llmtap does not use the embedded ClickHouse; see %s", filepath.Join(dir, "llmtap.log"))
	}
	if t.engine, err = process.In("engine", filepath.Join(dir, "clickhouse")); err != nil {
		return err
	}
	t.processes = append(t.processes, t.engine)
	return t.dial(ctx, up.NATSURL, dsn)
}

// startProcesses starts a process for each part, and n analyzers.
func (t *target) startProcesses(ctx context.Context, o *options, dir string, n int) error {
	cfg := chdb.Default()
	cfg.Dir = filepath.Join(dir, "clickhouse")
	engine, err := chdb.Start(ctx, cfg)
	if err != nil {
		return err
	}
	t.stops = append(t.stops, func() { _ = engine.Close(context.WithoutCancel(ctx)) }) // its data is removed
	if t.engine, err = process.In("engine", cfg.Dir); err != nil {
		return err
	}
	t.processes = append(t.processes, t.engine)
	nats, err := t.start(ctx, o, "NATS", filepath.Join(dir, "broker"), "--roles", "proxy")
	if err != nil {
		return err
	}
	t.queue = filepath.Join(nats.Dir, "nats")
	flags := []string{"--nats-url", nats.NATSURL, "--clickhouse-dsn", engine.DSN(), "--partitions", strconv.Itoa(n)}
	if _, err := t.start(ctx, o, "alert", filepath.Join(dir, "alert"), append(flags, "--roles", "alert")...); err != nil {
		return err
	}
	for i := range n {
		if _, err := t.start(ctx, o, "analyzer", filepath.Join(dir, fmt.Sprint("analyzer", i)), append(flags, "--roles", "analyze")...); err != nil {
			return err
		}
	}
	return t.dial(ctx, nats.NATSURL, engine.DSN())
}

// subject returns how the calls in t are measured that where selects. Without a condition, ClickHouse need not read them to count them,
// which it does four times a second, as with those of the collector.
func (t *target) subject(where string) subject {
	return subject{
		processes: t.processes, store: t.store, queue: t.queue, poll: "SELECT toInt64(count()) FROM exchanges " + where,
		stored: "SELECT toInt64(uniqExact(exchange_id)) FROM exchanges_final " + where,
		double: "SELECT toInt64(count() - uniqExact(exchange_id)) FROM exchanges_final " + where,
	}
}

// publish publishes events. c is the call that they complete, or nil.
func (p *published) publish(ctx context.Context, pub *jetstream.Publisher, c *load.Call, events []*event.Event) error {
	for _, e := range events {
		for part := range e.Messages(event.PartBytes) {
			if err := pub.Publish(ctx, part); err != nil {
				return err
			}
		}
	}
	if c != nil {
		p.add(c)
	}
	return nil
}

// measureLLMTap publishes a workload to a fresh llmtap. See index for words.
func measureLLMTap(ctx context.Context, o *options, dir string, w load.Workload, words string) (*result, error) {
	var t target
	defer t.close()
	if err := t.startSingle(ctx, o, dir); err != nil {
		return nil, err
	}
	if err := index(ctx, t.dsn, words, true); err != nil {
		return nil, err
	}
	s, r := t.subject(""), &result{Side: "llmtap"}
	s.search = search("messages", ownBody)
	return r, s.measure(ctx, r, func(sent *published) (err error) {
		pub, seq := t.conn.NewPublisher(0), uint64(0)
		calls := w.Calls(func(c *load.Call) bool {
			err = sent.publish(ctx, pub, c, c.Events(&seq))
			return err == nil
		})
		return errors.Join(calls, err, pub.Flush(ctx))
	}, func(int) {})
}
