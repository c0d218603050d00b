package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/deploy/bench/load"
)

// compare measures workloads on llmtap and, in turns, on the collector.
func compare(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	var o options
	o.flags(flags)
	runs := flags.Int("runs", 3, "runs of each workload and side, in turns")
	only := flags.String("only", "", "workloads to run, separated by commas: 10KB, 100KB, 50turns, 200turns, fleet, replay")
	peer := flags.Bool("peer", true, "run the OpenTelemetry Collector too")
	alone := flags.Bool("alone", false, "the collector gets each call in a request of its own, as llmtap does from hooks, rather than requests of 500 KB")
	words := flags.String("words", wordsOwn, "which side has an index of the words of bodies: own, which is llmtap, both or none")
	mb := flags.Int("mb", 600, "megabytes of bodies in each run")
	file := flags.String("replay", "", "file of recorded exchanges for the workload replay, as llmtap import reads it")
	_ = flags.Parse(args) // exits
	if !slices.Contains([]string{wordsOwn, wordsBoth, wordsNone}, *words) {
		return fmt.Errorf("-words %s: use own, both or none", *words)
	}
	cache, err := o.build(ctx)
	if err != nil {
		return err
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
		{single(text, "10KB", 10_000, *mb*100), 10_000},
		{single(text, "100KB", 100_000, *mb*10), 100_000},
		{turns(text, "50turns", 50, max(8, *mb/7)), 150_000},
		{turns(text, "200turns", 200, max(8, *mb/110)), 600_000},
		{fleet("fleet", *mb*25), 40_000},
		{replay(*file, max(1, *mb/27)), 10_000},
	} {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), l.Name) || l.Name == "replay" && *file == "" {
			continue
		}
		side := func(results *[]*result, f func(dir string) (*result, error)) error {
			return o.inDir(func(dir string) error {
				r, err := f(dir)
				if err != nil {
					return fmt.Errorf("%s: %w", l.Name, err)
				}
				r.Workload = l.Name
				*results = append(*results, r)
				return o.record(r)
			})
		}
		var ours, theirs []*result
		for range *runs {
			if err := side(&ours, func(dir string) (*result, error) { return measureLLMTap(ctx, &o, dir, l.Workload, *words) }); err != nil {
				return err
			}
			if !*peer {
				continue
			}
			err := side(&theirs, func(dir string) (*result, error) {
				return measureCollector(ctx, collector, dir, l.Workload, min(5000, 50_000_000/l.mean), *alone, *words)
			})
			if err != nil {
				return err
			}
		}
		printResults(out, l.Name, ours, theirs)
	}
	return nil
}
