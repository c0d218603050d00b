package usual

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/llmtap/llmtap/analyzer/dist"
)

const (
	week  = 7 * 24
	hours = 4 * week // that are remembered
	// An hour's percentile or share needs minCalls calls; calls of hours with fewer are added up, of at most a day.
	minCalls = 100
	// A share also needs minHits calls that have it, or waitHits hours.
	minHits, waitHits = 5, 6
	// An hour's amount needs minMinutes.
	minMinutes = 30
	blocks     = 6 // of an hour, for the dispersion
	// keepDispersion is the weight of the dispersion before an hour: half of it is of the last six days.
	keepDispersion = 0.995
	version        = 1
)

// A Baseline is what is usual of a measure of a series. It is learned in order of time. It is not safe for concurrent use.
type Baseline struct {
	state baselineState
	open  dist.Dist // of Values: the calls that are in no remembered hour yet
	cache *hourUsual
}

// baselineState has a fixed size: 900 bytes.
type baselineState struct {
	Version   uint8
	Kind      Kind
	Minutes   uint8              // of the open hour that were recorded
	Alarmed   uint8              // of the open hour that were unusual
	Hour      int64              // Unix hours; the open one
	Closed    int64              // newest hour that is remembered
	First     int64              // first hour with a value
	Opened    int64              // first hour of the calls that are in no remembered hour yet
	Accepted  int64              // hour since which there is a new normal, or 0
	Remember  [hours]uint8       // value of each hour, see encode; hour h is at h modulo hours
	Marked    [hours / 8]uint8   // bit set: the hour was unusual
	Blocks    [blocks][2]float32 // of the open hour: calls or minutes, and those above or the amount
	Calls     uint64             // of Share and Amount, as in open
	Amount    uint64
	Variance  float64 // of the counts of blocks, and what it would be for each unit of the dispersion
	Expected  float64
	Dispersed uint16   // hours in them
	Unit      float64  // what a call costs
	Spread    [2]uint8 // see learnSpread: 1 + steps below and above, or 0
	Sums      Sums     // of Amount
}

// Values are remembered in steps of a seventh of an octave, about 10 %. The median over hours is finer than a step is coarse.
const perOctave, lowest = 7, -1

// encode returns v as remembered: from a half to 4e10, and 0 is no value.
func encode(v float64) uint8 {
	return uint8(max(1, min(255, 1+math.Round(perOctave*(math.Log2(max(v, 0.5))-lowest)))))
}

// decode returns the value of a number of steps.
func decode(steps float64) float64 { return math.Exp2((steps-1)/perOctave + lowest) }

// ppm is the unit of shares.
const ppm = 1e6

// Learn adds a sample. One of an hour before the last sample's is ignored.
func (b *Baseline) Learn(at time.Time, s Sample) {
	st := &b.state
	hour := at.Unix() / 3600
	if hour < st.Hour {
		return
	}
	if hour != st.Hour {
		if st.Hour != 0 {
			b.close()
		}
		b.forget(st.Hour+1, hour)
		st.Hour, st.Minutes, st.Alarmed, st.Blocks = hour, 0, 0, [blocks][2]float32{}
		if st.Opened == 0 || hour-st.Opened > 24 {
			b.reopen()
		}
	}
	minutes := s.minutes()
	st.Minutes = uint8(min(255, float64(st.Minutes)+minutes))
	block := &st.Blocks[at.Unix()%3600/(3600/blocks)]
	u := 0.0
	if st.Kind == Values && s.Values != nil {
		if u = b.At(at).Value; u > 0 {
			block[0] += float32(s.Values.N)
			block[1] += float32(s.Values.Above(u))
		}
		b.open.Merge(s.Values)
		return
	}
	st.Amount += s.Amount
	st.Calls += s.Calls
	if st.Kind.perMinute() {
		block[0] += float32(minutes)
	} else {
		block[0] += float32(s.Calls)
	}
	block[1] += float32(s.Amount)
}

// Mark says that the minute that was learned last was unusual. An hour with ten such minutes is learned at a tenth of its weight.
func (b *Baseline) Mark() { b.state.Alarmed = min(b.state.Alarmed+1, 255) }

// Accept makes what was measured since a time the new normal.
func (b *Baseline) Accept(since time.Time) {
	st := &b.state
	st.Accepted = max(since.Unix()/3600, st.Hour-recent)
	for h := st.Accepted; h <= st.Hour; h++ {
		st.Marked[h%hours/8] &^= 1 << (h % 8)
	}
	st.Alarmed = 0
	b.cache = nil
}

// reopen drops the calls that are in no hour yet.
func (b *Baseline) reopen() {
	b.open.Reset()
	b.state.Calls, b.state.Amount, b.state.Opened = 0, 0, b.state.Hour
}

// forget removes the values of the hours from and before to, which were remembered four weeks before.
func (b *Baseline) forget(from, to int64) {
	for h := max(from, to-hours); h <= to; h++ {
		b.state.Remember[h%hours] = 0
		b.state.Marked[h%hours/8] &^= 1 << (h % 8)
	}
}

// close remembers the open hour.
func (b *Baseline) close() {
	st := &b.state
	b.cache = nil
	v := b.hourValue()
	if v == 0 {
		if st.Kind.perMinute() {
			b.reopen() // minutes that were not recorded cannot be added up
		}
		return
	}
	if st.First == 0 {
		st.First = st.Hour
	}
	newDay := st.Hour/24 != st.Closed/24
	st.Closed = st.Hour
	st.Remember[st.Hour%hours] = v
	if st.Alarmed >= 10 {
		st.Marked[st.Hour%hours/8] |= 1 << (st.Hour % 8)
	}
	b.disperse()
	b.reopen()
	st.Opened = st.Hour + 1
	if newDay {
		b.learnSpread()
	}
}

// hourValue returns the encoded value of the open hour, or 0 if there is not enough.
func (b *Baseline) hourValue() uint8 {
	st := &b.state
	switch {
	case st.Kind.perMinute() && st.Minutes >= minMinutes:
		return encode(float64(st.Amount) * 60 / float64(st.Minutes))
	case st.Kind == Values && b.open.N >= minCalls:
		return encode(b.open.Quantile(percentile))
	case st.Kind == Share && st.Calls >= minCalls && (st.Amount >= minHits || st.Hour-st.Opened >= waitHits):
		return encode(ppm * (float64(st.Amount) + 0.5) / (float64(st.Calls) + 1))
	}
	return 0
}

// disperse adds the variance of the blocks of the open hour around the mean of the hour.
func (b *Baseline) disperse() {
	st := &b.state
	var n, k, used, variance, expected float64
	for _, x := range st.Blocks {
		n, k = n+float64(x[0]), k+float64(x[1])
		if x[0] > 0 {
			used++
		}
	}
	if used < 2 || k == 0 {
		return
	}
	unit := 1.0
	if st.Kind == Spend && st.Calls > 0 {
		// The costs of calls vary: the mean square of lognormal ones is about twice the square of their mean.
		unit = 2 * float64(st.Amount) / float64(st.Calls)
		if st.Unit > 0 {
			unit = st.Unit + (unit-st.Unit)*(1-keepDispersion)
		}
	}
	st.Unit = unit
	mean := k / n
	for _, x := range st.Blocks {
		e := float64(x[0]) * mean
		variance += (float64(x[1]) - e) * (float64(x[1]) - e)
		if st.Kind.perMinute() {
			// The rate varies from block to block, which count as independent, and so from minute to minute ten times as much.
			variance -= e * unit * (used - 1) / used
			expected += e * e / float64(x[0]+0.01) * (used - 1) / used
		} else {
			expected += e * (1 - mean) * (used - 1) / used
		}
	}
	if st.Dispersed >= 24 { // one hour does not change it much
		variance = min(variance, 4*expected*max(0, st.Variance)/st.Expected)
	}
	st.Variance = st.Variance*keepDispersion + variance
	st.Expected = st.Expected*keepDispersion + expected
	st.Dispersed = uint16(min(int(st.Dispersed)+1, 1000))
}

// MarshalBinary returns the state: 900 bytes and the open hour.
func (b *Baseline) MarshalBinary() ([]byte, error) {
	b.state.Version = version
	out, err := binary.Append(nil, binary.LittleEndian, &b.state)
	if err != nil {
		return nil, err
	}
	open, err := b.open.MarshalText()
	return append(out, open...), err
}

// UnmarshalBinary reads what MarshalBinary returns.
func (b *Baseline) UnmarshalBinary(data []byte) error {
	var n Baseline
	size, err := binary.Decode(data, binary.LittleEndian, &n.state)
	if err != nil {
		return err
	}
	if n.state.Version != version || n.state.Kind < Values || n.state.Kind > Share {
		return errors.New("a baseline of another version")
	}
	if err := n.open.UnmarshalText(data[size:]); err != nil {
		return err
	}
	*b = n
	return nil
}
