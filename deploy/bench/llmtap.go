package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

// A result is the measurement of one run.
type result struct {
	Workload string             `json:"workload"`
	Side     string             `json:"side"`
	Calls    int                `json:"calls"`
	Bytes    int64              `json:"bytes"` // of bodies
	Seconds  float64            `json:"seconds"`
	Stored   int                `json:"stored"`
	CPU      map[string]float64 `json:"cpu"` // seconds
	Peak     int64              `json:"peak_rss"`
	Sets     map[string]int64   `json:"rss"` // at the peak
	Disk     int64              `json:"disk"`
	Queue    int64              `json:"queue"`
}

// measureLLMTap publishes a workload to a fresh llmtap.
func measureLLMTap(ctx context.Context, binary, dir string, w load.Workload, env []string) (r result, err error) {
	r = result{Workload: w.Name, Side: "llmtap"}
	up, err := process.StartLLMTap(ctx, binary, "llmtap", dir, env)
	if err != nil {
		return r, err
	}
	defer up.Stop()
	engine, err := process.In("engine", filepath.Join(dir, "clickhouse"))
	if err != nil {
		return r, err
	}
	cfg := jetstream.Default()
	cfg.URL = up.NATSURL
	conn, err := jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	all := []process.Process{up.Process, engine}
	stopWatch := process.Watch(all)
	start := time.Now()
	pub, seq := conn.NewPublisher(0), uint64(0)
	err = w.Calls(func(c *load.Call) bool {
		r.Calls++
		r.Bytes += int64(c.Size())
		for _, ev := range c.Events(&seq) {
			if err = pub.Publish(ctx, ev); err != nil {
				return false
			}
		}
		return true
	})
	if err = errors.Join(err, pub.Flush(ctx)); err != nil {
		return r, err
	}
	for r.Stored < r.Calls && time.Since(start) < maxRun {
		time.Sleep(250 * time.Millisecond)
		m, err := up.Metrics(ctx)
		if err != nil {
			return r, err
		}
		r.Stored = int(m.Sum("llmtap_sinks_clickhouse_rows_written_total", `table="exchanges"`))
	}
	r.Seconds = time.Since(start).Seconds()
	process.Idle(ctx, all, time.Minute)
	u := stopWatch()
	r.CPU, r.Peak, r.Sets = u.CPU, u.Peak, u.Sets
	r.Queue = process.SizeOf(filepath.Join(dir, "nats"))
	query := func(sql string) (int64, error) {
		out, err := exec.CommandContext(ctx, binary, "query", "--data-dir", dir, "--format", "csv", "--sql", sql).Output()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", sql, err)
		}
		lines := strings.Fields(string(out))
		return strconv.ParseInt(lines[len(lines)-1], 10, 64)
	}
	if r.Disk, err = query(diskSQL); err != nil {
		return r, err
	}
	stored, err := query("SELECT count() FROM exchanges_final")
	r.Stored = int(stored)
	return r, err
}

// diskSQL is what all tables of the database take.
const diskSQL = "SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')"

// maxRun ends a run that does not store everything.
const maxRun = 5 * time.Minute
