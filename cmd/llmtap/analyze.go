package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
)

const (
	leaseRetry  = 2 * time.Second  // how often a process looks for partitions that fall to it
	stopTimeout = 20 * time.Second // to store what is in hand when stopping
)

// ownerName names this process among those that share a NATS.
func ownerName(shared bool) string {
	// The embedded NATS is guarded by a lock on its directory, so a process that was killed may take its own leases
	// back at once. On a shared NATS every process has a name of its own and waits until the lease ends; host and process
	// id alone are the same in two containers.
	if !shared {
		return "embedded"
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%06x", host, os.Getpid(), rand.N(1<<24))
}

// An analyzeRole reads those partitions of the stream that fall to this process.
//
//	every 2 s: N partitions, L live processes: this one's share is N/L, rounded up
//	   it holds fewer ──> takes free ones: whose lease was given back or has ended (15 s after its owner died)
//	   it holds more  ──> stops the surplus: stores what is in hand, gives the lease back, another takes it at once
//	   the stream is cut into another number ──> cuts it anew, when nobody else reads it
//
// Each partition has an analyzer, a batcher and a checkpoint of its own, so one that stops or fails does not concern the
// others. Their batchers share the limits of the configuration.
type analyzeRole struct {
	conn       *jetstream.Conn
	sink       sinks.Sink
	analyzer   analyzer.Config
	content    contentPolicy
	batcher    sinks.BatcherConfig
	partitions int
	owner      string
	lease      time.Duration // after which the partitions of a dead process are taken over
	retry      time.Duration // how often to look
	patience   time.Duration // how long the store may refuse rows before tallies go on without them
	logger     *slog.Logger
	metrics    partitionMetrics

	forgotten atomic.Uint64 // changes when somebody deletes what is stored of bodies, see jetstream.Conn.AnnounceErasure

	ended chan struct{} // cap 1: a partition ended, there may be one to take

	mu      sync.Mutex // guards the rest
	held    map[int]*term
	standby string // why this process holds none, when that is as it should be
}

// A term is the time during which this process holds a partition.
type term struct {
	stop     context.CancelFunc
	stopping bool
}

func (c *collector) newAnalyzeRole() (*analyzeRole, error) {
	content, err := newContentPolicy(c.cfg.Content, os.Getenv("LLMTAP_SHAPE_KEY"))
	if err != nil {
		return nil, err
	}
	return &analyzeRole{
		conn: c.conn, sink: c.sink, analyzer: c.cfg.Analyzer, content: content, batcher: c.cfg.Batcher, partitions: c.cfg.Partitions,
		owner: ownerName(c.cfg.NATS.URL != ""), lease: jetstream.DefaultLeaseTTL, retry: leaseRetry, patience: storePatience, logger: c.logger,
		ended: make(chan struct{}, 1), held: map[int]*term{},
	}, nil
}

// run reads until ctx ends. What was read is stored then, and what was not stays in the stream.
func (a *analyzeRole) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer a.leave(ctx)
		for ctx.Err() == nil {
			if err := a.balance(ctx, g); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-a.ended:
			case <-time.After(a.retry):
			}
		}
		return nil
	})
	return g.Wait()
}

// balance takes or gives back partitions, to hold this process's share of them.
func (a *analyzeRole) balance(ctx context.Context, g *errgroup.Group) error {
	share, err := a.share(ctx)
	if err != nil {
		return err
	}
	if n, err := a.conn.ErasureRevision(ctx); err == nil { // without NATS nothing comes that would be stored
		a.forgotten.Store(n)
	}
	// Each process begins to look at another place, so that they meet less often.
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.owner))
	first, others := int(h.Sum32()%uint32(a.partitions)), 0
	for i := range a.partitions {
		p := (first + i) % a.partitions
		switch held, room := a.count(p, share); {
		case held:
			continue
		case !room:
			return nil
		}
		reader, err := a.conn.OpenReader(ctx, jetstream.ReaderConfig{Partition: p, Partitions: a.partitions, Owner: a.owner, LeaseTTL: a.lease})
		var layout *jetstream.PartitionCountError
		switch {
		case err == nil:
			a.start(ctx, g, p, reader)
		case errors.Is(err, jetstream.ErrLeaseHeld):
			others++
		case errors.As(err, &layout):
			return a.recut(ctx, layout.Partitions)
		default:
			return err
		}
	}
	if others == a.partitions {
		a.standBy("all of %d partitions are read by other processes", a.partitions)
	}
	return nil
}

// share is how many partitions fall to this process.
func (a *analyzeRole) share(ctx context.Context) (int, error) {
	if a.partitions == 1 {
		return 1, nil
	}
	live, err := a.conn.Heartbeat(ctx, a.owner, a.lease)
	if err != nil {
		return 0, fmt.Errorf("say that this process is there: %w", err)
	}
	share := (a.partitions + live - 1) / live
	a.mu.Lock()
	defer a.mu.Unlock()
	surplus := -share
	for _, t := range a.held {
		if !t.stopping {
			surplus++
		}
	}
	for _, p := range slices.Sorted(maps.Keys(a.held)) {
		if t := a.held[p]; surplus > 0 && !t.stopping {
			a.logger.Info("another process takes this partition", "partition", p, "live", live)
			t.stopping = true
			t.stop()
			surplus--
		}
	}
	return share, nil
}

func (a *analyzeRole) leave(ctx context.Context) {
	if a.partitions == 1 {
		return
	}
	if err := a.conn.Deregister(context.WithoutCancel(ctx), a.owner); err != nil {
		a.logger.Warn("could not say that this process ends; its share stays free until its lease ends", "err", err)
	}
}

// count reports whether p is held, and whether there is room for one more.
func (a *analyzeRole) count(p, share int) (held, room bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[p] != nil, len(a.held) < share
}

func (a *analyzeRole) standBy(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.held) == 0 && a.standby != why {
		a.standby = why
		a.logger.Info("standing by", "reason", why)
	}
}

// start runs a partition that was opened just now.
func (a *analyzeRole) start(ctx context.Context, g *errgroup.Group, p int, reader *jetstream.Reader) {
	during, stop := context.WithCancel(ctx)
	a.mu.Lock()
	a.held[p], a.standby = &term{stop: stop}, ""
	a.mu.Unlock()
	g.Go(func() error {
		defer stop()
		err := a.hold(during, p, reader)
		a.mu.Lock()
		delete(a.held, p)
		a.mu.Unlock()
		select {
		case a.ended <- struct{}{}:
		default: // somebody looks already
		}
		switch {
		case ctx.Err() != nil:
			return err
		case err == nil, errors.Is(err, errStoreBack):
			return nil
		case errors.Is(err, jetstream.ErrLeaseLost), during.Err() != nil:
			a.logger.Warn("partition given up; what was not stored is read again", "partition", p, "reason", err)
			return nil
		default:
			return fmt.Errorf("partition %d: %w", p, err)
		}
	})
}

// hold processes a partition until ctx ends or something is wrong, and gives its lease back.
func (a *analyzeRole) hold(ctx context.Context, p int, reader *jetstream.Reader) error {
	reg := a.metrics.begin(p)
	defer a.metrics.end(p)
	a.logger.Info("reading", "partition", p, "partitions", a.partitions, "from", reader.Stored()+1, "epoch", reader.Epoch())
	err := newPartition(a, p, a.partitions, reader, reg).run(ctx)
	return errors.Join(err, a.close(ctx, reader.Close))
}

// close calls f, which ends something when ctx has ended already.
func (a *analyzeRole) close(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return f(ctx)
}

// recut cuts the stream, which is read in from partitions, into the number of this process, see jetstream.Repartition. It does
// nothing while other processes read it.
func (a *analyzeRole) recut(ctx context.Context, from int) error {
	cut, err := a.conn.BeginRepartition(ctx, a.partitions, a.owner, a.lease)
	if errors.Is(err, jetstream.ErrPartitionCount) {
		return nil // another process did it just now
	}
	if errors.Is(err, jetstream.ErrLeaseHeld) {
		a.standBy("the stream is read in %d partitions by other processes, not in %d; stop them first", from, a.partitions)
		return nil
	}
	if err != nil {
		return err
	}
	a.logger.Info("cutting the stream anew", "from", from, "to", a.partitions, "at", cut.LastSeq)
	g, run := errgroup.WithContext(ctx)
	for p, reader := range cut.Readers {
		g.Go(func() error {
			part := newPartition(a, p, from, reader, prometheus.NewRegistry())
			part.cut = cut
			return part.run(run)
		})
	}
	err = g.Wait()
	if err == nil && ctx.Err() == nil {
		err = cut.Finish(ctx)
	}
	err = errors.Join(err, a.close(ctx, cut.Close))
	if errors.Is(err, jetstream.ErrLeaseLost) || errors.Is(err, errStoreBack) {
		a.logger.Warn("the stream is not cut yet, trying again", "reason", err)
		return nil
	}
	return err
}

// status says what this process does about the stream; an error is that it should do something and does not.
func (a *analyzeRole) status() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.held) > 0:
		var list []string
		for _, p := range slices.Sorted(maps.Keys(a.held)) {
			list = append(list, strconv.Itoa(p))
		}
		return fmt.Sprintf("reading partition %s of %d", strings.Join(list, ", "), a.partitions), nil
	case a.standby != "":
		return "standing by: " + a.standby, nil
	default:
		return "", errors.New("the analyzer is not reading: it is starting, or cutting the stream into another number of partitions")
	}
}

// partitionMetrics gathers the metrics of the partitions: a process that takes one again starts with fresh state and
// fresh counters. What it no longer holds is no longer served.
type partitionMetrics struct {
	mu   sync.Mutex // guards regs
	regs map[int]*prometheus.Registry
}

// begin returns where partition p registers.
func (m *partitionMetrics) begin(p int) prometheus.Registerer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.regs == nil {
		m.regs = map[int]*prometheus.Registry{}
	}
	reg := prometheus.NewRegistry()
	m.regs[p] = reg
	return prometheus.WrapRegistererWith(prometheus.Labels{"partition": strconv.Itoa(p)}, reg)
}

func (m *partitionMetrics) end(p int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.regs, p)
}

// Gather implements prometheus.Gatherer.
func (m *partitionMetrics) Gather() ([]*dto.MetricFamily, error) {
	m.mu.Lock()
	var all prometheus.Gatherers
	for _, reg := range m.regs {
		all = append(all, reg)
	}
	m.mu.Unlock()
	return all.Gather()
}
