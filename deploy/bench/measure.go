package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/sinks/clickhouse"
)

const (
	pollEvery = 250 * time.Millisecond
	stallTime = time.Minute      // a run ends if nothing was stored for so long
	rampTime  = 5 * time.Second  // after which the steady part of a run begins
	leastTime = 10 * time.Second // of a steady part
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
	Steady    steady             `json:"steady"`
	Alert     [2]float64         `json:"alert_seconds"`            // median and 99th percentile from a call to the alert that it causes
	Alerts    [2]int             `json:"alerts"`                   // that were expected, and that came
	Search    float64            `json:"search_seconds,omitempty"` // for a word in all bodies, the fastest of three
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

// steady is the part of a run from rampTime on until the last call is published.
type steady struct {
	Seconds float64 `json:"seconds"`
	Calls   int     `json:"calls"`    // that were stored
	CPU     float64 `json:"cpu"`      // seconds
	LoadCPU float64 `json:"load_cpu"` // of the processes that make the calls
}

// since returns what was stored and used from the time of s on, both counted from the start of the run.
func (s steady) since(ramp steady) steady {
	return steady{s.Seconds - ramp.Seconds, s.Calls - ramp.Calls, s.CPU - ramp.CPU, s.LoadCPU - ramp.LoadCPU}
}

// published are the calls that were published so far.
type published struct {
	mu     sync.Mutex // guards the fields below
	at     []time.Time
	bytes  int64
	failed int
}

func (p *published) add(c *load.Call) { p.addSize(c.Size(), c.Status >= 400) }

func (p *published) addSize(bytes int, failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Now())
	p.bytes += int64(bytes)
	if failed {
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
	load      []process.Process // that make the calls; none: this one
	store     *clickhouse.Sink
	sqlite    []string // instead of store: Python, and the file of the database
	queue     string   // directory on disk; "" if it is unknown
	brief     bool     // do not wait for merges at the end
	// Queries that count the stored calls: fast, exact, and those that are stored twice.
	poll, stored, double string
	search               string // query that counts the bodies with a word; "": none
}

// measure measures s while publish runs, and until all calls of sent are stored. sample is called with each count.
func (s *subject) measure(ctx context.Context, r *result, publish func(*published) error, sample func(waiting int)) error {
	var sent published
	inserts, disk, err := s.inserted(ctx)
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
	var ramp steady
	every := pollEvery
	if s.sqlite != nil {
		every *= 8 // each needs a process
	}
	if s.load == nil {
		s.load = []process.Process{{PID: os.Getpid()}}
	}
	for changed := start; end.IsZero() || r.Stored < r.Calls && time.Since(changed) < stallTime; {
		select {
		case err := <-publishing:
			if err = errors.Join(err, ctx.Err()); err != nil {
				stopWatch()
				return err
			}
			end, changed = time.Now(), time.Now()
		case <-time.After(every):
		}
		if n, err := s.pollStored(ctx); err == nil && n > r.Stored { // else ClickHouse stores nothing
			r.Stored, changed = n, time.Now()
		}
		var d time.Duration
		r.Calls, d = sent.behind(r.Stored)
		behind = append(behind, d)
		r.Backlog = max(r.Backlog, r.Calls-r.Stored)
		if now := (steady{time.Since(start).Seconds(), r.Stored, used(s.processes), used(s.load)}); ramp.Seconds == 0 && now.Seconds >= rampTime.Seconds() {
			ramp = now
		} else if r.Steady.Seconds == 0 && !end.IsZero() && ramp.Seconds > 0 && now.Seconds-ramp.Seconds >= leastTime.Seconds() {
			r.Steady = now.since(ramp)
		}
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
	insertsAfter, diskAfter, err := s.inserted(ctx)
	if err != nil {
		return err
	}
	r.Inserts, r.Disk = insertsAfter-inserts, int64(diskAfter-disk)
	if r.Stored, err = s.count(ctx, s.stored); err != nil {
		return err
	}
	for i := 0; i < 3 && s.search != ""; i++ {
		begun := time.Now()
		if _, err := s.count(ctx, s.search); err != nil {
			return err
		}
		if d := time.Since(begun).Seconds(); i == 0 || d < r.Search {
			r.Search = d
		}
	}
	r.Double, err = s.count(ctx, s.double)
	return err
}

// inserted returns the number of inserts into ClickHouse so far, and the disk of its tables.
func (s *subject) inserted(ctx context.Context) (inserts, disk int, err error) {
	if s.sqlite != nil {
		return 0, int(process.SizeOf(filepath.Dir(s.sqlite[1]))), nil
	}
	if inserts, err = s.count(ctx, "SELECT toInt64(sum(value)) FROM system.events WHERE event = 'InsertQuery'"); err != nil {
		return 0, 0, err
	}
	disk, err = s.count(ctx, "SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')")
	return inserts, disk, err
}

// used returns the CPU time of processes, in seconds.
func used(all []process.Process) (n float64) {
	for _, p := range all {
		n += p.CPU()
	}
	return n
}

// pollStored counts the stored calls in a server that may be stopped.
func (s *subject) pollStored(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return s.count(ctx, s.poll)
}

// count returns the only value of a query, of type Int64.
func (s *subject) count(ctx context.Context, sql string) (int, error) {
	if s.sqlite != nil {
		const script = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])"
		out, err := exec.CommandContext(ctx, s.sqlite[0], "-c", script, s.sqlite[1], sql).Output()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", sql, err)
		}
		return strconv.Atoi(strings.TrimSpace(string(out)))
	}
	res, err := s.store.Query(ctx, sql, nil)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", sql, err)
	}
	n, ok := res.Rows[0][0].(int64)
	if !ok {
		return 0, fmt.Errorf("%s: %v is no Int64", sql, res.Rows[0][0])
	}
	return int(n), nil
}
