package expiry

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

func second(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

func keys(q *Queue[string, int]) (all []string) {
	for e := range q.All() {
		all = append(all, e.Key)
	}
	return all
}

func TestQueue(t *testing.T) {
	q := NewQueue[string, int](10 * time.Second)
	if q.First() != nil || q.TakeFirst() != nil || q.Take("a") != nil || q.MinSeq() != 0 {
		t.Error("an empty queue has an entry")
	}
	q.Add("a", 1, 7, second(0))
	q.Add("b", 2, 5, second(1)) // made from an older event than a
	q.Add("c", 3, 9, second(2))
	if q.MinSeq() != 5 || q.Get("a").MinSeq != 5 {
		t.Errorf("oldest sequence %d, want 5", q.MinSeq())
	}
	if _, due := q.Due(second(9)); due {
		t.Error("due before the timeout")
	}
	if at, due := q.Due(second(10)); !due || !at.Equal(second(10)) {
		t.Errorf("due %v at %v, want at the deadline", due, at)
	}
	q.Renew(q.Get("a"), second(3))
	must.Agree(t, cmp.Diff([]string{"b", "c", "a"}, keys(q)), "order after a renewal")
	if e := q.Take("c"); e.Value != 3 || q.Get("c") != nil || q.Len() != 2 {
		t.Errorf("took %+v, %d left", e, q.Len())
	}
	if a, b := q.TakeFirst(), q.TakeFirst(); a.Key != "b" || b.Key != "a" || q.Len() != 0 || q.First() != nil {
		t.Errorf("took %s and %s, %d left", a.Key, b.Key, q.Len())
	}
	q.Add("d", 4, 1, second(4))
	must.Agree(t, cmp.Diff([]string{"d"}, keys(q)), "entries after the queue was empty")
}

func TestGenerations(t *testing.T) {
	g := NewGenerations[string, int](40*time.Second, 3) // generations of 10 s
	g.Put("a", 1, 7, second(0))
	g.Put("a", 2, 9, second(10))
	g.Put("b", 3, 8, second(10))
	if v, ok := g.Get("a"); v != 2 || !ok || g.Newest("a", second(10)) != 2 || g.Newest("a", second(20)) != 0 {
		t.Errorf("value %d, %v", v, ok)
	}
	must.Agree(t, cmp.Diff([]int{1, 2}, slices.Collect(g.All("a"))), "values of all generations")
	if g.MinSeq() != 7 || g.Len() != 3 {
		t.Errorf("oldest sequence %d of %d entries", g.MinSeq(), g.Len())
	}
	g.Expire(second(49))
	must.Equal(t, g.Len(), 3, "forgotten before the timeout")
	g.Expire(second(50))
	if _, ok := g.Get("b"); !ok || g.MinSeq() != 8 {
		t.Errorf("a generation outlived its timeout: oldest sequence %d", g.MinSeq())
	}
	g.Put("c", 4, 10, second(50))
	if n := g.Put("d", 5, 11, second(50)); n != 2 || g.Len() != 2 {
		t.Errorf("%d forgotten beyond the bound, %d left", n, g.Len())
	}
	g.Put("e", 6, 12, second(50))
	if n := g.Put("f", 7, 13, second(50)); n != 3 || g.Len() != 1 || g.MinSeq() != 13 {
		t.Errorf("%d forgotten of a full generation, %d left, oldest sequence %d", n, g.Len(), g.MinSeq())
	}
}
