package expiry

import (
	"iter"
	"slices"
	"time"
)

// perTimeout is the number of generations that begin within the timeout.
const perTimeout = 4

// Generations is a map that retains entries for at least a timeout. Each entry belongs to a generation, which begins
// at a fixed stream time and expires as a whole. The content thus depends only on a part of the stream that a
// restarted analyzer replays.
type Generations[K comparable, V any] struct {
	length      int64 // seconds per generation
	limit       int   // maximum number of entries in all generations
	generations []generation[K, V]
	size        int
}

type generation[K comparable, V any] struct {
	number  int64
	minSeq  uint64 // oldest sequence that the entries depend on
	entries map[K]V
}

// NewGenerations returns an empty map of at most limit entries.
func NewGenerations[K comparable, V any](timeout time.Duration, limit int) *Generations[K, V] {
	return &Generations[K, V]{length: max(int64(timeout/time.Second)/perTimeout, 1), limit: limit}
}

// Put sets the value of k in the newest generation and returns the number of entries evicted to stay within the limit.
func (g *Generations[K, V]) Put(k K, v V, minSeq uint64, now time.Time) (forgotten int) {
	n := now.Unix() / g.length
	if last := len(g.generations) - 1; last < 0 || g.generations[last].number < n {
		g.generations = append(g.generations, generation[K, V]{n, minSeq, make(map[K]V)})
	}
	for g.size >= g.limit {
		forgotten += len(g.generations[0].entries)
		if g.forget(); len(g.generations) == 0 { // the newest generation alone was full
			g.generations = append(g.generations, generation[K, V]{n, minSeq, make(map[K]V)})
		}
	}
	c := &g.generations[len(g.generations)-1]
	c.minSeq = min(c.minSeq, minSeq)
	before := len(c.entries)
	c.entries[k] = v
	g.size += len(c.entries) - before
	return forgotten
}

// Get returns the newest value of k.
func (g *Generations[K, V]) Get(k K) (v V, ok bool) {
	if g.size == 0 {
		return v, false
	}
	for _, c := range slices.Backward(g.generations) {
		if v, ok = c.entries[k]; ok {
			return v, true
		}
	}
	return v, false
}

// Newest returns the value of k in the generation of now, or the zero value.
func (g *Generations[K, V]) Newest(k K, now time.Time) (v V) {
	if last := len(g.generations) - 1; last >= 0 && g.generations[last].number >= now.Unix()/g.length {
		v = g.generations[last].entries[k]
	}
	return v
}

// All yields the value of k in each generation that contains k.
func (g *Generations[K, V]) All(k K) iter.Seq[V] {
	return func(yield func(V) bool) {
		for i := range g.generations {
			if v, ok := g.generations[i].entries[k]; ok && !yield(v) {
				return
			}
		}
	}
}

// Len returns the number of entries in all generations.
func (g *Generations[K, V]) Len() int { return g.size }

// Expire drops the generations whose timeout has passed.
func (g *Generations[K, V]) Expire(now time.Time) {
	n := now.Unix() / g.length
	for len(g.generations) > 0 && g.generations[0].number < n-perTimeout {
		g.forget()
	}
}

// MinSeq returns the oldest sequence that entries depend on, or 0.
func (g *Generations[K, V]) MinSeq() uint64 {
	var seq uint64
	for i := range g.generations {
		seq = Oldest(seq, g.generations[i].minSeq)
	}
	return seq
}

func (g *Generations[K, V]) forget() {
	g.size -= len(g.generations[0].entries)
	g.generations[0] = generation[K, V]{}
	g.generations = g.generations[1:]
}
