// Package dist counts values on a logarithmic scale: durations, tokens and costs of calls, whatever their magnitude.
//
// Bucket i holds the values in (2^((i-1)/4), 2^(i/4)], and bucket 0 those up to 1: a quantile is known within 19 %, and better
// where a bucket holds many values, because they are taken as spread evenly over its logarithm. Only buckets with values take memory.
package dist

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// PerOctave is the number of buckets between a value and its double.
const PerOctave = 4

// last is the bucket of the largest value.
const last = 64 * PerOctave

// uppers are the largest values of the buckets.
var uppers = func() (u [last + 1]uint64) {
	for i := range last {
		u[i] = uint64(math.Exp2(float64(i) / PerOctave))
	}
	u[last] = math.MaxUint64
	return u
}()

// Bucket returns the bucket of v.
func Bucket(v uint64) int {
	if v <= 1 {
		return 0
	}
	i := PerOctave*(bits.Len64(v-1)-1) + 1 // the first bucket above the power of two below v
	for uppers[i] < v {
		i++
	}
	return i
}

// Upper returns the largest value of bucket i.
func Upper(i int) uint64 { return uppers[min(max(i, 0), last)] }

// A Count is the number of values in a bucket.
type Count struct {
	Bucket int
	N      uint64
}

// A Dist is a distribution of values. The zero value is empty and ready to use.
type Dist struct {
	Sum     uint64  // of the values
	N       uint64  // number of values
	Buckets []Count // in ascending order, without empty ones
}

// Add adds a value.
func (d *Dist) Add(v uint64) {
	d.Sum += v
	d.AddBucket(Bucket(v), 1)
}

// AddBucket adds n values of a bucket, without their sum.
func (d *Dist) AddBucket(bucket int, n uint64) {
	if n == 0 {
		return
	}
	d.N += n
	i := len(d.Buckets)
	for i > 0 && d.Buckets[i-1].Bucket >= bucket {
		i--
	}
	if i < len(d.Buckets) && d.Buckets[i].Bucket == bucket {
		d.Buckets[i].N += n
		return
	}
	d.Buckets = slices.Insert(d.Buckets, i, Count{bucket, n})
}

// Merge adds the values of o.
func (d *Dist) Merge(o *Dist) {
	d.Sum += o.Sum
	d.N += o.N
	i := 0
	for _, c := range o.Buckets {
		for i < len(d.Buckets) && d.Buckets[i].Bucket < c.Bucket {
			i++
		}
		if i < len(d.Buckets) && d.Buckets[i].Bucket == c.Bucket {
			d.Buckets[i].N += c.N
		} else {
			d.Buckets = slices.Insert(d.Buckets, i, c)
		}
	}
}

// Clone returns a copy that shares no memory with d.
func (d *Dist) Clone() Dist { return Dist{d.Sum, d.N, slices.Clone(d.Buckets)} }

// Reset removes all values and keeps the memory.
func (d *Dist) Reset() { *d = Dist{Buckets: d.Buckets[:0]} }

// Quantile returns the value that the share q of the values does not exceed, or 0 without any.
func (d *Dist) Quantile(q float64) float64 {
	rest := q * float64(d.N)
	for i, c := range d.Buckets {
		if n := float64(c.N); rest <= n || i == len(d.Buckets)-1 {
			return math.Exp2((float64(c.Bucket) - 1 + min(1, rest/n)) / PerOctave)
		}
		rest -= float64(c.N)
	}
	return 0
}

// Above returns how many values are above v, with a part of those in the bucket of v, so that Above(Quantile(q)) is 1-q of all.
func (d *Dist) Above(v float64) float64 {
	at := math.Log2(max(v, math.SmallestNonzeroFloat64)) * PerOctave
	sum := 0.0
	for _, c := range d.Buckets {
		sum += float64(c.N) * min(1, max(0, float64(c.Bucket)-at))
	}
	return sum
}

// IsZero reports whether d has no values.
func (d Dist) IsZero() bool { return d.N == 0 }

// MarshalText returns the sum, followed by each bucket, as its distance from the one before, and the number of its values unless that
// is 1, as in "91404 0x2 7 31 28".
func (d Dist) MarshalText() ([]byte, error) {
	out := strconv.AppendUint(make([]byte, 0, 16+6*len(d.Buckets)), d.Sum, 10)
	before := 0
	for _, c := range d.Buckets {
		out = strconv.AppendUint(append(out, ' '), uint64(c.Bucket-before), 10)
		if c.N != 1 {
			out = strconv.AppendUint(append(out, 'x'), c.N, 10)
		}
		before = c.Bucket
	}
	return out, nil
}

// UnmarshalText reads what MarshalText returns.
func (d *Dist) UnmarshalText(b []byte) error {
	sum, rest, more := strings.Cut(string(b), " ")
	out := Dist{}
	var err error
	if out.Sum, err = strconv.ParseUint(sum, 10, 64); err != nil {
		return fmt.Errorf("the sum of a distribution: %w", err)
	}
	for bucket := uint64(0); more; {
		var field string
		field, rest, more = strings.Cut(rest, " ")
		distance, number, several := strings.Cut(field, "x")
		by, err := strconv.ParseUint(distance, 10, 16)
		n := uint64(1)
		if several && err == nil {
			n, err = strconv.ParseUint(number, 10, 64)
		}
		if bucket += by; err != nil || bucket > last || n == 0 || by == 0 && out.N > 0 {
			return fmt.Errorf("a distribution has a bucket %q", field)
		}
		out.Buckets = append(out.Buckets, Count{int(bucket), n})
		out.N += n
	}
	*d = out
	return nil
}
