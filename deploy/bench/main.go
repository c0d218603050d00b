package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/sinks/chdb"
)

var (
	runs   = flag.Int("runs", 3, "runs of each workload and side, in turns")
	only   = flag.String("only", "", "workloads to run, separated by commas: 10KB, 100KB, 50turns, 200turns, fleet, replay")
	peer   = flag.Bool("peer", true, "run the OpenTelemetry Collector too")
	size   = flag.Int("mb", 600, "megabytes of bodies in each run")
	file   = flag.String("replay", "", "file of recorded exchanges for the workload replay, as llmtap import reads it")
	output = flag.String("json", "", "file to which each result is appended as a line of JSON")
	binary = flag.String("llmtap", "", "llmtap binary; empty: build it")
	env    = flag.String("env", "", "environment of llmtap, such as GOGC=400,LLMTAP_BATCHER_MAX_ROWS=100000")
	keep   = flag.Bool("keep", false, "keep the data directory of the last run")
)

func main() {
	chdb.RunChild()
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	cache = filepath.Join(cache, "llmtap", "bench")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	if *binary == "" {
		*binary = filepath.Join(cache, "llmtap")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", *binary, "./cmd/llmtap").CombinedOutput(); err != nil {
			return fmt.Errorf("build llmtap: %w\n%s", err, out)
		}
	}
	collector := ""
	if *peer {
		if collector, err = buildCollector(ctx, cache); err != nil {
			return err
		}
	}
	text, err := readCorpus(ctx)
	if err != nil {
		return err
	}
	for _, l := range []struct {
		load.Workload
		mean int // bytes of a call
	}{
		{single(text, "10KB", 10_000, *size*100), 10_000},
		{single(text, "100KB", 100_000, *size*10), 100_000},
		{turns(text, "50turns", 50, max(8, *size/7)), 150_000},
		{turns(text, "200turns", 200, max(8, *size/110)), 600_000},
		{fleet("fleet", *size*25), 40_000},
		{replay(*file, max(1, *size/27)), 10_000},
	} {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), l.Name) || l.Name == "replay" && *file == "" {
			continue
		}
		var results []result
		for range *runs {
			r, err := inDir(func(dir string) (result, error) {
				return measureLLMTap(ctx, *binary, dir, l.Workload, strings.FieldsFunc(*env, func(c rune) bool { return c == ',' }))
			})
			if err != nil {
				return err
			}
			results = append(results, r)
			if *peer {
				if r, err = inDir(func(dir string) (result, error) {
					return measureCollector(ctx, collector, dir, l.Workload, min(5000, 50_000_000/l.mean))
				}); err != nil {
					return err
				}
				results = append(results, r)
			}
		}
		printTable(results)
	}
	return nil
}

// inDir runs f with a new directory and records its result.
func inDir(f func(dir string) (result, error)) (result, error) {
	dir, err := os.MkdirTemp("", "llmtap-bench-")
	if err != nil {
		return result{}, err
	}
	if !*keep {
		defer func() { _ = os.RemoveAll(dir) }() // a leftover directory does no harm
	}
	r, err := f(dir)
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", r.Workload, r.Side, err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	fmt.Fprintf(os.Stderr, "%s\n", line)
	if *output == "" {
		return r, nil
	}
	out, err := os.OpenFile(*output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return r, err
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return r, err
	}
	return r, out.Close()
}
