package jetstream

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	c := Clock{last: start}
	f := func(timestamp, want time.Duration, wantSetBack bool) {
		t.Helper()
		if now, setBack := c.At(start.Add(timestamp)); now.Sub(start) != want || setBack != wantSetBack {
			t.Errorf("at %v: %v, set back %v", timestamp, now.Sub(start), setBack)
		}
	}
	f(2*time.Second, 2*time.Second, false)
	f(-5*time.Second, -5*time.Second, false) // another leader
	f(3*time.Second, 3*time.Second, false)
	f(-time.Hour, 3*time.Second, true)
	f(-time.Hour+time.Second, 4*time.Second, false)
	f(-3*time.Hour, 4*time.Second, true)
	f(-3*time.Hour+time.Minute, 64*time.Second, false)
	f(time.Minute, time.Minute, false) // the clock is right again
	f(5*time.Hour, 5*time.Hour, false)
	f(5*time.Hour+time.Second, 5*time.Hour+time.Second, false)
}
