package bench

import (
	"context"
	"fmt"
)

const (
	firstRate   = 100   // of the search, in calls per second
	highestRate = 1e6   // the search ends here
	precision   = 1.125 // ratio of the lowest rate that was not sustained to the highest that was, at which the search ends
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
