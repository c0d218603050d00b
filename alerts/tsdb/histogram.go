package tsdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/llmtap/llmtap/analyzer/dist"
)

// A histogramSeries is a counter of values by bucket. Each sample is what was added since the one before it.
type histogramSeries struct {
	shape   *histogram.FloatHistogram // schema and bounds
	unit    float64                   // of the sums
	base    dist.Dist                 // before the first sample
	samples []histogramSample
}

// A histogramSample is what was added: its sum, and for each bucket the distance from the one before and the number of values, all as
// unsigned varints.
type histogramSample struct {
	at   int64 // Unix milliseconds
	data []byte
}

// bounds are the upper bounds of the buckets of dists with values in a unit, by unit.
var bounds = map[float64][]float64{}

func init() {
	for _, unit := range []float64{1000, 1e6} {
		for i := range 64 * dist.PerOctave {
			bounds[unit] = append(bounds[unit], math.Exp2(float64(i)/dist.PerOctave)/unit)
		}
	}
}

// newHistogram returns a series of values in a unit: 1, 1000 or 1e6. The buckets of a dist are those of schema 2; in another unit they
// have bounds of their own.
func newHistogram(unit float64) *histogramSeries {
	h := &histogramSeries{shape: &histogram.FloatHistogram{Schema: 2}, unit: unit}
	if unit != 1 {
		h.shape = &histogram.FloatHistogram{Schema: histogram.CustomBucketsSchema, CustomValues: bounds[unit]}
	}
	return h
}

// AppendHistogram adds values, in unit, to a histogram. A new series begins empty, a sample before its first.
func (db *DB) AppendHistogram(ref storage.SeriesRef, lset labels.Labels, ts time.Time, every time.Duration, d *dist.Dist, unit float64) (storage.SeriesRef, error) {
	s := db.refs[ref]
	if s == nil {
		s = db.series(lset)
	}
	if s.histogram == nil {
		s.histogram = newHistogram(unit)
	}
	h, at := s.histogram, ts.UnixMilli()
	if len(h.samples) == 0 {
		h.samples = append(h.samples, histogramSample{at: at - every.Milliseconds()})
	}
	if last := h.samples[len(h.samples)-1].at; at <= last {
		return s.ref, fmt.Errorf("append histogram of %s at %v: the series has a sample at %v", lset, ts.UTC(), time.UnixMilli(last).UTC())
	}
	h.samples = append(h.samples, histogramSample{at, encodeDist(d)})
	db.oldest = min(db.oldest, at)
	return s.ref, nil
}

func encodeDist(d *dist.Dist) []byte {
	if d.N == 0 {
		return nil
	}
	b := make([]byte, 0, 8+3*len(d.Buckets))
	b = binary.AppendUvarint(b, d.Sum)
	last := 0
	for _, c := range d.Buckets {
		b = binary.AppendUvarint(b, uint64(c.Bucket-last))
		b = binary.AppendUvarint(b, c.N)
		last = c.Bucket
	}
	return slices.Clip(b)
}

// addTo adds the sample to d, using next as scratch.
func (s *histogramSample) addTo(d, next *dist.Dist) {
	if len(s.data) == 0 {
		return
	}
	next.Reset()
	sum, n := binary.Uvarint(s.data)
	next.Sum = sum
	bucket := 0
	for data := s.data[n:]; len(data) > 0; {
		gap, n := binary.Uvarint(data)
		count, m := binary.Uvarint(data[n:])
		bucket += int(gap)
		next.AddBucket(bucket, count)
		data = data[n+m:]
	}
	d.Merge(next)
}

// truncate removes the samples before at, and reports whether there are others.
func (h *histogramSeries) truncate(at int64) bool {
	n := h.search(at)
	var next dist.Dist
	for i := range n {
		h.samples[i].addTo(&h.base, &next)
	}
	h.samples = slices.Clone(h.samples[n:]) // queries may still read the others
	return len(h.samples) > 0
}

// search returns the index of the first sample at or after at.
func (h *histogramSeries) search(at int64) int {
	return sort.Search(len(h.samples), func(i int) bool { return h.samples[i].at >= at })
}

// within reports whether there are samples in [start, end].
func (h *histogramSeries) within(start, end int64) bool {
	i := h.search(start)
	return i < len(h.samples) && h.samples[i].at <= end
}

// copy returns a copy for queries while h grows.
func (h *histogramSeries) copy() *histogramSeries {
	out := *h
	out.base = h.base.Clone()
	return &out
}

// float returns d in the form of a query's result.
func (h *histogramSeries) float(d *dist.Dist) *histogram.FloatHistogram {
	out := *h.shape
	out.Count, out.Sum = float64(d.N), float64(d.Sum)/h.unit
	next := 0
	for _, c := range d.Buckets {
		if n := len(out.PositiveSpans); n > 0 && c.Bucket == next {
			out.PositiveSpans[n-1].Length++
		} else {
			out.PositiveSpans = append(out.PositiveSpans, histogram.Span{Offset: int32(c.Bucket - next), Length: 1})
		}
		out.PositiveBuckets = append(out.PositiveBuckets, float64(c.N))
		next = c.Bucket + 1
	}
	return &out
}

// histogramIterator implements chunkenc.Iterator.
type histogramIterator struct {
	iterator
	h         *histogramSeries
	first     int // of the samples that are selected
	sum, next dist.Dist
	added     int // number of samples in sum
}

func (h *histogramSeries) iterator(start, end int64) chunkenc.Iterator {
	it := &histogramIterator{h: h, first: h.search(start), sum: h.base.Clone()}
	it.iterator.next = -1
	for _, s := range h.samples[it.first:h.search(end+1)] {
		it.samples = append(it.samples, sample{t: s.at})
	}
	return it
}

func (it *histogramIterator) Next() chunkenc.ValueType { return it.kind(it.iterator.Next()) }

func (it *histogramIterator) Seek(t unixMilli) chunkenc.ValueType {
	return it.kind(it.iterator.Seek(t))
}

func (it *histogramIterator) kind(k chunkenc.ValueType) chunkenc.ValueType {
	if k == chunkenc.ValFloat {
		return chunkenc.ValFloatHistogram
	}
	return k
}

// AtFloatHistogram returns the sum of all samples up to the current one.
func (it *histogramIterator) AtFloatHistogram(to *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	current := it.first + it.iterator.next
	for ; it.added <= current; it.added++ {
		it.h.samples[it.added].addTo(&it.sum, &it.next)
	}
	out := it.h.float(&it.sum)
	if to != nil {
		out.CopyTo(to)
		out = to
	}
	return it.h.samples[current].at, out
}
