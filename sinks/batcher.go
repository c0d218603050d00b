package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// errStopped is returned by Add after Run has ended or its context is done.
var errStopped = errors.New("batcher is stopped")

// A Batcher collects rows into batches and writes them to a sink, one batch at a time and in the order of Add. It
// buffers two batches: one is written while the other is filled. If a table refuses every row, the filling batch is
// merged once into the batch being written, and a third batch is filled.
type Batcher struct {
	// DeadLetter stores a row that its table refuses although it accepts other rows. It is retried until it returns
	// nil. It must be set before Run; if nil, such rows are only counted and logged.
	DeadLetter func(context.Context, DeadRow) error

	sink    Sink
	cfg     BatcherConfig
	logger  *slog.Logger
	metrics *metrics

	// wake, with a buffer of one, signals that the filling batch has received its first row or is full. It is never
	// closed.
	wake chan struct{}

	mu      sync.Mutex // guards the fields below
	filling *pending
	space   chan struct{} // closed by take and stop when Add may try again; take replaces it
	err     error         // error of Add; nil while Add accepts rows
	health  error         // result of Health

	accepted map[Table]*Batch // one stored row of each table; used by Run only
}

// A pending batch consists of rows and the newest commit added with them.
type pending struct {
	rows   Batch
	size   int // estimated size in bytes
	commit func(context.Context) error
	since  time.Time // time of the first row or commit; zero if the batch is empty
}

// NewBatcher returns a Batcher that writes to sink once Run is called. cfg must be valid.
func NewBatcher(sink Sink, cfg BatcherConfig, logger *slog.Logger, reg prometheus.Registerer) *Batcher {
	return &Batcher{
		sink: sink, cfg: cfg, logger: logger, metrics: newMetrics(reg),
		wake: make(chan struct{}, 1), filling: &pending{}, space: make(chan struct{}), accepted: map[Table]*Batch{},
	}
}

// Add copies rows into the filling batch, with an optional commit function. After a batch is stored, Run calls only its
// newest commit, which confirms all rows added before it, so a checkpoint is written once per batch. A commit without
// rows is also called within the flush interval. While the batch is full, Add blocks until there is space, ctx is done
// or Run ends. The rows of one Add stay in one batch, so a batch may exceed its limits by the rows of one Add.
func (b *Batcher) Add(ctx context.Context, rows *Batch, commit func(context.Context) error) error {
	if rows.Rows() == 0 && commit == nil {
		return nil
	}
	size := rows.Bytes()
	for {
		full, err := b.tryAdd(rows, size, commit)
		if full == nil || err != nil {
			return err
		}
		select {
		case <-full:
		case <-ctx.Done():
			return fmt.Errorf("add %d rows: %w", rows.Rows(), ctx.Err())
		}
	}
}

// tryAdd adds rows or, if the batch is full, returns a channel that is closed when there may be space.
func (b *Batcher) tryAdd(rows *Batch, size int, commit func(context.Context) error) (full <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	p := b.filling
	if b.full(p) {
		return b.space, nil
	}
	first := p.since.IsZero()
	if first {
		p.since = time.Now()
	}
	p.rows.Append(rows)
	p.size += size
	if commit != nil {
		p.commit = commit
	}
	countRows(b.metrics.received, rows, nil)
	b.metrics.queuedRows.Set(float64(p.rows.Rows()))
	b.metrics.queuedBytes.Set(float64(p.size))
	if first || b.full(p) {
		select {
		case b.wake <- struct{}{}:
		default: // a signal is already pending
		}
	}
	return nil, nil
}

func (b *Batcher) full(p *pending) bool {
	return p.rows.Rows() >= b.cfg.MaxRows || p.size >= b.cfg.MaxBytes
}

// Run writes batches until ctx is done, then writes the remaining rows within the drain timeout and returns nil. It
// returns an error if rows remain: the sink or a commit returned a permanent error, or the drain timeout passed. The
// checkpoint does not move past such rows, so they are read again. Run may be called only once.
func (b *Batcher) Run(ctx context.Context) error {
	// Writes may continue after ctx is done for the drain timeout, because finishing a write is better than repeating
	// it.
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		b.stop(errStopped)
		t := time.NewTimer(b.cfg.DrainTimeout)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-drain.Done():
		}
	})
	defer stop()

	spare := &pending{}
	for {
		b.wait(ctx)
		p := b.take(spare)
		if p.since.IsZero() {
			return nil // ctx is done and no rows remain
		}
		if err := b.store(drain, p); err != nil {
			return b.abandon(drain, p, err)
		}
		p.rows.reset()
		*p = pending{rows: p.rows}
		spare = p
	}
}

// wait returns when the filling batch is due, because it is full or old enough or because ctx is done.
func (b *Batcher) wait(ctx context.Context) {
	for {
		b.mu.Lock()
		full, since, age := b.full(b.filling), b.filling.since, b.cfg.FlushInterval
		if b.filling.size >= b.cfg.MaxBytes/largeShare {
			age = b.cfg.LargeFlushInterval
		}
		b.mu.Unlock()
		var due <-chan time.Time
		if !since.IsZero() {
			left := age - time.Since(since)
			if full || left <= 0 {
				return
			}
			due = time.After(left)
		}
		select {
		case <-ctx.Done():
			b.stop(errStopped) // before take, so that no rows are added after the last batch
			return
		case <-due:
		case <-b.wake:
		}
	}
}

// take replaces the filling batch with spare, which is empty, wakes blocked calls of Add and returns the filled batch.
func (b *Batcher) take(spare *pending) *pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.filling
	b.filling = spare
	b.freed()
	return p
}

// freed wakes blocked calls of Add. The caller must hold mu.
func (b *Batcher) freed() {
	if b.err == nil {
		close(b.space)
		b.space = make(chan struct{})
	}
	b.metrics.queuedRows.Set(0)
	b.metrics.queuedBytes.Set(0)
}

// stop makes Add fail with err. After the first call, it has no effect.
func (b *Batcher) stop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		close(b.space)
	}
}

// store writes p, stores its poison rows as dead letters and calls its commit.
func (b *Batcher) store(ctx context.Context, p *pending) error {
	start := time.Now()
	n := p.rows.Rows()
	if n > 0 {
		var dead []DeadRow
		err := b.retry(ctx, "write batch", func() (err error) {
			dead, err = b.write(ctx, p)
			return err
		})
		n = p.rows.Rows()
		if err != nil {
			return fmt.Errorf("write batch of %s: %w", rowCount(n), err)
		}
		if err := b.writeDeadLetters(ctx, dead); err != nil {
			return err
		}
		countRows(b.metrics.written, &p.rows, dead)
		p.rows.reset() // the rows are stored, even if the commit fails
	}
	if p.commit != nil {
		if err := b.retry(ctx, "commit batch", func() error { return p.commit(ctx) }); err != nil {
			return fmt.Errorf("commit batch of %s: %w", rowCount(n), err)
		}
	}
	b.metrics.duration.Observe(time.Since(start).Seconds())
	return nil
}

// Health returns nil while rows are being stored. Otherwise it returns the error, the time since when it has occurred
// and the required action.
func (b *Batcher) Health() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health
}

func (b *Batcher) setHealth(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.health = err
}

// retry calls f until it returns nil or an error other than a *RetryError, or ctx is done. It returns the last error of f.
func (b *Batcher) retry(ctx context.Context, step string, f func() error) error {
	start, attempts := time.Now(), 0
	var last error
	attempt := func() (struct{}, error) {
		attempts++
		last = f()
		if _, temporary := errors.AsType[*RetryError](last); last != nil && !temporary {
			return struct{}{}, backoff.Permanent(last)
		}
		return struct{}{}, last
	}
	report := func(err error, wait time.Duration) {
		b.metrics.retries.Inc()
		health := fmt.Errorf("%s: failing since %s: %w", step, start.UTC().Format(time.RFC3339), err)
		temporary, _ := errors.AsType[*RetryError](err)
		if temporary.Hint == "" {
			b.logger.Warn("step failed, retrying", "step", step, "attempts", attempts, "wait", wait, "error", err)
		} else {
			health = fmt.Errorf("%w: %s", health, temporary.Hint)
			b.logger.Error("step failed, operator action required", "step", step, "attempts", attempts, "wait", wait, "error", err, "hint", temporary.Hint)
		}
		b.setHealth(health)
	}
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(b.cfg.backOff()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(report))
	if err == nil && attempts > 1 {
		b.setHealth(nil)
		b.logger.Info("step succeeded after retries", "step", step, "attempts", attempts)
	}
	return last
}

// backOff returns a backoff that waits 50 to 100 % of the nominal times, so that processes do not all retry at the same
// time.
func (c BatcherConfig) backOff() backoff.BackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: c.MinBackoff * 3 / 4, MaxInterval: c.MaxBackoff * 3 / 4, RandomizationFactor: 1. / 3, Multiplier: 2,
	}
}

// abandon makes Add fail, counts the remaining rows as dropped and returns the error for Run.
func (b *Batcher) abandon(ctx context.Context, p *pending, err error) error {
	reason := reasonRejected
	if ctx.Err() != nil {
		reason = reasonShutdown
	}
	b.stop(fmt.Errorf("%w: %w", errStopped, err))
	b.mu.Lock()
	n := p.rows.Rows() + b.filling.rows.Rows()
	b.mu.Unlock()
	b.metrics.dropped.WithLabelValues(reason).Add(float64(n))
	if reason == reasonShutdown {
		return fmt.Errorf("store the last %s within %v (they are read again at the next start): %w", rowCount(n), b.cfg.DrainTimeout, err)
	}
	return fmt.Errorf("%w (%s not stored; they are read again at the next start)", err, rowCount(n))
}

func rowCount(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
