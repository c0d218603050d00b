package engine

import (
	"fmt"
	"maps"
	"math"

	"github.com/llmtap/llmtap/analyzer"
)

const (
	// partitionLag is the number of seconds that a partition may be behind the newest one. Evaluation continues without
	// partitions that are further behind.
	partitionLag = 60
	// maxSecond is the largest second of a tally, in 2106; the points of a series have 32 bits.
	maxSecond = math.MaxUint32 - 3600
	// maxPartitions is the number of shards in the wire contract.
	maxPartitions = 256
)

// A tally is a tally of the analyzer or, in a Health engine, a set of gauges.
type tally struct {
	*analyzer.Tally
	gauges []Gauge
}

// steps assigns the tallies of all partitions to steps. A step is the time of an evaluation. A step is complete when
// every live partition has passed it. All times are Unix seconds of stream time.
type steps struct {
	interval, retention int64 // in seconds

	partitions map[int]int64     // by partition, the first second that is not complete yet
	pending    map[int64][]tally // tallies by step
	first      int64             // first step evaluated
	next       int64             // step to evaluate next; 0 before the first tally
	busy       int64             // last step with counts
	received   map[int64]bool    // steps after next with tallies, including empty ones
	seen       int64             // last step, of those taken, with tallies
}

// outageAfter is the time without tallies, in seconds, after which the collector was down: even without calls there are
// tallies every second.
const outageAfter = 60

func newSteps(cfg Config) *steps {
	return &steps{
		interval: int64(cfg.EvaluationInterval.Seconds()), retention: int64(cfg.Retention.Seconds()),
		partitions: map[int]int64{}, pending: map[int64][]tally{}, received: map[int64]bool{},
	}
}

// add adds t to its step, or to the next one if its own step has been evaluated (late). A tally is stale, and ignored,
// if it is not newer than the last tally of its partition.
func (s *steps) add(t tally) (late, stale bool, err error) {
	if t.Partition < 0 || t.Partition >= maxPartitions || t.Second <= 0 || t.Second > maxSecond {
		return false, false, fmt.Errorf("add tally: partition %d, second %d is out of range", t.Partition, t.Second)
	}
	if t.Second < s.partitions[t.Partition] {
		return false, true, nil
	}
	s.partitions[t.Partition] = t.Second + 1
	step := (t.Second + s.interval) / s.interval * s.interval // first step after the tally's second
	if s.next == 0 {
		s.next, s.first, s.busy = step, step, step
	}
	s.received[max(step, s.next)] = true
	if len(t.Counts)+len(t.Examples)+len(t.RateLimits)+len(t.gauges) == 0 {
		return false, false, nil
	}
	at := max(step, s.next)
	s.pending[at] = append(s.pending[at], t)
	return at > step, false, nil
}

// take returns the next complete step and its tallies. After a long silence, it returns only the steps within the first
// retention and skips the rest, because every series has ended by then and nothing changes.
func (s *steps) take() (step int64, tallies []tally, ok bool) {
	until := s.complete() / s.interval * s.interval
	if s.next > until {
		return 0, nil, false
	}
	if s.next-s.busy > s.retention+s.interval {
		next := until
		for p := range s.pending {
			next = min(next, p)
		}
		s.next = max(s.next, next)
	}
	step, tallies = s.next, s.pending[s.next]
	delete(s.pending, step)
	if len(tallies) > 0 {
		s.busy = step
	}
	if s.received[step] {
		s.seen = step
		maps.DeleteFunc(s.received, func(at int64, _ bool) bool { return at <= step })
	}
	s.next += s.interval
	return step, tallies, true
}

// last returns the last step returned by take, or a value ≤ 0 before the first one.
func (s *steps) last() int64 { return s.next - s.interval }

// observed reports whether the collector was running in the minute before the last step.
func (s *steps) observed() bool { return s.last()-s.seen <= outageAfter }

// complete returns the first second that is not complete in all live partitions.
func (s *steps) complete() int64 {
	var newest int64
	for _, p := range s.partitions {
		newest = max(newest, p)
	}
	oldest := newest
	for _, p := range s.partitions {
		if p >= newest-partitionLag {
			oldest = min(oldest, p)
		}
	}
	return oldest
}
