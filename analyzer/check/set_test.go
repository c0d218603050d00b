package check

import (
	"hash/maphash"
	"strconv"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestSet(t *testing.T) {
	p := &Pass{set: &Set{seed: maphash.MakeSeed()}}
	for _, n := range []int{0, 3, 8, 9, 1000, 5} {
		s := p.Set(n)
		for i := range n {
			key := []byte(strconv.Itoa(i))
			if s.Has(key) || !s.Add(key) || s.Add(key) || !s.Has(key) {
				t.Errorf("set of %d: key %d is not added once", n, i)
			}
		}
		if s.Has([]byte("x")) || s.Has(nil) {
			t.Errorf("set of %d contains a key that was not added", n)
		}
	}

	// More keys than requested: no endless search, and no allocation.
	s := p.Set(0)
	for i := range 100 {
		s.Add([]byte(strconv.Itoa(i)))
	}
	if len(s.keys) != 8 || !s.Has([]byte("7")) || s.Has([]byte("8")) || !s.Add([]byte("8")) {
		t.Errorf("a full set has %d keys", len(s.keys))
	}

	key := []byte("call_1")
	p.Set(64)
	must.Equal(t, testing.AllocsPerRun(10, func() { p.Set(64).Add(key) }), 0, "allocations")
}
