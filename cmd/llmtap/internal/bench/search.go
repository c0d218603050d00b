package bench

import (
	"context"
	"fmt"
)

const (
	firstRate   = 100   // of the search, in calls per second
	highestRate = 1e6   // the search ends here
	precision   = 1.125 // ratio of the lowest rate that was not sustained to the highest that was, at which the search ends
	maxRuns     = 8     // phases over the whole duration
)

// search returns the highest rate that a short phase sustains.
func (b *bench) search(ctx context.Context) (float64, error) {
	sustains := func(rate float64) (bool, error) {
		m, err := b.phase(ctx, phase{name: "search", rate: rate, duration: b.Step})
		if err != nil {
			return false, err
		}
		b.report.Search = append(b.report.Search, Step{Rate: rate, Sustained: m.Sustained, DrainSeconds: m.DrainSeconds})
		verdict := "sustained"
		if !m.Sustained {
			verdict = "not sustained"
		}
		b.Progress.Printf("%7.0f calls/s for %v: stored %.1f s after the last call, %s", rate, b.Step, m.DrainSeconds, verdict)
		return m.Sustained, nil
	}
	return highest(firstRate, highestRate, sustains)
}

// highest returns the highest rate for which sustains returns true: it doubles the rate from first, or halves it if first is
// too high, and then bisects.
func highest(first, limit float64, sustains func(rate float64) (bool, error)) (float64, error) {
	low, high := 0., 0. // sustained, not sustained
	for rate := float64(first); high == 0 || low == 0; {
		ok, err := sustains(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low, rate = rate, 2*rate
		} else {
			high, rate = rate, rate/2
		}
		switch {
		case low > limit/2:
			return low, nil
		case high > 0 && high <= 1:
			return 0, fmt.Errorf("not even %g calls per second are sustained", high)
		}
	}
	for high/low > precision {
		rate := (low + high) / 2
		ok, err := sustains(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			low = rate
		} else {
			high = rate
		}
	}
	return low, nil
}

// measure runs the phase over the whole duration and returns its rate. If the rate was searched, it may be too high for so
// long: then measure searches for the highest rate again, in phases of the whole duration, and starts with what llmtap stored.
func (b *bench) measure(ctx context.Context, rate float64) (float64, error) {
	low, high := 0., 0. // sustained, not sustained
	var samples []Sample
	defer func() { b.report.Samples = samples }()
	for range maxRuns {
		b.report.Samples = nil
		m, err := b.phase(ctx, phase{name: "run", rate: rate, duration: b.Duration, sample: b.Sample})
		if err != nil {
			return 0, err
		}
		if m.Sustained {
			low = rate
		} else {
			high = rate
		}
		if m.Sustained || low == 0 {
			b.report.Run, samples = *m, b.report.Samples
		}
		if b.Rate > 0 {
			return rate, nil
		}
		if low > 0 && high <= low*precision {
			b.report.Highest = low
			return low, nil
		}
		if low > 0 {
			rate = (low + high) / 2
		} else {
			rate = min(max(1.1*m.Throughput(), high/2), 0.9*high)
		}
		verdict := "sustained"
		if !m.Sustained {
			verdict = "not sustained"
		}
		b.Progress.Printf("%s for %v; trying %.0f calls/s", verdict, b.Duration, rate)
	}
	return b.report.Run.Rate, nil
}
