package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	readBatch   = 1000                   // messages a step takes at most
	readWait    = 200 * time.Millisecond // how long a step waits for the first of them
	leaseRetry  = 2 * time.Second        // how often a standby asks for the partition
	stopTimeout = 20 * time.Second       // to store what is in hand when stopping
)

// analyze reads the partition until ctx ends. A process that finds it taken stands by and takes over when the lease
// of the other ends.
func (c *collector) analyze(ctx context.Context) error {
	// The embedded NATS is guarded by a lock on its directory, so a process that was killed may take its own lease
	// back at once. On a shared NATS every process has a name of its own and waits until the lease ends.
	owner := "embedded"
	if c.cfg.NATS.URL != "" {
		host, _ := os.Hostname()
		owner = host + "-" + strconv.Itoa(os.Getpid())
	}
	a := &analyzeRole{c: c}
	for {
		err := a.hold(ctx, owner)
		c.reading.Store(false)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, jetstream.ErrLeaseHeld), errors.Is(err, jetstream.ErrLeaseLost):
			c.logger.Info("partition is held by another process, standing by", "reason", err)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(leaseRetry):
			}
		default:
			return err
		}
	}
}

type analyzeRole struct {
	c *collector
}

// hold takes the partition and processes it until ctx ends or the lease is lost.
func (a *analyzeRole) hold(ctx context.Context, owner string) (err error) {
	reader, err := a.c.conn.OpenReader(ctx, jetstream.ReaderConfig{Partition: 0, Partitions: 1, Owner: owner})
	if err != nil {
		return err
	}
	// What is in hand is stored after ctx has ended, so this context outlives it.
	stopping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer func() {
		stop, cancel := context.WithTimeout(stopping, stopTimeout)
		defer cancel()
		err = errors.Join(err, reader.Close(stop))
	}()
	cfg := a.c.cfg.Analyzer
	cfg.Partition, cfg.Epoch = 0, reader.Epoch()
	reg := prometheus.NewRegistry()
	a.c.term.current.Store(reg)
	an := analyzer.New(cfg, rules.InOrder, reg)
	batcher := sinks.NewBatcher(a.c.sink, a.c.cfg.Batcher, a.c.logger, reg)

	g, ctx := errgroup.WithContext(ctx)
	batches, stopBatches := context.WithCancel(stopping)
	g.Go(func() error {
		if err := batcher.Run(batches); err != nil {
			return fmt.Errorf("store rows: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopBatches()
		a.c.reading.Store(true)
		return a.loop(ctx, reader, an, batcher)
	})
	return g.Wait()
}

// loop moves events from the reader through the analyzer to the batcher. Tallies are published as they close and
// before the checkpoint that covers them, so a slow ClickHouse does not delay an alert.
func (a *analyzeRole) loop(ctx context.Context, reader *jetstream.Reader, an *analyzer.Analyzer, batcher *sinks.Batcher) error {
	var out analyzer.Output
	stored := reader.Stored() // the sequence up to which everything was handed to the batcher
	for ctx.Err() == nil {
		msgs, err := reader.Next(ctx, readBatch, readWait)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read events: %w", err)
		}
		begun := time.Now()
		out.Reset()
		for i := range msgs {
			m := &msgs[i]
			if m.Err != nil {
				continue // counted and kept as a dead letter by the reader
			}
			an.Process(m.Event, analyzer.Position{Seq: m.Seq, Time: m.Time}, !m.Replay, &out)
		}
		if len(msgs) == 0 && reader.Pending() == 0 {
			an.Advance(time.Now(), true, &out)
		}
		an.Observe(time.Since(begun))
		for i := range out.Dead {
			d := &out.Dead[i]
			a.c.conn.DeadLetter(ctx, &d.Event, d.Seq, d.Reason, d.Error)
		}
		for i := range out.Tallies {
			if err := a.publish(ctx, &out.Tallies[i]); err != nil {
				return err
			}
		}
		if len(msgs) > 0 {
			stored = max(stored, msgs[len(msgs)-1].Seq)
		} else if out.Rows() == 0 {
			continue
		}
		upTo := stored
		rows := sinks.Batch{Exchanges: out.Exchanges, Findings: out.Findings, ToolCalls: out.ToolCalls}
		replayFrom := an.ReplayFrom()
		commit := func(ctx context.Context) error { return reader.Commit(ctx, upTo, replayFrom) }
		if err := batcher.Add(ctx, &rows, commit); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("hand rows to the batcher: %w", err)
		}
	}
	return nil
}

func (a *analyzeRole) publish(ctx context.Context, t *analyzer.Tally) error {
	payload, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode tally: %w", err)
	}
	if err := a.c.conn.PublishTally(ctx, t.Partition, t.Epoch, t.Second, payload); err != nil && ctx.Err() == nil {
		return fmt.Errorf("publish tally: %w", err)
	}
	return nil
}
