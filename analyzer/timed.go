package analyzer

import (
	"container/list"
	"iter"
	"time"
)

// timed holds what waits for the rest of it, each for the same time, so that the order of arrival is the order of the
// deadlines.
type timed[K comparable, V any] struct {
	wait  time.Duration
	byKey map[K]*list.Element
	order list.List // of *item[K, V]
}

type item[K comparable, V any] struct {
	key      K
	value    V
	need     uint64 // oldest sequence it was made from
	deadline time.Time
}

func newTimed[K comparable, V any](wait time.Duration) *timed[K, V] {
	return &timed[K, V]{wait: wait, byKey: make(map[K]*list.Element)}
}

func (t *timed[K, V]) len() int { return len(t.byKey) }

// add lets v wait. What waits already then needs no newer sequence than v, so that the first has the oldest: to read
// back further than needed is no harm.
func (t *timed[K, V]) add(k K, v V, need uint64, now time.Time) {
	for e := t.order.Back(); e != nil && e.Value.(*item[K, V]).need > need; e = e.Prev() {
		e.Value.(*item[K, V]).need = need
	}
	t.byKey[k] = t.order.PushBack(&item[K, V]{key: k, value: v, need: need, deadline: now.Add(t.wait)})
}

// renew lets it wait from now on.
func (t *timed[K, V]) renew(it *item[K, V], now time.Time) {
	it.deadline = now.Add(t.wait)
	t.order.MoveToBack(t.byKey[it.key])
}

// all yields what waits, the longest first.
func (t *timed[K, V]) all() iter.Seq[*item[K, V]] {
	return func(yield func(*item[K, V]) bool) {
		for e := t.order.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*item[K, V])) {
				return
			}
		}
	}
}

func (t *timed[K, V]) get(k K) *item[K, V] {
	e := t.byKey[k]
	if e == nil {
		return nil
	}
	return e.Value.(*item[K, V])
}

// take removes and returns what waits under k, or nil.
func (t *timed[K, V]) take(k K) *item[K, V] {
	e := t.byKey[k]
	if e == nil {
		return nil
	}
	delete(t.byKey, k)
	return t.order.Remove(e).(*item[K, V])
}

// first is what waits longest, or nil.
func (t *timed[K, V]) first() *item[K, V] {
	e := t.order.Front()
	if e == nil {
		return nil
	}
	return e.Value.(*item[K, V])
}

// due is the deadline of the first, and whether it is not after now.
func (t *timed[K, V]) due(now time.Time) (time.Time, bool) {
	f := t.first()
	if f == nil || f.deadline.After(now) {
		return time.Time{}, false
	}
	return f.deadline, true
}

// need is the oldest sequence that what waits was made from; 0 when nothing waits.
func (t *timed[K, V]) need() uint64 {
	if f := t.first(); f != nil {
		return f.need
	}
	return 0
}
