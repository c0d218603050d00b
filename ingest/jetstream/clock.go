package jetstream

import "time"

// A Clock turns timestamps of the stream into stream time, which goes on when the clock of the server is set back. Otherwise seconds
// that were already tallied would come again, and there would be no tallies, and no alerts, until the clock has caught up. The zero
// value is the clock of a stream that is read from its start.
//
//	timestamps   12:00:01  12:00:02  11:00:02  11:00:03      13:00:00
//	shift                                +1 h      +1 h             0
//	stream time  12:00:01  12:00:02  12:00:02  12:00:03      13:00:00
type Clock struct {
	last  time.Time // stream time of the last message; zero before the first
	shift time.Duration
}

// clockTolerance is how far timestamps may go back without a shift: the leaders of a cluster have different clocks.
const clockTolerance = 10 * time.Second

// At returns the stream time of the next message, and whether the clock of the server was set back.
func (c *Clock) At(timestamp time.Time) (now time.Time, setBack bool) {
	if c.shift > 0 && !timestamp.Before(c.last.Add(-clockTolerance)) {
		c.shift = 0
	}
	now = timestamp.Add(c.shift)
	if setBack = now.Before(c.last.Add(-clockTolerance)); setBack {
		c.shift += c.last.Sub(now)
		now = c.last
	}
	if now.After(c.last) {
		c.last = now
	}
	return now, setBack
}

// streamTime returns the stream time of the next message, and the shift of its timestamp.
func (r *Reader) streamTime(timestamp time.Time) (time.Time, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, setBack := r.clock.At(timestamp)
	if setBack {
		r.c.log.Error("the clock of the NATS server was set back; times of calls and alerts are ahead of it until it has caught up", "by", r.clock.shift.Round(time.Second))
	}
	return now, r.clock.shift
}
