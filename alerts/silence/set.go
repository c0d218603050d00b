package silence

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxSilences bounds the silences of a Set, including pending and expired ones.
const MaxSilences = 1000

// A Set contains the silences of an installation in memory. Every process has its own, which a watch of the stored
// silences keeps current. It is safe for concurrent use.
type Set struct {
	mu       sync.RWMutex        // guards the rest
	version  uint64              // incremented by every change
	silences map[string]*Silence // by id; values are never modified
}

// NewSet returns an empty Set.
func NewSet() *Set { return &Set{silences: map[string]*Silence{}} }

// Replace replaces all silences. Of more than MaxSilences, those that end last are kept.
func (s *Set) Replace(list []Silence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	clear(s.silences)
	for i := range list {
		s.put(list[i])
	}
}

// Put adds or replaces a silence. Beyond MaxSilences, the one that ends first is removed: usually it has expired, and another
// process has already deleted it to make room.
func (s *Set) Put(x Silence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(x)
}

func (s *Set) put(x Silence) {
	s.version++
	s.silences[x.ID] = &x
	if len(s.silences) > MaxSilences {
		first := &x
		for y := range maps.Values(s.silences) {
			if y.EndsAt.Before(first.EndsAt) {
				first = y
			}
		}
		delete(s.silences, first.ID)
	}
}

// Delete removes a silence.
func (s *Set) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	delete(s.silences, id)
}

// Version returns a number that every change increments.
func (s *Set) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// Get returns the silence with an id.
func (s *Set) Get(id string) (Silence, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x, ok := s.silences[id]
	if !ok {
		return Silence{}, false
	}
	return *x, true
}

// All returns all silences, sorted by start, then by id.
func (s *Set) All() []Silence {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []Silence
	for x := range maps.Values(s.silences) {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(a, b Silence) int {
		if c := a.StartsAt.Compare(b.StartsAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// Find returns the active silence that matches an alert; of several, the one that ends last. It returns nil if there is
// none. The result must not be modified.
func (s *Set) Find(at time.Time, alertname string, labels map[string]string) *Silence {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var best *Silence
	for _, x := range s.silences {
		if !x.Active(at) || !x.Matches(alertname, labels) {
			continue
		}
		if best == nil || x.EndsAt.After(best.EndsAt) || x.EndsAt.Equal(best.EndsAt) && x.ID < best.ID {
			best = x
		}
	}
	return best
}

// Next returns the time of the next start or end of a silence after at, or the zero time.
func (s *Set) Next(at time.Time) time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var next time.Time
	for _, x := range s.silences {
		for _, t := range []time.Time{x.StartsAt, x.EndsAt} {
			if t.After(at) && (next.IsZero() || t.Before(next)) {
				next = t
			}
		}
	}
	return next
}
