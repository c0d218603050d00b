package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/ingest/jetstream"
)

// Shapes are the shapes of the fleet, the default first.
var Shapes = []string{load.Mix, load.Runs, load.Short}

// Options are the settings of a run.
type Options struct {
	Rate     float64       // calls per second; 0: find the highest that is sustained
	Duration time.Duration // of the measured phase
	Step     time.Duration // duration of a phase of the search
	Seed     uint64
	Shape    string
	Services int

	Analyzers  int           // processes that analyze; 0: one process of all roles, with embedded servers
	Partitions int           // 0: as many as Analyzers
	Overload   time.Duration // time of a phase at twice the rate
	Outage     time.Duration // time in which ClickHouse is stopped
	Sample     time.Duration // interval of samples; 0: none

	Binary string // llmtap
	Config string // configuration file of the measured llmtap; empty: none
	Dir    string // parent of the temporary data directory; empty: the system's

	Given *Given // servers to measure instead of own ones; nil: own ones

	Progress *terminal.Progress
}

// Given are servers with a running llmtap.
type Given struct {
	Connect func(context.Context) (*jetstream.Conn, error)
	Store   rows.Querier
}

// Validate returns an error for the first option that is out of range.
func (o *Options) Validate() error {
	switch {
	case o.Rate < 0:
		return fmt.Errorf("--rate: %g is negative", o.Rate)
	case o.Duration < time.Second:
		return fmt.Errorf("--duration: %v is below 1s", o.Duration)
	case o.Analyzers < 0 || o.Analyzers > jetstream.MaxPartitions:
		return fmt.Errorf("--analyzers: %d is not between 0 and %d", o.Analyzers, jetstream.MaxPartitions)
	case o.Partitions != 0 && (o.Partitions < o.Analyzers || o.Partitions > jetstream.MaxPartitions):
		return fmt.Errorf("--partitions: %d is not between --analyzers and %d", o.Partitions, jetstream.MaxPartitions)
	case o.Services < 1 || o.Services > 1000:
		return fmt.Errorf("--services: %d is not between 1 and 1000", o.Services)
	case o.Sample < 0 || o.Overload < 0 || o.Outage < 0:
		return fmt.Errorf("--sample, --overload and --outage must not be negative")
	case o.Given != nil && (o.Analyzers > 0 || o.Outage > 0):
		return fmt.Errorf("--analyzers and --outage need an llmtap of the benchmark's own; remove --nats-url, --clickhouse-dsn and --data-dir")
	}
	return nil
}

// A bench is a running benchmark.
type bench struct {
	*Options
	target   *target
	fleet    *fleet
	report   *Report
	canaries int // services that failed, of all phases
}

// Run measures and returns the report.
func Run(ctx context.Context, o *Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = terminal.NewProgress(io.Discard)
	}
	dir, err := os.MkdirTemp(o.Dir, "llmtap-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover directory does no harm
	b := &bench{Options: o, report: newReport(o)}
	if b.target, err = open(ctx, o, dir); err != nil {
		return nil, err
	}
	defer b.target.close()
	if b.fleet, err = newFleet(ctx, o, b.target); err != nil {
		return nil, err
	}
	defer b.fleet.close()
	if err := b.run(ctx); err != nil {
		return nil, err
	}
	return b.report, nil
}

// run runs the phases.
func (b *bench) run(ctx context.Context) error {
	rate := b.Rate
	if rate == 0 {
		var err error
		if rate, err = b.search(ctx); err != nil {
			return err
		}
	} else if _, err := b.phase(ctx, phase{name: "warm-up", rate: rate, duration: b.Step}); err != nil { // conversations begin short
		return err
	}
	rate, err := b.measure(ctx, rate)
	if err != nil {
		return err
	}
	if b.Overload > 0 {
		m, err := b.phase(ctx, phase{name: "overload", rate: 2 * rate, duration: b.Overload, then: rate / 2})
		if err != nil {
			return err
		}
		b.report.Overload = m
	}
	if b.Outage > 0 {
		m, err := b.phase(ctx, phase{name: "outage", rate: rate / 2, duration: b.Outage, then: rate / 2, outage: true})
		if err != nil {
			return err
		}
		b.report.Outage = m
	}
	b.report.finish()
	return nil
}
