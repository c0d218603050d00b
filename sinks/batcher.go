package sinks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrStopped is what Add returns after Run has ended or was told to end.
var ErrStopped = errors.New("batcher is stopped")

// A Batcher gathers rows into batches and writes them to a sink, one at a time and in the order they were added. It
// holds at most two batches: the one being written and the one that fills meanwhile. Only while a table takes no row at
// all, the second may join the first, once, and a third fills.
type Batcher struct {
	// DeadLetter keeps a row that its table refuses while it takes others. It is set before Run, and repeated until it
	// returns nil. Without it such rows are only counted and logged.
	DeadLetter func(context.Context, DeadRow) error

	sink    Sink
	cfg     BatcherConfig
	logger  *slog.Logger
	metrics *metrics

	// wake has room for one signal: the filling batch got its first row or became full. Add sends, Run receives; it
	// is never closed.
	wake chan struct{}

	mu      sync.Mutex // guards the fields below
	filling *pending
	space   chan struct{} // closed by take and stop when Add may try again; replaced by take
	err     error         // why Add refuses; nil while it does not
	health  error         // why nothing is stored now; nil while it is

	good map[string]*Batch // Run's: by table, a row that was stored
}

// A pending batch is rows, and the newest commit among those that came with them.
type pending struct {
	rows   Batch
	size   int // bytes, estimated
	commit func(context.Context) error
	since  time.Time // when the first rows or commit came; zero while there are none
}

// NewBatcher returns a Batcher that writes to sink once Run is called. cfg must be valid.
func NewBatcher(sink Sink, cfg BatcherConfig, logger *slog.Logger, reg prometheus.Registerer) *Batcher {
	return &Batcher{
		sink: sink, cfg: cfg, logger: logger, metrics: newMetrics(reg),
		wake: make(chan struct{}, 1), filling: &pending{}, space: make(chan struct{}), good: map[string]*Batch{},
	}
}

// Add copies rows into the filling batch and remembers commit, which may be nil. After the batch is stored Run calls
// the newest commit of the batch and no other: a commit says that all rows added before it are stored, so the last
// implies the earlier, and a checkpoint is written once a batch. A commit without rows is called within the interval
// too. Add waits while the batch is full, until there is room (then nil), ctx ends or Run does. The rows of one Add stay
// in one batch, which may make it larger than its limits by that much.
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

// tryAdd adds, or returns the channel that is closed when there may be room.
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
	p.rows.append(rows)
	p.size += size
	if commit != nil {
		p.commit = commit
	}
	count(b.metrics.in, rows, nil)
	b.metrics.rows.Set(float64(p.rows.Rows()))
	b.metrics.bytes.Set(float64(p.size))
	if first || b.full(p) {
		select {
		case b.wake <- struct{}{}:
		default: // a signal is waiting already
		}
	}
	return nil, nil
}

func (b *Batcher) full(p *pending) bool {
	return p.rows.Rows() >= b.cfg.MaxRows || p.size >= b.cfg.MaxBytes
}

// Run writes batches until ctx ends, then stores what is left within the drain time and returns nil. It returns an
// error when rows stay behind: the sink or a commit said a final error, or the drain time passed. The checkpoint stands
// before such rows, so they are read again. Poison rows do not stay behind, see DeadLetter. Run is called once.
func (b *Batcher) Run(ctx context.Context) error {
	// Writes outlive ctx by the drain time: a batch in flight is better finished than written again.
	drain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		b.stop(ErrStopped)
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
			return nil // ctx ended, nothing is left
		}
		if err := b.store(drain, p); err != nil {
			return b.abandon(drain, p, err)
		}
		p.rows.reset()
		*p = pending{rows: p.rows}
		spare = p
	}
}

// wait returns when the filling batch should be taken: it is full or old enough, or ctx ended.
func (b *Batcher) wait(ctx context.Context) {
	for {
		b.mu.Lock()
		full, since := b.full(b.filling), b.filling.since
		b.mu.Unlock()
		var due <-chan time.Time
		if !since.IsZero() {
			left := b.cfg.FlushInterval - time.Since(since)
			if full || left <= 0 {
				return
			}
			due = time.After(left)
		}
		select {
		case <-ctx.Done():
			b.stop(ErrStopped) // before take, so that nothing is added behind the last batch
			return
		case <-due:
		case <-b.wake:
		}
	}
}

// take returns the filling batch, puts the empty spare in its place and lets waiting Adds go on.
func (b *Batcher) take(spare *pending) *pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.filling
	b.filling = spare
	b.freed()
	return p
}

// freed lets waiting Adds go on. The caller holds mu.
func (b *Batcher) freed() {
	if b.err == nil {
		close(b.space)
		b.space = make(chan struct{})
	}
	b.metrics.rows.Set(0)
	b.metrics.bytes.Set(0)
}

// stop makes Add refuse with err, and with the first one if called again.
func (b *Batcher) stop(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = err
		close(b.space)
	}
}

// store writes p, hands its poison rows to the dead letters and calls its commit; each is repeated while it says
// *RetryError.
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
			return fmt.Errorf("write batch of %d rows: %w", n, err)
		}
		if err := b.bury(ctx, dead); err != nil {
			return err
		}
		count(b.metrics.out, &p.rows, dead)
		p.rows.reset() // stored: they are not left behind, whatever the commit says
	}
	if p.commit != nil {
		if err := b.retry(ctx, "commit batch", func() error { return p.commit(ctx) }); err != nil {
			return fmt.Errorf("commit batch of %d rows: %w", n, err)
		}
	}
	b.metrics.seconds.Observe(time.Since(start).Seconds())
	return nil
}

// Health is nil while rows are stored; else it says why none are, since when, and what to do.
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

// retry calls f until it succeeds, fails for good or ctx ends. The wait doubles; half of it is random, so that many
// processes do not come back at once.
func (b *Batcher) retry(ctx context.Context, what string, f func() error) error {
	wait, start := b.cfg.MinBackoff, time.Now()
	for try := 1; ; try++ {
		err := f()
		if err == nil {
			if try > 1 {
				b.setHealth(nil)
				b.logger.Info("succeeded after retries", "step", what, "tries", try)
			}
			return nil
		}
		var later *RetryError
		if !errors.As(err, &later) || ctx.Err() != nil {
			return err
		}
		b.metrics.retries.Inc()
		d := wait/2 + rand.N(wait/2+1)
		since := start.UTC().Format(time.RFC3339)
		if later.Hint == "" {
			b.setHealth(fmt.Errorf("%s: fails since %s: %w", what, since, err))
			b.logger.Warn("failed, trying again", "step", what, "tries", try, "wait", d, "error", err)
		} else {
			b.setHealth(fmt.Errorf("%s: fails since %s: %w: %s", what, since, err, later.Hint))
			b.logger.Error("failed, an operator must help", "step", what, "tries", try, "wait", d, "error", err, "hint", later.Hint)
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return err
		}
		wait = min(2*wait, b.cfg.MaxBackoff)
	}
}

// abandon counts what stays behind and returns the error of Run. Add refuses from here on.
func (b *Batcher) abandon(ctx context.Context, p *pending, err error) error {
	reason := reasonRejected
	if ctx.Err() != nil {
		reason = reasonShutdown
	}
	b.stop(fmt.Errorf("%w: %w", ErrStopped, err))
	b.mu.Lock()
	n := p.rows.Rows() + b.filling.rows.Rows()
	b.mu.Unlock()
	b.metrics.dropped.WithLabelValues(reason).Add(float64(n))
	if reason == reasonShutdown {
		return fmt.Errorf("store the last %d rows within %v (they are read again at the next start): %w", n, b.cfg.DrainTimeout, err)
	}
	return fmt.Errorf("%w (%d rows not stored; they are read again at the next start)", err, n)
}
