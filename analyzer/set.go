package analyzer

import "hash/maphash"

// A Set holds strings of one request, for rules that must find one again in linear time. It keeps its memory between
// requests.
type Set struct {
	keys  [][]byte
	table []int32 // open addressing: 1 + place in keys; 0 is a free place
	seed  maphash.Seed
}

// Set returns an empty set with room for n keys. There is one for all rules: it is valid until the next call.
func (p *Pass) Set(n int) *Set {
	s := p.set
	size := 16
	for size < 2*n {
		size *= 2
	}
	if s.keys = s.keys[:0]; cap(s.table) < size {
		s.table = make([]int32, size)
		return s
	}
	s.table = s.table[:size]
	clear(s.table)
	return s
}

// Add adds key, which must stay as it is, and reports whether it is new. Of more keys than the set has room for, none is
// added, and each counts as new.
func (s *Set) Add(key []byte) bool {
	at := s.place(key)
	if s.table[at] != 0 {
		return false
	}
	if 2*len(s.keys) < len(s.table) {
		s.keys = append(s.keys, key)
		s.table[at] = int32(len(s.keys))
	}
	return true
}

// Has reports whether key was added.
func (s *Set) Has(key []byte) bool { return s.table[s.place(key)] != 0 }

// place is where the table holds key, or the free place where it would. The seed is random, so nobody can choose keys
// that share one place.
func (s *Set) place(key []byte) int {
	mask := len(s.table) - 1
	for at := int(maphash.Bytes(s.seed, key)) & mask; ; at = (at + 1) & mask {
		if i := s.table[at]; i == 0 || string(s.keys[i-1]) == string(key) {
			return at
		}
	}
}
