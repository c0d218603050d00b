// Package expiry manages state that expires in stream time: a List of elements with the same timeout, a Queue of entries
// with keys, and a Generations map whose entries expire in groups. All track the oldest sequence of the stream that their
// entries depend on, because a restarted analyzer replays the stream from there.
package expiry

import (
	"iter"
	"math"
	"time"
)

// A List contains elements that expire a fixed time after they were added or renewed, so they are ordered by deadline. The
// caller removes elements that are due.
type List[T any] struct {
	timeout     time.Duration
	first, last *Place[T]
}

// A Place is the place of an element in a List. It is a part of the element, so that a list allocates nothing.
type Place[T any] struct {
	MinSeq   uint64 // oldest sequence that the element depends on
	Deadline time.Time

	of            *T // nil if the element is in no list
	before, after *Place[T]
}

// NewList returns an empty list whose elements expire after timeout.
func NewList[T any](timeout time.Duration) List[T] { return List[T]{timeout: timeout} }

// Timeout returns the time after which elements expire.
func (l *List[T]) Timeout() time.Duration { return l.timeout }

// Add adds v, whose place in l is p. It must not be in l.
func (l *List[T]) Add(v *T, p *Place[T], minSeq uint64, now time.Time) {
	*p = Place[T]{of: v, MinSeq: math.MaxUint64, Deadline: now.Add(l.timeout)}
	l.push(p)
	p.Lower(minSeq)
}

// Lower makes the element of p depend on minSeq, unless it already depends on an older sequence. The elements before it then
// depend on minSeq too, so that the first one has the oldest sequence: replaying more than required does no harm.
func (p *Place[T]) Lower(minSeq uint64) {
	for ; p != nil && p.MinSeq > minSeq; p = p.before {
		p.MinSeq = minSeq
	}
}

// Renew restarts the timeout of the element of p.
func (l *List[T]) Renew(p *Place[T], now time.Time) {
	p.Deadline = now.Add(l.timeout)
	l.unlink(p)
	l.push(p)
}

// Remove removes the element of p, if it is in l.
func (l *List[T]) Remove(p *Place[T]) {
	if p.of != nil {
		l.unlink(p)
		p.of = nil
	}
}

// First returns the element that is due first, or nil.
func (l *List[T]) First() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}

// Due returns the deadline of the first element, or false if no element is due by now.
func (l *List[T]) Due(now time.Time) (time.Time, bool) {
	if l.first == nil || l.first.Deadline.After(now) {
		return time.Time{}, false
	}
	return l.first.Deadline, true
}

// All yields the elements in the order of their deadlines.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for p := l.first; p != nil; p = p.after {
			if !yield(p.of) {
				return
			}
		}
	}
}

// MinSeq returns the oldest sequence that elements depend on, or 0 if the list is empty. It is valid only if elements are
// not renewed.
func (l *List[T]) MinSeq() uint64 {
	if l.first == nil {
		return 0
	}
	return l.first.MinSeq
}

func (l *List[T]) push(p *Place[T]) {
	if p.before = l.last; l.last == nil {
		l.first = p
	} else {
		l.last.after = p
	}
	l.last = p
}

func (l *List[T]) unlink(p *Place[T]) {
	if p.before == nil {
		l.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		l.last = p.before
	} else {
		p.after.before = p.before
	}
	p.before, p.after = nil, nil
}

// A Queue is a List whose elements have keys.
type Queue[K comparable, V any] struct {
	List[Entry[K, V]]
	entries map[K]*Entry[K, V]
}

// An Entry is a value in a Queue.
type Entry[K comparable, V any] struct {
	Key   K
	Value V
	Place[Entry[K, V]]
}

// NewQueue returns an empty queue whose entries expire after timeout.
func NewQueue[K comparable, V any](timeout time.Duration) *Queue[K, V] {
	return &Queue[K, V]{NewList[Entry[K, V]](timeout), make(map[K]*Entry[K, V])}
}

// Len returns the number of entries.
func (q *Queue[K, V]) Len() int { return len(q.entries) }

// Add adds v under k, which must not be in the queue.
func (q *Queue[K, V]) Add(k K, v V, minSeq uint64, now time.Time) *Entry[K, V] {
	e := &Entry[K, V]{Key: k, Value: v}
	q.entries[k] = e
	q.List.Add(e, &e.Place, minSeq, now)
	return e
}

// Renew restarts the timeout of e.
func (q *Queue[K, V]) Renew(e *Entry[K, V], now time.Time) { q.List.Renew(&e.Place, now) }

// Get returns the entry of k, or nil.
func (q *Queue[K, V]) Get(k K) *Entry[K, V] { return q.entries[k] }

// Take removes and returns the entry of k, or nil.
func (q *Queue[K, V]) Take(k K) *Entry[K, V] {
	e := q.entries[k]
	if e == nil {
		return nil
	}
	delete(q.entries, k)
	q.Remove(&e.Place)
	return e
}

// TakeFirst removes and returns the entry that is due first, or nil.
func (q *Queue[K, V]) TakeFirst() *Entry[K, V] {
	e := q.First()
	if e == nil {
		return nil
	}
	return q.Take(e.Key)
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
