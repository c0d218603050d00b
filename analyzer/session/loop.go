package session

import (
	"slices"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
)

const (
	// repeatsFrom is the number of times from which a turn is repeated.
	repeatsFrom = 3
	// maxPeriod is the largest number of turns after which a loop begins anew.
	maxPeriod = 3
	// waits is the time from which a call that does not fail waits for something, so that calling it again is polling.
	waits = 10 * time.Second
)

// loopBytes is the size of the steps of a branch. The calls in them may be forgotten otherwise, but are few.
const loopBytes = 96

// steps are the newest turns of a branch whose calls were answered, as far as they repeat.
type steps struct {
	newest [maxPeriod]step  // newest first
	same   [maxPeriod]int   // by period-1: number of turns in a row that are like the one a period before
	first  [maxPeriod]*Call // by period-1: with which call the loop began
}

// A step is a turn of a loop.
type step struct {
	hash uint64 // of its calls with their arguments and replies; 0 if there is none
	call *Call  // the first of its calls
}

// A Loop is a turn that an agent made before, with the same calls and the same replies, without a message of the user in between.
type Loop struct {
	Times  int   // how often the turn was made, with this one
	New    bool  // no other turn of the loop was made so often
	Period int   // number of turns after which they repeat
	Call   *Call // the first call of this turn
	First  *Call // the same call in the first of these turns
}

// Repeats compares the calls that the request of t answers with those of the turns before. It must be called once, after the
// caller has set the ReplyHash of Changed. It returns nil unless the turn was made at least repeatsFrom times.
//
// A message of the user, a reply that differs and a call that takes long without an error are progress. So are calls whose arguments or
// replies are not known exactly.
func (t *Turn) Repeats() *Loop {
	b := t.branch
	now, waited := step{}, false
	for _, c := range t.Changed {
		if c.replySeen != t.seq || c.AnsweredBy != t.exchange {
			continue
		}
		if c.ReplyHash == 0 || c.vague {
			waited = true
			break
		}
		now.hash += mix(mix(hashName(c.Name), c.raw), c.ReplyHash)
		waited = waited || c.ReplyError == "" && c.AnsweredAt.Sub(c.AskedAt) >= waits
		if now.call == nil || c.Position < now.call.Position {
			now.call = c
		}
	}
	switch {
	case now.call == nil && b.steps == nil:
		return nil
	case waited || t.instructed():
		if b.steps != nil {
			*b.steps = steps{}
		}
		return nil
	case now.call == nil:
		return nil
	case b.steps == nil:
		b.steps = new(steps)
	}
	n, period := b.steps.add(now)
	if n < repeatsFrom {
		return nil
	}
	return &Loop{Times: n, New: (b.steps.same[period-1]-1)%period == 0, Period: period, Call: now.call, First: b.steps.first[period-1]}
}

// add adds a step. It returns how often it was made in a row, and the number of steps of the loop.
func (s *steps) add(now step) (times, period int) {
	times = 1
	for i := range s.newest {
		if s.newest[i].hash != now.hash || now.hash == 0 {
			s.same[i] = 0
			continue
		}
		if s.same[i] == 0 {
			s.first[i] = s.newest[i].call
		}
		s.same[i]++
		if n := 1 + (s.same[i]+i)/(i+1); n > times {
			times, period = n, i+1
		}
	}
	copy(s.newest[1:], s.newest[:])
	s.newest[0] = now
	return times, period
}

// instructed reports whether the request contains a message of the user that the previous request does not.
func (t *Turn) instructed() bool {
	body := t.q.body()
	return slices.ContainsFunc(body[min(t.aligned.prefix, len(body)):], func(m message) bool { return m.external() })
}

// HasNumber reports whether JSON has a number, which a shape replaces by 0: equal shapes are then no equal values.
func HasNumber(b []byte) bool {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			if i = jsonscan.StringEnd(b, i+1); i < 0 {
				return true
			}
		case c >= '0' && c <= '9':
			return true
		}
	}
	return false
}
