package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	pollEvery = 250 * time.Millisecond
	stallTime = time.Minute // a run ends if nothing was stored for so long
)

// A result is the measurement of one run.
type result struct {
	Workload  string             `json:"workload"`
	Side      string             `json:"side"`
	Rate      float64            `json:"rate,omitempty"` // calls per second, as wanted
	Calls     int                `json:"calls"`
	Failed    int                `json:"failed_calls"`
	Bytes     int64              `json:"bytes"`   // of bodies
	Seconds   float64            `json:"seconds"` // until all are stored
	Drain     float64            `json:"drain_seconds"`
	Behind    [2]float64         `json:"behind_seconds"` // median and 99th percentile
	Backlog   int                `json:"largest_backlog"`
	Kept      float64            `json:"kept,omitempty"` // share of the rate that the load could publish
	Sustained bool               `json:"sustained,omitempty"`
	Stored    int                `json:"stored"`
	Double    int                `json:"double"`
	CPU       map[string]float64 `json:"cpu"` // seconds
	Peak      int64              `json:"peak_rss"`
	Sets      map[string]int64   `json:"rss"`         // at the peak
	Other     float64            `json:"other_cores"` // used by other processes of the machine, and by the load
	Inserts   int                `json:"clickhouse_inserts"`
	Disk      int64              `json:"disk"`
	Queue     int64              `json:"queue"`
}

// published are the calls that were published so far.
type published struct {
	mu     sync.Mutex // guards the fields below
	at     []time.Time
	bytes  int64
	failed int
}

func (p *published) add(c *load.Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Now())
	p.bytes += int64(c.Size())
	if c.Status >= 400 {
		p.failed++
	}
}

// behind returns the number of calls, and how long ago the first one was published that follows the stored ones.
func (p *published) behind(stored int) (calls int, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stored >= 0 && stored < len(p.at) {
		d = time.Since(p.at[stored])
	}
	return len(p.at), d
}

// A subject is what is measured.
type subject struct {
	processes []process.Process
	store     *clickhouse.Sink
	queue     string // directory on disk; "" if it is unknown
	brief     bool   // do not wait for merges at the end
	// Queries that count the stored calls: fast, exact, and those that are stored twice.
	poll, stored, double string
}

// measure measures s while publish runs, and until all calls of sent are stored. sample is called with each count.
func (s *subject) measure(ctx context.Context, r *result, publish func(*published) error, sample func(waiting int)) error {
	var sent published
	inserts, disk, err := s.used(ctx)
	if err != nil {
		return err
	}
	queue := process.SizeOf(s.queue)
	stopWatch := process.Watch(s.processes)
	start := time.Now()
	publishing := make(chan error, 1)
	go func() { publishing <- publish(&sent) }()
	var behind []time.Duration
	var end time.Time // of publishing
	for changed := start; end.IsZero() || r.Stored < r.Calls && time.Since(changed) < stallTime; {
		select {
		case err := <-publishing:
			if err = errors.Join(err, ctx.Err()); err != nil {
				stopWatch()
				return err
			}
			end, changed = time.Now(), time.Now()
		case <-time.After(pollEvery):
		}
		if n, err := poll(ctx, s.store, s.poll); err == nil && n > r.Stored { // else ClickHouse stores nothing
			r.Stored, changed = n, time.Now()
		}
		var d time.Duration
		r.Calls, d = sent.behind(r.Stored)
		behind = append(behind, d)
		r.Backlog = max(r.Backlog, r.Calls-r.Stored)
		sample(r.Calls - r.Stored)
	}
	r.Seconds, r.Drain = time.Since(start).Seconds(), time.Since(end).Seconds()
	r.Bytes, r.Failed = sent.bytes, sent.failed
	slices.Sort(behind)
	r.Behind = [2]float64{behind[len(behind)/2].Seconds(), behind[len(behind)*99/100].Seconds()}
	if !s.brief {
		process.Idle(ctx, s.processes, time.Minute)
	}
	u := stopWatch()
	r.CPU, r.Peak, r.Sets, r.Other, r.Queue = u.CPU, u.Peak, u.Sets, u.Other, process.SizeOf(s.queue)-queue
	insertsAfter, diskAfter, err := s.used(ctx)
	if err != nil {
		return err
	}
	r.Inserts, r.Disk = insertsAfter-inserts, int64(diskAfter-disk)
	if r.Stored, err = count(ctx, s.store, s.stored); err != nil {
		return err
	}
	r.Double, err = count(ctx, s.store, s.double)
	return err
}

// used returns the number of inserts into ClickHouse so far, and the disk of its tables.
func (s *subject) used(ctx context.Context) (inserts, disk int, err error) {
	if inserts, err = count(ctx, s.store, "SELECT toInt64(sum(value)) FROM system.events WHERE event = 'InsertQuery'"); err != nil {
		return 0, 0, err
	}
	disk, err = count(ctx, s.store, "SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')")
	return inserts, disk, err
}

// poll is count, for a server that may be stopped.
func poll(ctx context.Context, store *clickhouse.Sink, sql string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return count(ctx, store, sql)
}

// count returns the only value of a query, of type Int64.
func count(ctx context.Context, store *clickhouse.Sink, sql string) (int, error) {
	res, err := store.Query(ctx, sql, nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", sql, err)
	}
	n, ok := res.Rows[0][0].(int64)
	if !ok {
		return 0, fmt.Errorf("%s: %v is no Int64", sql, res.Rows[0][0])
	}
	return int(n), nil
}
