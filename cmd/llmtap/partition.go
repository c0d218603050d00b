package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/rules"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	readBatch     = 1000                   // messages a step takes at most
	readWait      = 200 * time.Millisecond // how long a step waits for the first of them
	storePatience = 5 * time.Second
)

// errStoreBack ends a partition that went on without its rows: it is opened again at its checkpoint.
var errStoreBack = errors.New("the store takes rows again")

// A partition moves the events of one partition through an analyzer to the store and to the tallies.
//
//	            the store refuses rows for longer than patience, and two batches wait
//	      ┌──────────────────────────────────────────────────────────────────────────┐
//	┌─ storing ──────────────────────┐                              ┌─ tallies only ─v──────────────┐
//	│ rows ──> batcher ──> store     │                              │ rows ──> dropped              │
//	│ tallies ──> NATS               │                              │ tallies ──> NATS              │
//	│ ledger, then checkpoint after  │                              │ ledger and checkpoint stay    │
//	│ each batch                     │                              │                               │
//	└─^──────────────────────────────┘                              └────────────────┬──────────────┘
//	  └──────────────────────────────────────────────────────────────────────────────┘
//	   the store takes rows again: opened anew at the checkpoint, with an empty analyzer
//
// So alerts fire with ClickHouse down, memory stays at two batches, and the backlog stays in the stream. It is exact: what
// the checkpoint covers is replayed silently, all rows after it are made again, and a tally is published only when its
// second is newer than the partition's last: tallies are a function of the stream, so the ones left out are the same.
type partition struct {
	conn     *jetstream.Conn
	reader   *jetstream.Reader
	analyzer *analyzer.Analyzer
	batcher  *sinks.Batcher
	ledger   *ledgerStore
	logger   *slog.Logger
	patience time.Duration
	cut      *jetstream.Repartition // that reader is of; or nil

	out     analyzer.Output
	read    uint64                      // the sequence up to which everything was read
	handed  uint64                      // and handed to the batcher
	commit  func(context.Context) error // the newest one handed to it
	tallied int64                       // the newest second whose tally is published
	only    bool                        // tallies only

	forgotten *atomic.Uint64 // of the role
	forgot    uint64         // when the analyzer forgot last
}

// newPartition prepares the partition p of n that reader has opened.
func newPartition(a *analyzeRole, p, n int, reader *jetstream.Reader, reg prometheus.Registerer) *partition {
	cfg := a.analyzer
	cfg.Partition, cfg.Partitions, cfg.Epoch = p, n, reader.Epoch()
	cfg.StateBytes, cfg.SessionBytes = max(cfg.StateBytes/int64(n), 1<<20), max(cfg.SessionBytes/int64(n), 1<<20)
	batches := a.batcher
	batches.MaxRows, batches.MaxBytes = max(batches.MaxRows/n, 1), max(batches.MaxBytes/n, 1)
	batcher := sinks.NewBatcher(a.sink, batches, a.logger, reg)
	batcher.DeadLetter = func(ctx context.Context, r sinks.DeadRow) error {
		return a.conn.DeadLetterRow(ctx, r.Table, r.ID, r.Seq, r.Err, r.Row)
	}
	logger := a.logger.With("partition", p)
	an := analyzer.New(cfg, rules.InOrder, reg)
	a.content.apply(an)
	return &partition{
		forgotten: &a.forgotten, forgot: a.forgotten.Load(),
		ledger: newLedger(a.conn, p, n, reader, logger),
		conn:   a.conn, reader: reader, analyzer: an, batcher: batcher, patience: a.patience,
		logger: logger, read: reader.Stored(), handed: reader.Stored(), tallied: reader.LastTally(),
	}
}

// run processes events until ctx ends, then stores what is in hand. A reader of a cut makes it end by itself.
func (p *partition) run(ctx context.Context) error {
	// What is in hand is stored after ctx has ended, so this context outlives it.
	batches, stopBatches := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBatches()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := p.batcher.Run(batches); err != nil {
			return fmt.Errorf("store rows: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		defer stopBatches()
		if err := p.ledger.load(ctx, p.analyzer); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		return p.loop(ctx)
	})
	return g.Wait()
}

// loop is one step after the other. Tallies are published as they close and before the checkpoint that covers them, so a
// slow ClickHouse does not delay an alert.
func (p *partition) loop(ctx context.Context) error {
	for ctx.Err() == nil {
		msgs, err := p.reader.Next(ctx, readBatch, readWait)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read events: %w", err)
		}
		p.process(ctx, msgs, end)
		if err := p.publish(ctx); err != nil {
			return err
		}
		if err := p.store(ctx, end); err != nil || end && !p.only {
			return err
		}
		if end {
			pause(ctx, readWait)
		}
	}
	return nil
}

// process passes msgs, and the time when there are none, through the analyzer.
func (p *partition) process(ctx context.Context, msgs []jetstream.Message, end bool) {
	begun := time.Now()
	p.out.Reset()
	if n := p.forgotten.Load(); n != p.forgot {
		p.analyzer.ForgetContents()
		p.forgot = n
	}
	for i := range msgs {
		m := &msgs[i]
		p.read = max(p.read, m.Seq)
		if m.Err != nil {
			continue // counted and kept as a dead letter by the reader
		}
		p.analyzer.Process(m.Event, analyzer.Position{Seq: m.Seq, Time: m.Time}, !m.Replay, &p.out)
	}
	switch {
	case end:
		p.read = p.cut.LastSeq
		p.analyzer.AdvanceTo(time.Unix(p.cut.LastSecond+1, 0), true, &p.out)
	case len(msgs) == 0 && p.cut == nil: // else time must not go beyond the cut
		if at, ok := p.reader.CaughtUp(ctx); ok {
			p.analyzer.Advance(at, true, &p.out)
		}
	}
	p.analyzer.Observe(time.Since(begun))
	for i := range p.out.Dead {
		d := &p.out.Dead[i]
		p.conn.DeadLetter(ctx, &d.Event, d.Seq, d.Reason, d.Error)
	}
}

// publish publishes the tallies that are new.
func (p *partition) publish(ctx context.Context) error {
	for i := range p.out.Tallies {
		t := &p.out.Tallies[i]
		if t.Second <= p.tallied {
			continue // by the process before, or by this one before the store came back
		}
		payload, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("encode tally: %w", err)
		}
		if err := p.conn.PublishTally(ctx, t.Partition, t.Epoch, t.Second, payload); err != nil {
			if ctx.Err() != nil {
				return nil // it is published again after the next start
			}
			return fmt.Errorf("publish tally: %w", err)
		}
		p.tallied = t.Second
	}
	return nil
}

// store hands the rows to the batcher, with the checkpoint to write after them.
func (p *partition) store(ctx context.Context, end bool) error {
	if ctx.Err() != nil {
		return nil // a tally may be missing: nothing of this step counts
	}
	changed, gone := p.analyzer.TakeLedger()
	if p.only {
		return p.tryStore(ctx) // what changed is not kept: the analyzer that comes next finds it again
	}
	step := p.ledger.add(changed, gone)
	upTo, replayFrom := p.read, p.analyzer.ReplayFrom()
	if upTo == p.handed && p.out.Rows() == 0 && !end {
		return nil
	}
	rows := sinks.Batch{Exchanges: p.out.Exchanges, Findings: p.out.Findings, ToolCalls: p.out.ToolCalls, Runs: p.out.Runs, Contents: p.out.Contents, History: p.out.History}
	commit := func(ctx context.Context) error {
		if err := p.ledger.keep(ctx, step); err != nil {
			return err
		}
		return p.reader.Commit(ctx, upTo, replayFrom)
	}
	for begun := time.Now(); ; {
		wait, cancel := context.WithTimeout(ctx, p.patience/4)
		err := p.batcher.Add(wait, &rows, commit)
		timeout := wait.Err() != nil
		cancel()
		waited, why := time.Since(begun), p.batcher.Health()
		switch {
		case err == nil:
			p.commit, p.handed = commit, upTo
			return nil
		case ctx.Err() != nil:
			return nil
		case !timeout:
			return fmt.Errorf("hand rows to the batcher: %w", err)
		case waited < p.patience, waited < 3*p.patience && why == nil: // a slow store may take them yet
			continue
		}
		p.logger.Warn("the store takes no rows; tallies go on without them, the backlog stays in the stream", "stored", p.reader.Stored(), "reason", why)
		p.only = true
		return nil
	}
}

// tryStore returns errStoreBack when rows are stored again and there is room for more.
func (p *partition) tryStore(ctx context.Context) error {
	if p.batcher.Health() != nil {
		return nil
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // Add does not wait
	switch err := p.batcher.Add(now, &sinks.Batch{}, p.commit); {
	case errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return fmt.Errorf("hand a checkpoint to the batcher: %w", err)
	}
	p.logger.Info("the store takes rows again, reading anew from the checkpoint", "stored", p.reader.Stored())
	return errStoreBack
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
