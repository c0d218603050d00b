package tsdb

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A Select of Shared sees the samples of its time, whatever is appended later.
func TestShared(t *testing.T) {
	db := Open(Options{Lookback: time.Minute, Step: time.Second})
	defer db.Close()
	start := time.Unix(1_700_000_000, 0)
	lset := labels.FromStrings(model.MetricNameLabel, "c")
	var ref storage.SeriesRef
	appendTo := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			ref = must.Get(db.Append(ref, lset, start.Add(time.Duration(i)*time.Second), float64(i/3)))(t)
		}
	}
	appendTo(0, 1000)
	var mu sync.Mutex
	q := must.Get(db.Shared(&mu).Querier(start.UnixMilli(), start.Add(time.Hour).UnixMilli()))(t)
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "c"))
	appendTo(1000, 2000)
	db.Truncate(start.Add(30 * time.Minute))
	if !set.Next() {
		t.Fatal("no series")
	}
	it := set.At().Iterator(nil)
	for i := range 1000 {
		it.Next()
		if at, v := it.At(); at != start.UnixMilli()+int64(i)*1000 || v != float64(i/3) {
			t.Fatalf("sample %d is %v at %v", i, v, at)
		}
	}
	if it.Next() != 0 || set.Next() {
		t.Error("there are samples of later")
	}
}

// BenchmarkSharedSelect is the time for which rules wait for a query over all of 10,000 series, of which each has a sample per
// second for an hour.
func BenchmarkSharedSelect(b *testing.B) {
	db := Open(Options{Lookback: time.Minute, Step: time.Second})
	defer db.Close()
	start := time.Unix(1_700_000_000, 0)
	refs := make([]storage.SeriesRef, 10_000)
	for second := range 3600 {
		for i := range refs {
			lset := labels.EmptyLabels()
			if second == 0 {
				lset = labels.FromStrings(model.MetricNameLabel, "c", "i", fmt.Sprint(i))
			}
			ref := must.Get(db.Append(refs[i], lset, start.Add(time.Duration(second)*time.Second), float64(second*i%7)))(b)
			refs[i] = ref
		}
	}
	var mu heldMutex
	q := must.Get(db.Shared(&mu).Querier(start.UnixMilli(), start.Add(time.Hour).UnixMilli()))(b)
	for b.Loop() {
		q.Select(b.Context(), true, nil, labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "c"))
	}
	b.ReportMetric(float64(mu.held.Milliseconds())/float64(b.N), "ms-held/op")
}

// A heldMutex measures how long it is held.
type heldMutex struct {
	sync.Mutex
	since time.Time
	held  time.Duration
}

func (m *heldMutex) Lock() {
	m.Mutex.Lock()
	m.since = time.Now()
}

func (m *heldMutex) Unlock() {
	m.held += time.Since(m.since)
	m.Mutex.Unlock()
}
