package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmtap/llmtap/alerts"
)

const groupKeyPrefix = "group." // prefix of the keys of stored groups

// GroupKeys returns the keys under which engines store their groups, as patterns of NATS, for these prefixes of the engines' Stores.
func GroupKeys(prefixes ...string) []string {
	var out []string
	for _, p := range prefixes {
		out = append(out, p+stateKey, p+groupKeyPrefix+"*")
	}
	return out
}

// SharedGroups are the open groups of an installation, whichever process evaluates the rules. A watch of the stored state keeps
// them current: news within a second, numbers within stateInterval. They are safe for concurrent use.
type SharedGroups struct {
	prefixes []string

	mu        sync.Mutex // guards the rest
	states    map[string]savedState
	groups    map[string]savedGroup
	listeners listeners
	loaded    bool
}

// NewSharedGroups returns the groups of engines whose Stores have these prefixes; "" is one without a prefix.
func NewSharedGroups(prefixes ...string) *SharedGroups {
	return &SharedGroups{prefixes: prefixes, states: map[string]savedState{}, groups: map[string]savedGroup{}, listeners: listeners{}}
}

// Replace replaces all state by the stored values of GroupKeys. The error reports unreadable values, which are ignored.
func (s *SharedGroups) Replace(values map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.states)
	clear(s.groups)
	var failed error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := s.decode(key, values[key]); err != nil {
			failed = err
		}
	}
	s.loaded = true
	s.listeners.raise()
	return failed
}

// Put stores the new value of a key, or removes it if the value is nil.
func (s *SharedGroups) Put(key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.listeners.raise()
	if value == nil {
		delete(s.groups, key)
		delete(s.states, key)
		return nil
	}
	return s.decode(key, value)
}

func (s *SharedGroups) decode(key string, value []byte) (err error) {
	if strings.HasSuffix(key, stateKey) {
		var state savedState
		if err = json.Unmarshal(value, &state); err == nil {
			s.states[key] = state
		}
	} else {
		var g savedGroup
		if err = json.Unmarshal(value, &g); err == nil {
			s.groups[key] = g
		}
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", key, err)
	}
	return nil
}

// Groups returns the open groups. ok is false before the state was first read. evaluated is the time of the last evaluation of the
// first engine; zero if there was none.
func (s *SharedGroups) Groups() (list []alerts.Group, evaluated time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.prefixes {
		state := s.states[p+stateKey]
		if i == 0 && state.LastStep > 0 {
			evaluated = time.Unix(state.LastStep, 0).UTC()
		}
		for _, key := range state.Groups {
			if g, found := s.groups[p+groupStoreKey(key)]; found {
				list = append(list, g.Group)
			}
		}
	}
	return list, evaluated, s.loaded
}

// Listen returns a channel that receives a value after changes, and a function that ends this.
func (s *SharedGroups) Listen() (changes <-chan struct{}, stop func()) {
	return s.listeners.add(&s.mu)
}
