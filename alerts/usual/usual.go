package usual

import (
	"math"
	"time"

	"github.com/llmtap/llmtap/analyzer/dist"
)

// A Kind is the kind of a measure.
type Kind uint8

// The kinds of measures.
const (
	Values Kind = iota + 1 // a value of each call, as its duration or tokens; unusual is a high share of calls with more than nearly all have
	Amount                 // calls per minute; few are unusual, too
	Spend                  // money per minute
	Share                  // the share of calls with something, as an error of a tool
)

// percentile is the share of calls whose values are usual.
const percentile = 0.95

// A Sample is what a series had in a minute. A minute without calls is one, too; for a minute that was not recorded there is none.
type Sample struct {
	Values *dist.Dist // of Values
	Calls  uint64     // of Share and Spend
	Amount uint64     // of Amount: calls. Of Spend: microdollars. Of Share: the calls that have it
	// Minutes is the length of a longer sample, from stored history. 0 is 1. What is usual is learned from samples of up to an hour,
	// and how much it varies from those of up to ten minutes.
	Minutes int
}

// perMinute reports whether an amount per minute is measured.
func (k Kind) perMinute() bool { return k == Amount || k == Spend }

func (s *Sample) minutes() float64 { return float64(max(1, s.Minutes)) }

// A Basis is the history that tells what is usual.
type Basis uint8

// The bases.
const (
	Nothing    Basis = iota // there is not enough yet
	HoursPast               // the hours before
	HourOfDay               // the same hour of the days before
	HourOfWeek              // the same hour of the weeks before
)

// String returns the basis in words.
func (b Basis) String() string {
	switch b {
	case HoursPast:
		return "the hours before"
	case HourOfDay:
		return "this hour of the days before"
	case HourOfWeek:
		return "this hour of the weeks before"
	default:
		return "nothing yet"
	}
}

// Usual is what is usual at a time.
type Usual struct {
	Basis Basis
	// Value is the usual value: of Values the 95th percentile, of Amount and Spend per minute, of Share the share. Low and High are
	// the lowest and the highest that occur in usual hours; only of Amount, low is unusual.
	Value, Low, High float64
	// Dispersion tells how much more is counted in some minutes than in others. Of Values and Share, it is the variance of the count in
	// relation to that of independent calls. Otherwise it is the square of the variation of the rate, beside that of independent calls.
	Dispersion float64
	// Young reports that it is not known yet how far usual hours are apart, which takes two weeks; Low and High are then far apart.
	Young bool
	// Unit is what is counted: of Spend, what a call costs; else 1.
	Unit float64
	Sums Sums // of Amount
}

// A Direction tells what is unusual.
type Direction int8

// The directions.
const (
	High Direction = 1
	Low  Direction = -1
)

// A Result is what a Test says after a sample.
type Result struct {
	Usual
	// Evidence is high if the present is unusual. An alarm starts at Limit. Both are logarithms.
	Evidence, Limit float64
	Direction       Direction // of the evidence
	// Firing reports whether there is an alarm, Started and Ended whether it began or ended with this sample.
	Firing, Started, Ended bool
	// Since is the estimated time at which what the alarm tells began.
	Since time.Time
	// Now is the present to compare with Usual: of Values the share of calls above Usual.High, which usually is up to 0.05; of Amount and
	// Spend per minute, and of Share the share. It is a mean whose weights halve every ten minutes.
	Now float64
}

// Config is what a false alarm may cost.
type Config struct {
	// PerMonth is the number of false alarms in a month that are acceptable for a stage, and Measures the number of its measures that
	// are tested.
	PerMonth float64
	Measures int
}

// months returns the number of months until a false alarm of a test. The calls of a stage are tested twice: by minutes and by sums.
func (c Config) months() float64 { return float64(c.Measures+1) / c.PerMonth }

// limit returns the log of the evidence that starts an alarm. The expected number of new starts of the test until a false alarm is
// at least that evidence, see the documentation of the package.
func (c Config) limit() float64 {
	const month = 30 * 24 * 60 / startEvery
	return math.Log(month * c.months())
}

// A Watch learns what is usual of one measure of one series, and tests whether the present is. It is not safe for concurrent use.
type Watch struct {
	Baseline Baseline
	Test     Test
}

// New returns a Watch that knows nothing.
func New(k Kind) *Watch { return &Watch{Baseline: Baseline{state: baselineState{Kind: k}}} }

// Add adds the next minute: it is compared with what was usual before it, and then learned.
func (w *Watch) Add(at time.Time, s Sample, c Config) Result {
	r := w.Test.Add(at, w.Baseline.At(at), s, w.Baseline.state.Kind, c)
	w.Baseline.Learn(at, s)
	if w.Test.state.Side != 0 {
		w.Baseline.Mark()
	}
	return r
}

// Accept makes what is measured since a time the new normal, and ends the alarm.
func (w *Watch) Accept(since time.Time) {
	w.Baseline.Accept(since)
	w.Test.Rest()
}

// decay is the factor by which the weight of a minute decreases in a minute.
var decay = math.Exp2(-0.1)
