package tsdb

import (
	"encoding/binary"
	"math"
)

// maxBlock is the maximum number of samples of a block. To find one sample, on average half of a block is decoded.
const maxBlock = 240

// A block contains consecutive samples of a series at a constant interval. Most counters grow by small integers, so most
// samples take one byte, and samples without an increment take none.
type block struct {
	start  int64   // time of the first sample, in Unix milliseconds
	step   int64   // interval; 0 if there is only one sample
	first  float64 // first value
	last   float64 // last value
	n      int32   // number of samples
	zeros  int32   // samples at the end without an increment, not in data yet
	floats bool    // some values are not the previous value plus a non-negative integer
	data   []byte  // tokens of the samples after the first one
}

// A token is an unsigned varint. Its lowest two bits are the kind.
const (
	tokenIncrement = iota + 1 // the value is the previous one plus the rest of the token
	tokenZeros                // as many samples as the rest of the token have the previous value
	tokenFloat                // the value is the next 8 bytes
	tokenBits      = 2
)

// maxIncrement is the largest increment of a token. Larger integers are not exact as floats.
const maxIncrement = 1 << 52

// end returns the time of the last sample.
func (b *block) end() int64 { return b.start + int64(b.n-1)*b.step }

// add appends a sample and reports whether b has room for it. at is later than b.end().
func (b *block) add(at int64, v float64) bool {
	if b.n == maxBlock || b.n > 1 && at != b.end()+b.step {
		return false
	}
	if b.n == 1 {
		b.step = at - b.start
	}
	b.n++
	inc := v - b.last
	switch integer := inc >= 0 && inc <= maxIncrement && inc == math.Trunc(inc) && math.Float64bits(b.last+inc) == math.Float64bits(v); {
	case integer && inc == 0:
		b.zeros++
		return true
	case integer:
		b.flush()
		b.data = binary.AppendUvarint(b.data, uint64(inc)<<tokenBits|tokenIncrement)
	default:
		b.flush()
		b.data = binary.AppendUvarint(b.data, tokenFloat)
		b.data = binary.LittleEndian.AppendUint64(b.data, math.Float64bits(v))
		b.floats = true
	}
	b.last = v
	return true
}

// flush writes the token of the samples at the end without an increment.
func (b *block) flush() {
	if b.zeros > 0 {
		b.data = binary.AppendUvarint(b.data, uint64(b.zeros)<<tokenBits|tokenZeros)
		b.zeros = 0
	}
}

// indexes returns the range [from, to) of the samples in the times [start, end].
func (b *block) indexes(start, end int64) (from, to int32) {
	if start > b.end() || end < b.start {
		return 0, 0
	}
	if b.step == 0 {
		return 0, 1
	}
	if start > b.start {
		from = int32((start - b.start + b.step - 1) / b.step)
	}
	to = int32(min((end-b.start)/b.step, int64(b.n-1))) + 1
	return from, max(from, to)
}

// values calls yield with the values of b in order, each with the number of samples that have it, until yield returns false.
func (b *block) values(yield func(v float64, n int32) bool) {
	v := b.first
	if !yield(v, 1) {
		return
	}
	for data := b.data; len(data) > 0; {
		token, size := binary.Uvarint(data)
		data = data[size:]
		n := int32(1)
		switch token & (1<<tokenBits - 1) {
		case tokenIncrement:
			v += float64(token >> tokenBits)
		case tokenZeros:
			n = int32(token >> tokenBits)
		case tokenFloat:
			v = math.Float64frombits(binary.LittleEndian.Uint64(data))
			data = data[8:]
		}
		if !yield(v, n) {
			return
		}
	}
	if b.zeros > 0 {
		yield(v, b.zeros)
	}
}

// at returns the value of sample i.
func (b *block) at(i int32) (value float64) {
	if i >= b.n-1-b.zeros {
		return b.last
	}
	b.values(func(v float64, n int32) bool {
		value, i = v, i-n
		return i >= 0
	})
	return value
}
