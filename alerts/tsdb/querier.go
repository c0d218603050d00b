package tsdb

import (
	"context"
	"errors"
	"slices"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// A series is the samples of one label set, in order of time.
type series struct {
	ref    storage.SeriesRef
	lset   labels.Labels
	blocks []block

	histogram *histogramSeries // instead of blocks; nil if the samples are numbers
}

// has reports whether s has samples in [start, end].
func (s *series) has(start, end int64) bool {
	if s.histogram != nil {
		return s.histogram.within(start, end)
	}
	return len(s.within(start, end)) > 0
}

// within returns the blocks with times in [start, end].
func (s *series) within(start, end int64) []block {
	first := sort.Search(len(s.blocks), func(i int) bool { return s.blocks[i].end() >= start })
	blocks := s.blocks[first:]
	return blocks[:sort.Search(len(blocks), func(i int) bool { return blocks[i].start > end })]
}

type onlyKey struct{}

// WithOnly returns a context in whose queries there are only the series whose labels only accepts; all if it is nil.
func WithOnly(ctx context.Context, only func(labels.Labels) bool) context.Context {
	return context.WithValue(ctx, onlyKey{}, only)
}

func onlyOf(ctx context.Context) func(labels.Labels) bool {
	if only, _ := ctx.Value(onlyKey{}).(func(labels.Labels) bool); only != nil {
		return only
	}
	return func(labels.Labels) bool { return true }
}

// querier implements storage.Querier for the queries of PromQL.
type querier struct {
	db         *DB
	mint, maxt int64
}

var _ storage.Querier = querier{}

// Select returns the series that match all matchers and have samples in the selected time.
func (q querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	sel, only := q.selection(hints), onlyOf(ctx)
	out := &seriesSet{next: -1}
	for _, s := range q.db.candidates(matchers) {
		if s.has(sel.start, sel.end) && matches(s, matchers) && only(s.lset) {
			out.list = append(out.list, selected{s, sel})
		}
	}
	out.sort(sorted)
	return out
}

// selection returns the samples that a Select with hints needs.
func (q querier) selection(hints *storage.SelectHints) *selection {
	if hints == nil {
		return &selection{start: q.mint, end: q.maxt}
	}
	return &selection{
		start: hints.Start, end: hints.End,
		// In a subquery, the time is longer than the range.
		ends: (hints.Func == "increase" || hints.Func == "rate") && hints.Range > 0 && hints.End-hints.Start == hints.Range-1,
	}
}

func matches(s *series, matchers []*labels.Matcher) bool {
	return !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.lset.Get(m.Name)) })
}

var errLabels = errors.New("queries of label names and values are not supported")

// LabelValues implements storage.LabelQuerier; PromQL does not use it.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errLabels
}

// LabelNames implements storage.LabelQuerier; PromQL does not use it.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errLabels
}

// Close implements storage.LabelQuerier.
func (querier) Close() error { return nil }

// A selection is the samples that a query needs of each series.
type selection struct {
	start, end int64
	ends       bool // only the increase from the first to the last sample matters
}

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	list []selected
	next int
}

// sort sorts the series by their labels if sorted is set.
func (s *seriesSet) sort(sorted bool) {
	if sorted {
		slices.SortFunc(s.list, func(a, b selected) int { return labels.Compare(a.lset, b.lset) })
	}
}

func (s *seriesSet) Next() bool {
	s.next++
	return s.next < len(s.list)
}

func (s *seriesSet) At() storage.Series                { return s.list[s.next] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// A selected series implements storage.Series.
type selected struct {
	*series
	*selection
}

func (s selected) Labels() labels.Labels { return s.lset }

// Iterator returns the selected samples. It reuses it.
func (s selected) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if s.histogram != nil {
		return s.histogram.iterator(s.start, s.end)
	}
	out, ok := it.(*iterator)
	if !ok {
		out = new(iterator)
	}
	out.samples, out.next = s.samples(out.samples[:0]), -1
	return out
}

// samples appends the selected samples to out.
func (s selected) samples(out []sample) []sample {
	blocks := s.within(s.start, s.end)
	if s.ends {
		if out, ok := s.endsOf(out, blocks); ok {
			return out
		}
	}
	for i := range blocks {
		b := &blocks[i]
		from, to := b.indexes(s.start, s.end)
		at := int32(0)
		b.values(func(v float64, n int32) bool {
			for range n {
				if at >= from && at < to {
					out = append(out, sample{b.start + int64(at)*b.step, v})
				}
				at++
			}
			return at < to
		})
	}
	return out
}

// endsOf appends the first and the last selected sample of each block to out. increase() and rate() return the same for
// these samples as for all, because they use the others for two things. A decrease is a reset, but within a block without
// floats there is none. The average interval limits the extrapolation to the ends of the range; ok is false if that limit
// may apply.
func (s selected) endsOf(out []sample, blocks []block) (_ []sample, ok bool) {
	const long = 1 << 62
	interval := int64(long) // shortest interval between two samples
	for i := range blocks {
		b := &blocks[i]
		from, to := b.indexes(s.start, s.end)
		if from == to {
			continue
		}
		if b.floats {
			return out[:0], false
		}
		if n := len(out); n > 0 {
			interval = min(interval, b.start+int64(from)*b.step-out[n-1].t)
		}
		out = append(out, sample{b.start + int64(from)*b.step, b.at(from)})
		if to-from > 1 {
			interval = min(interval, b.step)
			out = append(out, sample{b.start + int64(to-1)*b.step, b.at(to - 1)})
		}
	}
	if len(out) == 0 {
		return out, true
	}
	// The range excludes its start, which is 1 ms before s.start. A counter that begins with 0 is not extrapolated to the start.
	first, last := out[0], out[len(out)-1]
	if first.v != 0 && first.t-(s.start-1) > interval || s.end-last.t > interval {
		return out[:0], false
	}
	return out, true
}

// A sample is a value at a time in Unix milliseconds.
type sample struct {
	t int64
	v float64
}

// unixMilli is a time in Unix milliseconds. With int64, go vet mistakes Seek for that of io.Seeker.
type unixMilli = int64

// iterator implements chunkenc.Iterator.
type iterator struct {
	samples []sample
	next    int // index of the current sample
}

func (it *iterator) Next() chunkenc.ValueType {
	it.next = min(it.next+1, len(it.samples))
	return it.value()
}

func (it *iterator) Seek(t unixMilli) chunkenc.ValueType {
	it.next = max(it.next, 0)
	rest := it.samples[it.next:]
	it.next += sort.Search(len(rest), func(i int) bool { return rest[i].t >= t })
	return it.value()
}

func (it *iterator) value() chunkenc.ValueType {
	if it.next < len(it.samples) {
		return chunkenc.ValFloat
	}
	return chunkenc.ValNone
}

func (it *iterator) At() (int64, float64) { return it.samples[it.next].t, it.samples[it.next].v }
func (it *iterator) AtT() int64           { return it.samples[it.next].t }
func (it *iterator) AtST() int64          { return 0 }
func (it *iterator) Err() error           { return nil }

// AtHistogram implements chunkenc.Iterator; there are no histograms with integers.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) { return 0, nil }

// AtFloatHistogram implements chunkenc.Iterator; the samples are numbers.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return 0, nil
}
