/*
Package gate decides whether a new version of a service may be rolled out further: it must not fail more often than the version
before, take longer, need more tokens, or miss the prompt cache.

	ClickHouse ─reader, every few seconds─> regression.Compare ─┬─ worse ──────────────────────> exit 1, at once
	                                                            └─ the time is over ─┬─ enough ─> exit 0
	                                                                                 └─ too few ─> exit 2

A gate that cannot read the stored calls has no verdict: it retries until the time is over, and then fails with another exit
code, so that an unreachable collector looks neither good nor worse.
*/
package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/llmtap/llmtap/alerts/regression"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/rows"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/terminal"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Exit codes. They differ from those of other commands, because 2 is a verdict.
const (
	ExitGood      = 0
	ExitWorse     = 1
	ExitTooFew    = 2
	ExitNoVerdict = 3
)

// Verdicts.
const (
	Good   = "good"
	Worse  = "worse"
	TooFew = "too_few_calls"
)

const (
	interval  = 2 * time.Second  // minimum time between looks
	lineEvery = 30 * time.Second // minimum time between progress lines that are not on a terminal
)

// Options are the parameters of a gate.
type Options struct {
	Service, Version, Baseline string // Baseline "": the other version with the most calls
	Stage, Environment         string // "": all
	For                        time.Duration
	MinCalls                   uint64
	Alpha                      float64
	Once                       bool   // look once instead of waiting
	Format                     string // command.Text or command.JSON
	Style                      *terminal.Style
	Stdout, Stderr             io.Writer
	Pages                      func() string // base URL of the web pages, or ""
}

// Validate returns the first error in o.
func (o *Options) Validate() error {
	switch {
	case o.Service == "" || o.Version == "":
		return errors.New("--service and --version are required")
	case o.Baseline == o.Version:
		return errors.New("--baseline and --version are the same version")
	case o.For < regression.Tick*time.Second:
		return fmt.Errorf("--for must be at least %d seconds", regression.Tick)
	case o.Alpha <= 0 || o.Alpha >= 0.5:
		return errors.New("--alpha must be above 0 and below 0.5")
	case o.MinCalls < 1:
		return errors.New("--min-calls must be at least 1")
	}
	return nil
}

// A gate is the state of Run.
type gate struct {
	*Options
	reader
	progress *terminal.Progress
	line     time.Time // of the next progress line
	since    time.Time // no earlier calls of the new version are compared
	rollout  rollout
}

// Run waits for the verdict and writes it. The error has its exit code.
func Run(ctx context.Context, q rows.Querier, o *Options) error {
	g := &gate{Options: o, reader: reader{q, o}, progress: terminal.NewProgress(o.Stderr)}
	r, err := g.verdict(ctx)
	g.progress.Clear()
	if err != nil {
		return err
	}
	if o.Format == command.JSON {
		err = command.WriteJSON(o.Stdout, r)
	} else {
		err = r.write(o.Stdout, o.Style)
	}
	switch {
	case err != nil:
		return err
	case r.Verdict == Worse:
		return &command.ExitError{Code: ExitWorse}
	case r.Verdict == TooFew:
		return &command.ExitError{Code: ExitTooFew}
	}
	return nil
}

// verdict looks until the new version is worse or the time is over.
func (g *gate) verdict(ctx context.Context) (*Report, error) {
	now, err := g.now(ctx)
	if err != nil {
		return nil, err
	}
	// A gate that starts after the rollout began, or that looks once, also compares the calls of the last minutes.
	g.since = now.Add(-g.For)
	for deadline := time.Now().Add(g.For); ; {
		began := time.Now()
		last := g.Once || !began.Before(deadline)
		r, err := g.look(ctx, last)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && (last || r.Worse):
			return g.report(ctx, r)
		case last:
			return nil, err
		case err != nil:
			g.show("no look: %v; retrying", err)
		default:
			g.show("%s", g.status(r))
		}
		// Long queries are rare, so that a gate does not load ClickHouse all the time.
		wait := max(interval, 4*time.Since(began))
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(wait, max(0, time.Until(deadline)))):
		}
	}
}

// look compares the calls stored so far.
func (g *gate) look(ctx context.Context, last bool) (r regression.Result, err error) {
	now, err := g.now(ctx)
	if err != nil {
		return r, err
	}
	if g.rollout.start.IsZero() {
		if g.rollout, err = g.reader.rollout(ctx, g.since); err != nil || g.rollout.start.IsZero() {
			return r, err
		}
	}
	cells, err := g.cells(ctx, g.rollout)
	if err != nil {
		return r, err
	}
	end := now.Add(-settle)
	if last { // no later look compares these calls again
		end = now.Add(regression.Tick * time.Second)
	}
	return regression.Compare(cells, g.rollout.start, end, g.Alpha, last, measureNames()...), nil
}

// show shows the progress: on a terminal as a status line, in a log as a line from time to time.
func (g *gate) show(format string, args ...any) {
	if now := time.Now(); !terminal.IsTerminal(g.Stderr) && now.After(g.line) {
		g.line = now.Add(lineEvery)
		g.progress.Printf(format, args...)
	}
	g.progress.Status(format, args...)
}

func (g *gate) status(r regression.Result) string {
	if g.rollout.start.IsZero() {
		return fmt.Sprintf("waiting for the first call of %s %s", g.Service, g.Version)
	}
	n := compared(r)
	return fmt.Sprintf("%s compared, at least %d wanted; evidence against %s: %s, stops at %s",
		quantity.Plural(n, "call"), g.MinCalls, g.Version, round(r.Evidence), round(1/g.Alpha))
}

// compared returns the number of compared calls of the new version.
func compared(r regression.Result) (n uint64) {
	for _, g := range r.Groups {
		if g.Measure == "" {
			n += g.New.Calls
		}
	}
	return n
}
