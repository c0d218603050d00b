package collector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/natsserver"
)

const (
	diskInterval = time.Second // time between checks of the disk
	// diskEnough is the free space at which events are accepted again, in multiples of the reserve. It is above 1, so that the
	// stream does not change its mind every second.
	diskEnough = 1.2
	// restartInterval is the shortest time between two starts of NATS: a disk that is broken, not full, fails again at once.
	restartInterval = 30 * time.Second
)

// A diskGuard keeps a reserve of the disk free of new events, for an embedded NATS.
//
//	       free < reserve                             free >= 1.2 * reserve
//	┌─ accepting ─┐ ────> ┌─ refusing ────────────┐ ────> ┌─ accepting ─┐
//	└─────────────┘       │ hooks keep events     │       └─────────────┘
//	                      │ what is stored in     │       nats-server starts again first
//	                      │ the stream is         │       if the disk was full all the same
//	                      │ analyzed and stored   │
//	                      └───────────────────────┘
//
// nats-server writes to no stream any more after an error of the disk, and so would lose the checkpoints of what it has
// accepted. If other programs fill the disk so fast that it comes to that, the guard starts it again when there is room.
type diskGuard struct {
	dir     string
	reserve uint64
	server  *natsserver.Server
	refuse  func(ctx context.Context, refuse bool) error
	logger  *slog.Logger

	restarted time.Time // last start of NATS by check; used by check only
	down      bool      // that start failed, so NATS does not run; likewise

	mu       sync.Mutex // guards the fields below
	free     uint64     // bytes
	known    bool       // free is known
	refusing bool
}

// newDiskGuard returns the guard of the embedded NATS, or nil if there is none or no reserve.
func (c *Collector) newDiskGuard() *diskGuard {
	if c.server == nil || c.cfg.Disk.Reserve == 0 {
		return nil
	}
	d := &diskGuard{
		dir: c.cfg.NATSServer.Dir, reserve: uint64(c.cfg.Disk.Reserve), server: c.server, logger: c.logger,
		refuse: c.refuseEvents,
	}
	factory := promauto.With(c.reg)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_disk_free_bytes", Help: "Free space of the disk of the embedded NATS.",
	}, func() float64 { free, _, _ := d.state(); return float64(free) })
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "llmtap_ingest_refusing_events", Help: "1 while the embedded NATS refuses new events because less than disk.reserve is free, otherwise 0.",
	}, func() float64 { _, refusing, _ := d.state(); return boolValue(refusing) })
	return d
}

// run checks the disk until ctx ends.
func (d *diskGuard) run(ctx context.Context) {
	for failed := false; ctx.Err() == nil; sleep(ctx, diskInterval) {
		if err := d.check(ctx); err != nil && ctx.Err() == nil {
			if !failed {
				d.logger.Warn("cannot guard the disk of NATS, retrying", "err", err)
			}
			failed = true
		} else {
			failed = false
		}
	}
}

// check makes the stream refuse or accept events.
func (d *diskGuard) check(ctx context.Context) error {
	free, _, err := config.DiskSpace(d.dir)
	if err != nil {
		return err
	}
	_, was, _ := d.state()
	refusing := free < d.reserve || was && float64(free) < diskEnough*float64(d.reserve)
	d.mu.Lock()
	d.free, d.known, d.refusing = free, true, refusing
	d.mu.Unlock()
	switch {
	case refusing && !was:
		d.logger.Error("the disk is full: NATS refuses new events, hooks keep them in memory", "dir", d.dir, "free", config.FormatBytes(free),
			"reserve", config.FormatBytes(d.reserve), "fix", "free space; llmtap goes on by itself")
	case !refusing && was:
		d.logger.Info("the disk has room again: NATS accepts new events", "dir", d.dir, "free", config.FormatBytes(free))
	}
	if !refusing {
		if err := d.server.WriteError(); d.down || err != nil && time.Since(d.restarted) >= restartInterval {
			d.logger.Warn("starting NATS again, because it does not write after an error of the disk", "err", err)
			err := d.server.Restart(ctx)
			d.restarted, d.down = time.Now(), err != nil
			if err != nil {
				return err
			}
		}
	}
	if refusing || was {
		if err := d.refuse(ctx, refusing); err != nil {
			d.mu.Lock()
			d.refusing = true // until the stream accepts events
			d.mu.Unlock()
			return err
		}
	}
	return nil
}

func (d *diskGuard) state() (free uint64, refusing, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free, d.refusing, d.known
}

// freeReserves returns the free space in multiples of the reserve. ok is false if there is no guard or the space is not known
// yet.
func (d *diskGuard) freeReserves() (n float64, ok bool) {
	if d == nil {
		return 0, false
	}
	free, refusing, known := d.state()
	n = float64(free) / float64(d.reserve)
	if refusing {
		n = min(n, 0.99) // while the free space is between reserve and diskEnough
	}
	return n, known
}

// failure returns why events are refused, or nil.
func (d *diskGuard) failure() error {
	if d == nil {
		return nil
	}
	if free, refusing, _ := d.state(); refusing {
		return fmt.Errorf("disk: %s free in %s, NATS refuses new events until %s are free: free space, or lower disk.reserve",
			config.FormatBytes(free), d.dir, config.FormatBytes(uint64(diskEnough*float64(d.reserve))))
	}
	if err := d.server.WriteError(); err != nil {
		return fmt.Errorf("disk: %w", err)
	}
	return nil
}

// guardDisk runs the guard of the disk, if there is one, once NATS runs.
func (c *Collector) guardDisk(ctx context.Context) error {
	if c.disk == nil {
		return nil
	}
	select {
	case <-c.connected:
		c.disk.run(ctx)
	case <-ctx.Done():
	}
	return nil
}

// refuseEvents makes the event stream refuse or accept events.
func (c *Collector) refuseEvents(ctx context.Context, refuse bool) error {
	c.ensuring.Lock()
	defer c.ensuring.Unlock()
	return c.conn.Load().RefuseEvents(ctx, refuse)
}
