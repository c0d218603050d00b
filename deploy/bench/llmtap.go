package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

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
func measureLLMTap(ctx context.Context, binary, dir string, w workload, env []string) (r result, err error) {
	r = result{Workload: w.name, Side: "llmtap"}
	cmd, stop, err := run(ctx, filepath.Join(dir, "llmtap.log"), env, binary, "up", "--data-dir", dir, "--log-format", "json")
	if err != nil {
		return r, err
	}
	defer stop()
	nats, err := ready(ctx, dir)
	if err != nil {
		return r, fmt.Errorf("%w; see %s", err, filepath.Join(dir, "llmtap.log"))
	}
	child, err := childOf(cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	cfg := jetstream.Default()
	cfg.URL = nats
	conn, err := jetstream.Connect(ctx, cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	all := []process{{"llmtap", cmd.Process.Pid}, {"engine", child}}
	stopWatch := watch(all)
	start := time.Now()
	pub, seq := conn.NewPublisher(0), uint64(0)
	err = w.calls(func(c *call) bool {
		r.Calls++
		r.Bytes += int64(c.size())
		for _, ev := range c.events(&seq) {
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
		if r.Stored, err = written(ctx); err != nil {
			return r, err
		}
	}
	r.Seconds = time.Since(start).Seconds()
	idle(ctx, all, time.Minute)
	u := stopWatch()
	r.CPU, r.Peak, r.Sets = u.cpu, u.peak, u.sets
	r.Queue = sizeOf(filepath.Join(dir, "nats"))
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

// ready waits until llmtap is ready and returns the URL of its NATS server.
func ready(ctx context.Context, dir string) (nats string, err error) {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		res, err := get(ctx, "/readyz")
		if err != nil {
			continue
		}
		_ = res.Body.Close() // only its status is read
		if res.StatusCode != http.StatusOK {
			continue
		}
		var running struct {
			NATSURL string `json:"nats_url"`
		}
		file, err := os.ReadFile(filepath.Join(dir, "llmtap.json"))
		if err == nil {
			err = json.Unmarshal(file, &running)
		}
		return running.NATSURL, err
	}
	return "", errors.New("llmtap is not ready after two minutes")
}

// written returns the number of exchanges that llmtap has stored.
func written(ctx context.Context) (int, error) {
	res, err := get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // used for reading only
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), `llmtap_sinks_clickhouse_rows_written_total{table="exchanges"} `); ok {
			n, err := strconv.ParseFloat(v, 64)
			return int(n), err
		}
	}
	return 0, nil // none yet
}

func get(ctx context.Context, path string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8088"+path, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(q)
}
