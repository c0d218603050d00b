package check

import "hash/maphash"

// A Set contains strings of one request, so that rules can look them up in constant time. It reuses its memory between
// requests.
type Set struct {
	keys  [][]byte
	table []int32 // hash table (open addressing): 1 + index in keys; 0 is a free slot
	seed  maphash.Seed
}

// Set returns an empty set with room for n keys. All rules share one set, which is valid until the next call.
func (p *Pass) Set(n int) *Set {
	s := p.set
	size := tableSize(n)
	if s.keys = s.keys[:0]; cap(s.table) < size {
		s.table = make([]int32, size)
		return s
	}
	s.table = s.table[:size]
	clear(s.table)
	return s
}

// Add adds key, which must not be modified, and reports whether it is new. A full set does not add further keys, and
// reports each as new.
func (s *Set) Add(key []byte) bool {
	slot := s.slot(key)
	if s.table[slot] != 0 {
		return false
	}
	if 2*len(s.keys) < len(s.table) {
		s.keys = append(s.keys, key)
		s.table[slot] = int32(len(s.keys))
	}
	return true
}

// Has reports whether key was added.
func (s *Set) Has(key []byte) bool { return s.table[s.slot(key)] != 0 }

// slot returns the slot of key, or the free slot for it. The seed is random, so that clients cannot construct keys
// that collide.
func (s *Set) slot(key []byte) int {
	mask := len(s.table) - 1
	for slot := int(maphash.Bytes(s.seed, key)) & mask; ; slot = (slot + 1) & mask {
		if i := s.table[slot]; i == 0 || string(s.keys[i-1]) == string(key) {
			return slot
		}
	}
}
