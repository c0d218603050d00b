package httpbody

import "sync/atomic"

// A Budget bounds the memory of all requests in flight. It is safe for concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take takes n bytes. It returns false, and takes nothing, if fewer are left.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// Release returns n bytes.
func (b *Budget) Release(n int64) { b.used.Add(-n) }

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }
