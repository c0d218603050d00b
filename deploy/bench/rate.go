package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
)

const (
	firstRate   = 100   // of the search, in calls per second
	highestRate = 1e6   // the search ends here
	precision   = 1.125 // ratio of the lowest rate that was not sustained to the highest that was, at which the search ends
	leastKept   = 0.97  // the share of the calls that must be published in time
	lowerBy     = 0.9   // the factor by which a rate is lowered that is not sustained for long
	mostDrain   = 5 * time.Second

	// answerTime is the time between a request and its response. Recorded traffic has none; it determines only how many calls
	// are open at a time.
	answerTime = time.Second
)

// rateOptions are the flags of rate.
type rateOptions struct {
	options
	rate             float64
	long, step       time.Duration
	outage, sample   time.Duration
	analyzers        int
	natsURL, dsn     string
	seed             uint64
	shape            string
	services         int
	processes        int
	alerts           alerts
	environmentLabel string // of the calls
}

// rate measures a fleet whose calls come at a rate, and searches for the highest one.
func rate(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	var o rateOptions
	o.flags(flags)
	flags.Float64Var(&o.rate, "rate", 0, "calls per second; 0: find the highest rate that is sustained")
	flags.DurationVar(&o.long, "for", 30*time.Second, "duration of the measurement")
	flags.DurationVar(&o.step, "step", 10*time.Second, "duration of each step of the search, and of the warm-up of a given rate")
	flags.DurationVar(&o.outage, "outage", 0, "time for which ClickHouse is stopped when the measurement begins")
	flags.DurationVar(&o.sample, "sample", 0, "interval at which memory, open files and disk are printed; 0: never")
	flags.IntVar(&o.analyzers, "analyzers", 0, "analyzer processes, besides one for NATS, ClickHouse and alerts each; 0: one process of all roles")
	flags.StringVar(&o.natsURL, "nats-url", "", "NATS of a running llmtap, which is measured instead of an own one; it stores the calls")
	flags.StringVar(&o.dsn, "clickhouse-dsn", "", "its ClickHouse")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the fleet")
	flags.StringVar(&o.shape, "shape", load.Mix, "shape of the conversations: mix, runs or short")
	flags.IntVar(&o.services, "services", 20, "services of the fleet")
	flags.IntVar(&o.processes, "processes", 0, "processes with the Go hook that make the calls, each a share of the rate; 0: this process publishes them")
	_ = flags.Parse(args) // exits
	given := o.natsURL != "" || o.dsn != ""
	if given && (o.natsURL == "" || o.dsn == "" || o.analyzers > 0 || o.outage > 0) {
		return errors.New("-nats-url requires -clickhouse-dsn, and excludes -analyzers and -outage")
	}
	return o.inDir(func(dir string) error {
		var t target
		defer t.close()
		file, err := o.alerts.configure(dir)
		if err != nil {
			return err
		}
		defer o.alerts.server.Close()
		t.flags = []string{"--config", file}
		if given {
			err = t.dial(ctx, o.natsURL, o.dsn)
		} else if _, err = o.build(ctx); err == nil && o.analyzers > 0 {
			err = t.startProcesses(ctx, &o.options, dir, o.analyzers)
		} else if err == nil {
			err = t.startSingle(ctx, &o.options, dir)
		}
		if err != nil {
			return err
		}
		// The calls of a run have an environment of their own, because the ids of conversations repeat with the seed.
		o.environmentLabel = fmt.Sprintf("bench-%06x", rand.N(1<<24))
		f := load.NewFleet(load.FleetConfig{Seed: o.seed, Shape: o.shape, Services: o.services, Environment: o.environmentLabel})
		r, err := o.sustained(ctx, &t, f)
		if err != nil {
			return err
		}
		printResults(out, o.shape, []*result{r})
		fmt.Fprintln(out, r.verdict())
		if r.Stored != r.Calls || r.Double > 0 {
			return fmt.Errorf("%d calls are lost, %d stored twice", r.Calls-r.Stored, r.Double)
		}
		return nil
	})
}

// sustained returns the measurement of the given rate, or of the highest one that is sustained.
func (o *rateOptions) sustained(ctx context.Context, t *target, f *load.Fleet) (r *result, err error) {
	long := phase{rate: o.rate, duration: o.long, outage: o.outage, sample: o.sample}
	if o.rate > 0 {
		if _, err := o.measure(ctx, t, f, phase{rate: o.rate, duration: o.step}); err != nil { // conversations begin short
			return nil, err
		}
		return o.measure(ctx, t, f, long)
	}
	long.rate, err = highest(firstRate, highestRate, func(rate float64) (bool, error) {
		r, err := o.measure(ctx, t, f, phase{rate: rate, duration: o.step})
		return err == nil && r.Sustained, err
	})
	for ; err == nil; long.rate *= lowerBy {
		if r, err = o.measure(ctx, t, f, long); err == nil && (r.Sustained || long.rate < 1) {
			return r, nil
		}
	}
	return nil, err
}

// verdict says whether the rate was sustained.
func (r *result) verdict() string {
	switch {
	case r.Sustained:
		return fmt.Sprintf("Sustained: %.0f calls/s.", r.Rate)
	case r.Kept > leastKept:
		return fmt.Sprintf("Not sustained: storing the last of %.0f calls/s took %.0f s more, and at most %.0f s are allowed.", r.Rate, r.Drain, mostDrain.Seconds())
	}
	return fmt.Sprintf("Not sustained: the load, or NATS, kept up with %.0f%% of %.0f calls/s.", 100*r.Kept, r.Rate)
}

// A phase is a time in which the fleet publishes at one rate.
type phase struct {
	rate           float64 // calls per second
	duration       time.Duration
	outage, sample time.Duration
}

// measure publishes the calls of f in a phase.
func (o *rateOptions) measure(ctx context.Context, t *target, f *load.Fleet, p phase) (*result, error) {
	start := time.Now()
	// The sort key begins with the hour of the start.
	s := t.subject(fmt.Sprintf("WHERE environment = '%s' AND started_at >= toDateTime64('%s', 9, 'UTC')", o.environmentLabel, start.UTC().Format("2006-01-02 15:04:05.000000000")))
	s.brief = p.duration == o.step
	r := &result{Workload: o.shape, Side: fmt.Sprintf("%.0f calls/s", p.rate), Rate: p.rate}
	var hooks *agents
	var err error
	if o.processes > 0 {
		if hooks, err = o.startAgents(ctx, t, p); err != nil {
			return nil, err
		}
		defer hooks.stop()
		s.load = hooks.processes
	}
	next, probes := time.Now(), len(o.alerts.at)
	err = s.measure(ctx, r, func(sent *published) (err error) {
		if p.outage > 0 {
			if err := syscall.Kill(t.engine.PID, syscall.SIGSTOP); err != nil {
				return err
			}
			resume := time.AfterFunc(p.outage, func() { _ = syscall.Kill(t.engine.PID, syscall.SIGCONT) })
			defer func() {
				if resume.Stop() {
					_ = syscall.Kill(t.engine.PID, syscall.SIGCONT)
				}
			}()
		}
		probing := make(chan error, 1)
		if len(t.processes) == 0 { // the alerts of another llmtap go elsewhere
			probing <- nil
		} else {
			go func() { probing <- o.alerts.probe(ctx, t.conn.NewPublisher(0), o.environmentLabel, p.duration, sent) }()
		}
		if hooks != nil {
			r.Kept, err = hooks.wait(p, sent)
		} else {
			r.Kept, err = paced(ctx, t, f, p, sent)
		}
		return errors.Join(err, <-probing)
	}, func(waiting int) {
		if p.sample > 0 && !time.Now().Before(next) {
			t.printSample(time.Since(start), r.Calls, waiting)
			next = next.Add(p.sample)
		}
	})
	if err != nil {
		return nil, err
	}
	o.alerts.result(r, probes)
	r.Sustained = r.Kept > leastKept && r.Drain <= mostDrain.Seconds()
	return r, o.record(r)
}

// paced publishes the calls of f at the rate of p, then the responses of open calls. kept is the share of the wanted calls that
// were published in time: less than 1 if the load, or NATS, was too slow.
func paced(ctx context.Context, t *target, f *load.Fleet, p phase, sent *published) (kept float64, err error) {
	f.Agents(max(1, int(p.rate*answerTime.Seconds())))
	pub, n := t.conn.NewPublisher(0), 0
	start := time.Now()
	due := func() bool { // waits for the next call
		at := start.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
		n++
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(at)):
			return true
		}
	}
	for wanted := int(p.rate * p.duration.Seconds()); n < wanted && time.Since(start) < p.duration && due(); {
		call, events := f.Next()
		if err := sent.publish(ctx, pub, call, events); err != nil {
			return 0, err
		}
	}
	kept = float64(n) / max(1, p.rate*p.duration.Seconds())
	calls, events := f.Finish()
	for i := range calls {
		if !due() {
			break
		}
		if err := sent.publish(ctx, pub, calls[i], events[i:i+1]); err != nil {
			return 0, err
		}
	}
	return kept, errors.Join(pub.Flush(ctx), ctx.Err())
}

// printSample prints the resources of t.
func (t *target) printSample(d time.Duration, calls, waiting int) {
	var memory int64
	files := 0
	for _, p := range t.processes {
		memory += p.RSS()
		files += p.Files()
	}
	fmt.Fprintf(os.Stderr, "%8s %10d published %8d waiting %6d MB memory %5d files %7d MB queue\n", d.Round(time.Second), calls, waiting, memory/1e6, files, process.SizeOf(t.queue)/1e6)
}

// highest returns the highest rate for which sustains returns true: it doubles the rate from first, or halves it if first is
// too high, and then bisects.
func highest(first, limit float64, sustains func(rate float64) (bool, error)) (float64, error) {
	low, high := 0., 0. // sustained, not sustained
	for rate := first; high == 0 || high/low > precision; {
		ok, err := sustains(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
		switch {
		case low > limit/2:
			return low, nil
		case low == 0 && high <= 1:
			return 0, fmt.Errorf("not even %g calls per second are sustained", high)
		case high == 0:
			rate = 2 * low
		case low == 0:
			rate = high / 2
		default:
			rate = (low + high) / 2
		}
	}
	return low, nil
}
