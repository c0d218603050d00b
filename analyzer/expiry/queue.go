// Package expiry manages state that expires in stream time: a Queue of entries with the same timeout, and a
// Generations map whose entries expire in groups. Both track the oldest sequence of the stream that their entries
// depend on, because a restarted analyzer replays the stream from there.
package expiry

import (
	"iter"
	"math"
	"time"
)

// A Queue is a map whose entries expire a fixed time after they were added or renewed, so entries are ordered by
// deadline. The caller removes entries that are due.
type Queue[K comparable, V any] struct {
	timeout     time.Duration
	entries     map[K]*Entry[K, V]
	first, last *Entry[K, V]
}

// An Entry is a value in a Queue.
type Entry[K comparable, V any] struct {
	Key      K
	Value    V
	MinSeq   uint64 // oldest sequence that the value depends on
	Deadline time.Time

	before, after *Entry[K, V]
}

// NewQueue returns an empty queue whose entries expire after timeout.
func NewQueue[K comparable, V any](timeout time.Duration) *Queue[K, V] {
	return &Queue[K, V]{timeout: timeout, entries: make(map[K]*Entry[K, V])}
}

// Timeout returns the time after which entries expire.
func (q *Queue[K, V]) Timeout() time.Duration { return q.timeout }

// Len returns the number of entries.
func (q *Queue[K, V]) Len() int { return len(q.entries) }

// Add adds v under k, which must not be in the queue.
func (q *Queue[K, V]) Add(k K, v V, minSeq uint64, now time.Time) *Entry[K, V] {
	e := &Entry[K, V]{Key: k, Value: v, MinSeq: math.MaxUint64, Deadline: now.Add(q.timeout)}
	q.entries[k] = e
	q.push(e)
	e.Lower(minSeq)
	return e
}

// Lower makes e depend on minSeq, unless it already depends on an older sequence. The entries before e then depend on
// minSeq too, so that the first entry has the oldest sequence: replaying more than required does no harm.
func (e *Entry[K, V]) Lower(minSeq uint64) {
	for ; e != nil && e.MinSeq > minSeq; e = e.before {
		e.MinSeq = minSeq
	}
}

// Renew restarts the timeout of e.
func (q *Queue[K, V]) Renew(e *Entry[K, V], now time.Time) {
	e.Deadline = now.Add(q.timeout)
	q.unlink(e)
	q.push(e)
}

// Get returns the entry of k, or nil.
func (q *Queue[K, V]) Get(k K) *Entry[K, V] { return q.entries[k] }

// Take removes and returns the entry of k, or nil.
func (q *Queue[K, V]) Take(k K) *Entry[K, V] {
	e := q.entries[k]
	if e == nil {
		return nil
	}
	delete(q.entries, k)
	q.unlink(e)
	return e
}

// First returns the entry that is due first, or nil.
func (q *Queue[K, V]) First() *Entry[K, V] { return q.first }

// TakeFirst removes and returns the entry that is due first, or nil.
func (q *Queue[K, V]) TakeFirst() *Entry[K, V] {
	if q.first == nil {
		return nil
	}
	return q.Take(q.first.Key)
}

// Due returns the deadline of the first entry, or false if no entry is due by now.
func (q *Queue[K, V]) Due(now time.Time) (time.Time, bool) {
	if q.first == nil || q.first.Deadline.After(now) {
		return time.Time{}, false
	}
	return q.first.Deadline, true
}

// All yields the entries in the order of their deadlines.
func (q *Queue[K, V]) All() iter.Seq[*Entry[K, V]] {
	return func(yield func(*Entry[K, V]) bool) {
		for e := q.first; e != nil; e = e.after {
			if !yield(e) {
				return
			}
		}
	}
}

// MinSeq returns the oldest sequence that entries depend on, or 0 if the queue is empty. It is valid only if entries
// are not renewed.
func (q *Queue[K, V]) MinSeq() uint64 {
	if q.first == nil {
		return 0
	}
	return q.first.MinSeq
}

func (q *Queue[K, V]) push(e *Entry[K, V]) {
	if e.before = q.last; q.last == nil {
		q.first = e
	} else {
		q.last.after = e
	}
	q.last = e
}

func (q *Queue[K, V]) unlink(e *Entry[K, V]) {
	if e.before == nil {
		q.first = e.after
	} else {
		e.before.after = e.after
	}
	if e.after == nil {
		q.last = e.before
	} else {
		e.after.before = e.before
	}
	e.before, e.after = nil, nil
}

// Oldest returns the smallest nonzero sequence, or 0.
func Oldest(seqs ...uint64) uint64 {
	var o uint64
	for _, s := range seqs {
		if s > 0 && (o == 0 || s < o) {
			o = s
		}
	}
	return o
}
