package collector

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
	"golang.org/x/sync/errgroup"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/spans"
)

// RebalanceInterval is the interval at which a process checks which partitions to read and whether stored bodies were
// erased.
const RebalanceInterval = time.Second

// stopTimeout is the maximum time to store pending rows on shutdown.
const stopTimeout = 20 * time.Second

// ownerName returns the name under which this process holds leases.
func ownerName(shared bool) string {
	// The embedded NATS locks its directory, so a restarted process may reclaim its own leases immediately. On a shared
	// NATS, every process has a unique name and waits until a lease expires. Host name and process id do not suffice,
	// because two containers may have the same ones.
	if !shared {
		return "embedded"
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d-%06x", host, os.Getpid(), rand.N(1<<24))
}

// An analyzeRole reads the partitions of the event stream that are assigned to this process.
//
//	every second: N partitions, L live processes: the share of each is N/L, rounded up
//	   below its share ──> acquires partitions whose lease is released or expired (6 s after its owner died)
//	   above its share ──> stops the surplus: stores pending rows, releases the lease, another process acquires it
//	   the stream has a different number of partitions ──> repartitions it, unless another process reads it
//
// Each partition has its own analyzer, batcher and checkpoint, so a failing partition does not affect the others. The
// batchers share the configured limits.
type analyzeRole struct {
	conn         *jetstream.Conn
	sink         sinks.Sink
	analyzer     analyzer.Config
	content      contentPolicy
	batcher      sinks.BatcherConfig
	partitions   int
	owner        string
	leaseTTL     time.Duration
	keepStored   bool            // see jetstream.Config.KeepStored
	purgedAt     time.Time       // last purge of stored events; used by rebalance only
	interval     time.Duration   // time between rebalances
	missing      func() error    // see partition.missing
	storeTimeout time.Duration   // time that the store may refuse rows before only tallies continue
	spans        *spans.Exporter // nil: none
	logger       *slog.Logger
	metrics      registries // by partition

	erasures atomic.Uint64 // revision of the last erasure of stored bodies, see jetstream.Conn.AnnounceErasure

	ended chan struct{} // signals that a partition ended and can be acquired again; capacity 1, never closed

	mu       sync.Mutex // guards the fields below
	assigned map[int]*assignment
	standby  string // reason for having no partition if that is expected, else ""
}

// An assignment is a partition that this process reads.
type assignment struct {
	stop     context.CancelFunc
	stopping bool
}

func (c *Collector) newAnalyzeRole() (*analyzeRole, error) {
	content, err := newContentPolicy(c.cfg.Content, c.key.text)
	if err != nil {
		return nil, err
	}
	var exporter *spans.Exporter
	if c.cfg.Traces.URL != "" {
		if exporter, err = spans.New(c.cfg.Traces, c.cfg.Prices, c.logger, c.reg); err != nil {
			return nil, err
		}
	}
	return &analyzeRole{
		spans: exporter,
		sink:  c.store, missing: c.NoStore, analyzer: c.cfg.Analyzer, content: content, batcher: c.cfg.Batcher, partitions: c.cfg.Partitions,
		owner: c.owner, keepStored: c.cfg.NATS.KeepStored, purgedAt: time.Now(), leaseTTL: jetstream.DefaultLeaseTTL, interval: RebalanceInterval, storeTimeout: defaultStoreTimeout, logger: c.logger,
		ended: make(chan struct{}, 1), assigned: map[int]*assignment{},
	}, nil
}

// runAnalyze runs the role until ctx ends.
func (c *Collector) runAnalyze(ctx context.Context) error {
	c.analyze.conn = c.conn.Load()
	return c.analyze.run(ctx)
}

// run reads until ctx ends. Events read by then are stored; all others stay in the stream.
func (a *analyzeRole) run(ctx context.Context) error {
	if a.spans != nil {
		exporting, stop := context.WithCancel(context.WithoutCancel(ctx))
		var done sync.WaitGroup
		done.Go(func() { a.spans.Run(exporting) })
		defer func() { stop(); done.Wait() }()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer a.deregister(ctx)
		for ctx.Err() == nil {
			if err := a.rebalance(ctx, g); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-a.ended:
			case <-time.After(a.interval):
			}
		}
		return nil
	})
	return g.Wait()
}

// rebalance acquires or stops partitions until this process has its share.
func (a *analyzeRole) rebalance(ctx context.Context, g *errgroup.Group) error {
	share, err := a.share(ctx)
	if err != nil {
		return err
	}
	a.stopSurplus(share)
	if n, err := a.conn.ErasureRevision(ctx); err == nil { // errors are ignored, because there is nothing to store without NATS
		a.erasures.Store(n)
	}
	a.purgeStored(ctx)
	// Each process begins with a different partition, to avoid contention.
	h := fnv.New32a()
	_, _ = h.Write([]byte(a.owner))
	first, leased := int(h.Sum32()%uint32(a.partitions)), 0
	for i := range a.partitions {
		p := (first + i) % a.partitions
		switch assigned, room := a.count(p, share); {
		case assigned:
			continue
		case !room:
			return nil
		}
		reader, err := a.openReader(ctx, p)
		var count *jetstream.PartitionCountError
		switch {
		case err == nil:
			a.start(ctx, g, p, reader)
		case errors.Is(err, jetstream.ErrLeaseHeld):
			leased++
		case errors.As(err, &count):
			return a.repartition(ctx, count.Partitions)
		default:
			return err
		}
	}
	if leased == a.partitions {
		a.setStandby("other processes read all %d partitions", a.partitions)
	}
	return nil
}

// purgeInterval is the interval at which stored events are removed from the stream.
const purgeInterval = time.Minute

// purgeStored removes events from the stream that are stored and not needed for a restart. The process that reads partition 0
// does so for all partitions.
func (a *analyzeRole) purgeStored(ctx context.Context) {
	if assigned, _ := a.count(0, 0); !assigned || a.keepStored || time.Since(a.purgedAt) < purgeInterval {
		return
	}
	a.purgedAt = time.Now()
	n, err := a.conn.PurgeStored(ctx, a.partitions)
	switch {
	case err != nil && ctx.Err() == nil:
		a.logger.Warn("stored events stay in the stream for now", "err", err)
	case n > 0:
		a.logger.Debug("stored events removed from the stream", "events", n)
	}
}

// share returns the number of partitions that this process should read.
func (a *analyzeRole) share(ctx context.Context) (int, error) {
	if a.partitions == 1 {
		return 1, nil
	}
	live, err := a.conn.Heartbeat(ctx, a.owner, a.leaseTTL)
	if err != nil {
		return 0, fmt.Errorf("send heartbeat: %w", err)
	}
	return (a.partitions + live - 1) / live, nil
}

// stopSurplus stops partitions beyond share, so that other processes can acquire them.
func (a *analyzeRole) stopSurplus(share int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	surplus := -share
	for _, as := range a.assigned {
		if !as.stopping {
			surplus++
		}
	}
	for _, p := range slices.Sorted(maps.Keys(a.assigned)) {
		if as := a.assigned[p]; surplus > 0 && !as.stopping {
			a.logger.Info("releasing partition to another process", "partition", p)
			as.stopping = true
			as.stop()
			surplus--
		}
	}
}

func (a *analyzeRole) deregister(ctx context.Context) {
	if a.partitions == 1 {
		return
	}
	if err := a.conn.Deregister(context.WithoutCancel(ctx), a.owner); err != nil {
		a.logger.Warn("could not deregister; other processes acquire this process's partitions when its lease expires", "err", err)
	}
}

// count reports whether p is assigned, and whether there is room for another partition.
func (a *analyzeRole) count(p, share int) (assigned, room bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.assigned[p] != nil, len(a.assigned) < share
}

func (a *analyzeRole) setStandby(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.assigned) == 0 && a.standby != reason {
		a.standby = reason
		a.logger.Info("standing by", "reason", reason)
	}
}

// start runs an acquired partition.
func (a *analyzeRole) start(ctx context.Context, g *errgroup.Group, p int, reader *jetstream.Reader) {
	assigned, stop := context.WithCancel(ctx)
	a.mu.Lock()
	a.assigned[p], a.standby = &assignment{stop: stop}, ""
	a.mu.Unlock()
	g.Go(func() error {
		defer stop()
		err := a.runPartition(assigned, p, reader)
		a.mu.Lock()
		delete(a.assigned, p)
		a.mu.Unlock()
		select {
		case a.ended <- struct{}{}:
		default: // already signaled
		}
		switch {
		case ctx.Err() != nil:
			return err
		case err == nil:
			return nil
		case errors.Is(err, jetstream.ErrLeaseLost), errors.Is(err, jetstream.ErrLeaseHeld), assigned.Err() != nil:
			a.logger.Warn("partition stopped; events not stored yet will be read again", "partition", p, "reason", err)
			return nil
		default:
			return fmt.Errorf("partition %d: %w", p, err)
		}
	})
}

// runPartition processes a partition until ctx ends or an error occurs, and releases its lease.
func (a *analyzeRole) runPartition(ctx context.Context, p int, reader *jetstream.Reader) error {
	name := strconv.Itoa(p)
	defer a.metrics.unregister(name)
	var lead *ahead
	defer func() {
		if lead != nil {
			lead.end()
		}
	}()
	for {
		reg := a.metrics.register(name, prometheus.Labels{"partition": name})
		a.logger.Info("reading partition", "partition", p, "partitions", a.partitions, "from", reader.Stored()+1, "epoch", reader.Epoch())
		part := newPartition(a, p, a.partitions, reader, reg)
		part.ahead = lead
		err := part.run(ctx)
		lead = part.ahead
		if !errors.Is(err, errStoreRecovered) || ctx.Err() != nil {
			return errors.Join(err, afterStop(ctx, reader.Close))
		}
		if lead == nil {
			lead = goAhead(ctx, part)
		} else if err := afterStop(ctx, reader.Close); err != nil { // the store failed again while part caught up
			return err
		}
		if reader, err = a.openReader(ctx, p); err != nil {
			return err
		}
	}
}

func (a *analyzeRole) openReader(ctx context.Context, p int) (*jetstream.Reader, error) {
	return a.conn.OpenReader(ctx, jetstream.ReaderConfig{Partition: p, Partitions: a.partitions, Owner: a.owner, LeaseTTL: a.leaseTTL})
}

// afterStop calls f with a context that lives for stopTimeout, even after ctx ends.
func afterStop(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return f(ctx)
}

// repartition changes the number of partitions of the stream from old to a.partitions, see jetstream.Repartition. It does
// nothing while other processes read the stream.
func (a *analyzeRole) repartition(ctx context.Context, old int) error {
	r, err := a.conn.BeginRepartition(ctx, a.partitions, a.owner, a.leaseTTL)
	if errors.Is(err, jetstream.ErrPartitionCount) {
		return nil // another process has already repartitioned the stream
	}
	if errors.Is(err, jetstream.ErrLeaseHeld) {
		a.setStandby("other processes read the stream in %d partitions, not %d; stop them first", old, a.partitions)
		return nil
	}
	if err != nil {
		return err
	}
	a.logger.Info("repartitioning the stream", "from", old, "to", a.partitions, "at", r.LastSeq)
	g, run := errgroup.WithContext(ctx)
	for p, reader := range r.Readers {
		g.Go(func() error {
			part := newPartition(a, p, old, reader, prometheus.NewRegistry())
			part.repartition = r
			return part.run(run)
		})
	}
	err = g.Wait()
	if err == nil && ctx.Err() == nil {
		err = r.Finish(ctx)
	}
	err = errors.Join(err, afterStop(ctx, r.Close))
	if errors.Is(err, jetstream.ErrLeaseLost) || errors.Is(err, errStoreRecovered) {
		a.logger.Warn("repartitioning was interrupted, retrying", "reason", err)
		return nil
	}
	return err
}

// status describes the assignment of this process. It returns an error if this process should read but does not.
func (a *analyzeRole) status() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.assigned) > 0:
		var list []string
		for _, p := range slices.Sorted(maps.Keys(a.assigned)) {
			list = append(list, strconv.Itoa(p))
		}
		return fmt.Sprintf("reading partition %s of %d", strings.Join(list, ", "), a.partitions), nil
	case a.standby != "":
		return "standing by: " + a.standby, nil
	default:
		return "", errors.New("the analyzer is not reading: it is starting or repartitioning the stream")
	}
}
