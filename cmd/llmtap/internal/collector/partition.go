package collector

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
	"github.com/llmtap/llmtap/sinks/spans"
)

const (
	readBatch           = 1000                   // maximum messages per step
	readWait            = 200 * time.Millisecond // maximum wait of a step for its first message
	defaultStoreTimeout = 5 * time.Second
)

// errStoreRecovered ends a partition that has dropped rows. The partition is then opened again at its checkpoint.
var errStoreRecovered = errors.New("the store accepts rows again")

// A partition moves the events of one partition through an analyzer to the store and to the tallies.
//
//	           the store refuses rows for longer than storeTimeout, and two batches are full; or there is no store
//	      ┌──────────────────────────────────────────────────────────────────────────┐
//	┌─ storing ──────────────────────┐                              ┌─ tallies only ─v──────────────┐
//	│ rows ──> batcher ──> store     │                              │ rows ──> dropped              │
//	│ tallies ──> NATS               │                              │ tallies ──> NATS              │
//	│ ledger, then checkpoint after  │                              │ ledger and checkpoint stay    │
//	│ each batch                     │                              │                               │
//	└─^──────────────────────────────┘                              └────────────────┬──────────────┘
//	  │                                ┌─ catching up ─────────────────────────┐     │
//	  └──────────────────────────────── another partition at the checkpoint    <─────┘
//	       it has caught up            │ stores; this one publishes tallies    │ the store accepts rows again
//	                                   └───────────────────────────────────────┘
//
// So alerts fire while ClickHouse is down and while the backlog is stored afterwards, memory is limited to two batches, and the
// backlog stays in the stream. Nothing is lost or counted twice: events up to the checkpoint are replayed silently, all rows
// after it are produced again, and a tally is published only if its second is newer than the last published second of the
// partition. Tallies are a function of the stream, so the skipped tallies equal the published ones.
type partition struct {
	conn         *jetstream.Conn
	reader       *jetstream.Reader
	analyzer     *analyzer.Analyzer
	batcher      *sinks.Batcher
	spans        *spans.Exporter // nil: none
	ledger       *ledgerStore
	logger       *slog.Logger
	storeTimeout time.Duration
	missing      func() error           // returns an error while there is no store to wait for; then only tallies continue from the start
	repartition  *jetstream.Repartition // the repartition that reader is part of; nil if none

	out         analyzer.Output
	read        uint64                      // sequence of the last event read
	submitted   uint64                      // sequence up to which rows were submitted to the batcher
	commit      func(context.Context) error // commit of the last submitted batch
	lastTally   int64                       // newest second whose tally was published
	talliesOnly bool
	ahead       *ahead // publishes tallies while this partition catches up; nil if none does

	erasures *atomic.Uint64 // see analyzeRole.erasures
	erased   uint64         // value of erasures when the analyzer last forgot stored bodies
}

// newPartition returns partition p of n, which is read through reader.
func newPartition(a *analyzeRole, p, n int, reader *jetstream.Reader, reg prometheus.Registerer) *partition {
	cfg := a.analyzer
	cfg.Partition, cfg.Partitions, cfg.Epoch = p, n, reader.Epoch()
	cfg.MaxStateBytes, cfg.SessionLookbackBytes = max(cfg.MaxStateBytes/int64(n), 1<<20), max(cfg.SessionLookbackBytes/int64(n), 1<<20)
	batches := a.batcher
	batches.MaxRows, batches.MaxBytes = max(batches.MaxRows/n, 1), max(batches.MaxBytes/n, 1)
	batcher := sinks.NewBatcher(a.sink, batches, a.logger, reg)
	batcher.DeadLetter = deadLetterRow(a.conn)
	logger := a.logger.With("partition", p)
	an := analyzer.New(cfg, rules.InOrder, reg)
	a.content.apply(an)
	return &partition{
		conn: a.conn, reader: reader, analyzer: an, batcher: batcher, spans: a.spans, ledger: newLedger(a.conn, p, n, reader, logger),
		logger: logger, storeTimeout: a.storeTimeout, missing: a.missing,
		read: reader.Stored(), submitted: reader.Stored(), lastTally: reader.LastTally(),
		erasures: &a.erasures, erased: a.erasures.Load(),
	}
}

// deadLetterRow returns a function that dead-letters a row refused by the store.
func deadLetterRow(conn *jetstream.Conn) func(context.Context, sinks.DeadRow) error {
	return func(ctx context.Context, r sinks.DeadRow) error {
		return conn.DeadLetterRow(ctx, r.Table, r.ID, r.Seq, r.Err, r.Row)
	}
}

// run processes events until ctx ends, then stores pending rows. If a repartition is in progress, it also returns at the
// last sequence of the repartition.
func (p *partition) run(ctx context.Context) error {
	// Pending rows are stored even after ctx ends.
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

// loop runs steps. Tallies are published when their seconds close, before the checkpoint that covers them is written, so a
// slow ClickHouse does not delay alerts.
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
		if err := p.store(ctx, end); err != nil || end && !p.talliesOnly {
			return err
		}
		if end {
			sleep(ctx, readWait)
		}
	}
	return nil
}

// process passes msgs to the analyzer or, if there are none, advances the analyzer to the current stream time.
func (p *partition) process(ctx context.Context, msgs []jetstream.Message, end bool) {
	start := time.Now()
	p.out.Reset()
	if n := p.erasures.Load(); n != p.erased {
		p.analyzer.ForgetContents()
		p.erased = n
	}
	for i := range msgs {
		m := &msgs[i]
		p.read = max(p.read, m.Seq)
		if m.Err != nil {
			continue // the reader has counted and dead-lettered the message
		}
		p.analyzer.Process(m.Event, analyzer.Position{Seq: m.Seq, Index: m.Index, Time: m.Time}, !m.Replay, &p.out)
	}
	switch {
	case end:
		p.read = p.repartition.LastSeq
		p.analyzer.AdvanceTo(time.Unix(p.repartition.LastSecond+1, 0), true, &p.out)
	case len(msgs) == 0 && p.repartition == nil: // time must not pass the end of a repartition
		if at, ok := p.reader.CaughtUp(ctx); ok {
			p.analyzer.Advance(at, true, &p.out)
		}
	}
	p.analyzer.Observe(time.Since(start))
	for i := range p.out.Dead {
		d := &p.out.Dead[i]
		p.conn.DeadLetter(ctx, &d.Event, d.Seq, d.Index, d.Reason, d.Error)
	}
}

// publish publishes new tallies, unless another partition that is ahead does.
func (p *partition) publish(ctx context.Context) error {
	if p.ahead != nil {
		if p.ahead.leads(p.read) {
			return nil
		}
		p.lastTally = max(p.lastTally, p.ahead.end())
		p.ahead = nil
		p.logger.Info("the backlog is stored", "up to", p.read)
	}
	for i := range p.out.Tallies {
		t := &p.out.Tallies[i]
		if t.Second <= p.lastTally {
			continue // already published by the previous process, or by this one before the store recovered
		}
		payload, err := json.Marshal(t)
		if err != nil {
			return fmt.Errorf("encode tally: %w", err)
		}
		if err := p.conn.PublishTally(ctx, t.Partition, t.Epoch, t.Second, payload); err != nil {
			if ctx.Err() != nil {
				return nil // the tally will be published after the next start
			}
			return fmt.Errorf("publish tally: %w", err)
		}
		p.lastTally = t.Second
	}
	return nil
}

// store submits the rows to the batcher, with the checkpoint to write after the rows are stored.
func (p *partition) store(ctx context.Context, end bool) error {
	if ctx.Err() != nil {
		return nil // a tally may be unpublished, so the checkpoint must not pass this step
	}
	changed, removed := p.analyzer.TakeLedger()
	if p.talliesOnly {
		return p.resume(ctx) // the changes are dropped; the next analyzer computes them again
	}
	if p.missing() != nil {
		p.talliesOnly = true
		return nil
	}
	step := p.ledger.add(changed, removed)
	upTo, replayFrom := p.read, p.analyzer.ReplayFrom()
	if upTo == p.submitted && p.out.Rows() == 0 && !end {
		return nil
	}
	rows := sinks.Batch{Exchanges: p.out.Exchanges, Findings: p.out.Findings, ToolCalls: p.out.ToolCalls, Runs: p.out.Runs, Contents: p.out.Contents, History: p.out.History}
	commit := func(ctx context.Context) error {
		if err := p.ledger.write(ctx, step); err != nil {
			return err
		}
		return p.reader.Commit(ctx, upTo, replayFrom)
	}
	for start := time.Now(); ; {
		wait, cancel := context.WithTimeout(ctx, p.storeTimeout/4)
		err := p.batcher.Add(wait, &rows, commit)
		timeout := wait.Err() != nil
		cancel()
		waited, reason := time.Since(start), p.batcher.Health()
		switch {
		case err == nil:
			p.commit, p.submitted = commit, upTo
			p.spans.Add(&p.out)
			return nil
		case ctx.Err() != nil:
			return nil
		case !timeout:
			return fmt.Errorf("submit rows: %w", err)
		case waited < p.storeTimeout, waited < 3*p.storeTimeout && reason == nil: // the store may just be slow
			continue
		}
		p.logger.Warn("the store refuses rows; tallies continue without them, the backlog stays in the stream", "stored", p.reader.Stored(), "reason", reason)
		p.talliesOnly = true
		return nil
	}
}

// resume returns errStoreRecovered once the store accepts rows and the batcher has room.
func (p *partition) resume(ctx context.Context) error {
	if p.batcher.Health() != nil || p.missing() != nil {
		return nil
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // Add must not wait
	switch err := p.batcher.Add(now, &sinks.Batch{}, p.commit); {
	case errors.Is(err, context.Canceled):
		return nil
	case err != nil:
		return fmt.Errorf("submit checkpoint: %w", err)
	}
	p.logger.Info("the store accepts rows again; storing the backlog", "stored", p.reader.Stored())
	return errStoreRecovered
}

// An ahead is a partition that has dropped rows and goes on publishing tallies, while another one stores the rows.
type ahead struct {
	partition *partition
	published atomic.Uint64 // sequence up to which all tallies are published
	stop      context.CancelFunc
	done      chan struct{}
}

// aheadMargin is the number of events by which a partition is nearly as far as the one ahead, which then ends.
const aheadMargin = 2 * readBatch

// goAhead publishes the tallies of p, whose run has ended, until ctx ends, until end, or until an error occurs: then the other
// partition publishes them when it comes to them.
func goAhead(ctx context.Context, p *partition) *ahead {
	p.reader.Detach()
	ctx, stop := context.WithCancel(ctx)
	a := &ahead{partition: p, stop: stop, done: make(chan struct{})}
	a.published.Store(p.read)
	go func() {
		defer close(a.done)
		defer func() { _ = p.reader.Close(context.WithoutCancel(ctx)) }() // a detached reader has nothing to release
		for ctx.Err() == nil {
			if err := a.step(ctx); err != nil && ctx.Err() == nil {
				p.logger.Warn("tallies wait until the backlog is stored", "err", err)
				return
			}
		}
	}()
	return a
}

// step reads events and publishes their tallies.
func (a *ahead) step(ctx context.Context) error {
	p := a.partition
	msgs, err := p.reader.Next(ctx, readBatch, readWait)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	p.process(ctx, msgs, false)
	p.analyzer.TakeLedger() // the other partition computes the changes again
	if err := p.publish(ctx); err != nil {
		return err
	}
	if ctx.Err() == nil { // otherwise a tally may be unpublished
		a.published.Store(p.read)
	}
	return nil
}

// leads reports whether a publishes the tallies of the events up to read, and is far ahead of them.
func (a *ahead) leads(read uint64) bool {
	select {
	case <-a.done:
		return false
	default:
		return read+aheadMargin < a.published.Load()
	}
}

// end stops a and returns the second of its last tally.
func (a *ahead) end() int64 {
	a.stop()
	<-a.done
	return a.partition.lastTally
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
