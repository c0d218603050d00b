package tsdb

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// Shared returns the series of db for queries that run while other goroutines append samples. mu guards db; it is held only while
// the selected samples are copied, not while they are evaluated.
func (db *DB) Shared(mu sync.Locker) storage.Queryable { return shared{db, mu} }

type shared struct {
	db *DB
	mu sync.Locker
}

// Querier implements storage.Queryable.
func (s shared) Querier(mint, maxt int64) (storage.Querier, error) {
	return sharedQuerier{querier{s.db, mint, maxt}, s.mu}, nil
}

// sharedQuerier is a querier whose results share nothing that changes.
type sharedQuerier struct {
	querier
	mu sync.Locker
}

// Select implements storage.Querier. With the hint that only series matter, they have no samples.
func (q sharedQuerier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	sel, only := q.selection(hints), onlyOf(ctx)
	q.mu.Lock()
	list := slices.Clone(q.db.candidates(matchers))
	q.mu.Unlock()
	list = slices.DeleteFunc(list, func(s *series) bool { return !matches(s, matchers) || !only(s.lset) }) // labels never change
	out := &seriesSet{next: -1}
	q.mu.Lock()
	for _, s := range list {
		if s.has(sel.start, sel.end) {
			c := &series{lset: s.lset}
			switch {
			case hints != nil && hints.Func == "series":
			case s.histogram != nil:
				c.histogram = s.histogram.copy()
			default:
				c.blocks = slices.Clone(s.within(sel.start, sel.end)) // later samples are behind the copied data
			}
			out.list = append(out.list, selected{c, sel})
		}
	}
	q.mu.Unlock()
	out.sort(sorted)
	return out
}
