// Package alertstest contains helpers shared by the tests of the engine and of the notifiers.
package alertstest

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden compares got with a file in testdata.
func Golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	must.Agree(t, cmp.Diff(string(want), got), file, "(-update writes it)")
}

// Store is an in-memory alerts.Store.
type Store struct {
	mu     sync.Mutex
	values map[string][]byte
	err    error
}

// CopyTo replaces the values of other by those of s.
func (s *Store) CopyTo(other *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	other.values = maps.Clone(s.values)
}

// Get implements alerts.Store.
func (s *Store) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key], nil
}

// Put implements alerts.Store.
func (s *Store) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if s.values == nil {
		s.values = map[string][]byte{}
	}
	s.values[key] = value
	return nil
}

// Fail makes Put return err from now on; nil makes Put succeed again.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Values returns the stored values by key.
func (s *Store) Values() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values
}
