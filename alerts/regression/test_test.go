package regression

import (
	"math"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The expected factor of each alternative is 1 if the odds ratio is Tolerance, and at most 1 below.
func TestMartingale(t *testing.T) {
	for _, s := range []Slice{{New: 1, Old: 1, OldFailed: 1}, {New: 5, Old: 5, OldFailed: 5}, {New: 3, Old: 40, OldFailed: 7}, {New: 40, Old: 3, OldFailed: 30}} {
		m := s.NewFailed + s.OldFailed
		h := newHypergeometric(s.New, s.Old, m)
		for _, w := range []float64{0.5, 1, Tolerance, 1.5} {
			sum := 0.0
			for i, p := range h.logP {
				x := h.lo + float64(i)
				var test Test
				test.Add(Slice{s.New, uint64(x), s.Old, m - uint64(x)})
				sum += math.Exp(p+float64(i)*math.Log(w)) * test.Evidence()
			}
			mean := sum / math.Exp(h.logM(w)-h.lo*math.Log(w))
			switch {
			case w == Tolerance && math.Abs(mean-1) > 1e-9, w < Tolerance && mean > 1, w > Tolerance && mean <= 1:
				t.Errorf("%+v, odds ratio %g: mean factor %g", s, w, mean)
			}
		}
	}
}

func TestEvidence(t *testing.T) {
	var all Test
	all.Add(Slice{New: 5, NewFailed: 5, Old: 5})
	// The limit for high odds ratios is the inverse of the probability of the outcome, 252; some alternatives are lower.
	if e := all.Evidence(); e < 50 || e > 252 {
		t.Errorf("evidence %g", e)
	}
	var none Test
	none.Add(Slice{New: 100, Old: 1000})
	none.Add(Slice{New: 10, NewFailed: 10, Old: 10, OldFailed: 10})
	if e, r := none.Evidence(), none.RuledOut(0.05); math.Abs(e-1) > 1e-9 || r != 0 {
		t.Errorf("without a difference in any slice: evidence %g, ruled out %g", e, r)
	}
	var huge Test
	for range 1000 {
		huge.Add(Slice{New: 1000, NewFailed: 1000, Old: 1000})
	}
	if e := huge.Evidence(); math.IsInf(e, 0) || math.IsNaN(e) {
		t.Errorf("evidence %g", e)
	}
}

func TestRuledOut(t *testing.T) {
	var test Test
	last := math.Inf(1)
	for range 60 {
		test.Add(Slice{New: 20, NewFailed: 1, Old: 20, OldFailed: 1})
		r := test.RuledOut(0.05)
		if r > 0 && r > last {
			t.Fatalf("%g after %g", r, last)
		} else if r > 0 {
			last = r
		}
	}
	if last > 3 {
		t.Errorf("60 failures of each version rule out %g at least", last)
	}
}

// An outage at both versions is no evidence, and without an old version its failures are not compared.
func TestOutage(t *testing.T) {
	var cells []Cell
	const start = 1_000_000
	for at := int64(start - 1000); at < start; at += Tick {
		cells = append(cells, Cell{Stage: "s", At: at, Old: Counts{Calls: 10}})
	}
	for at := int64(start); at < start+300; at += Tick {
		x := Cell{Stage: "s", At: at, New: Counts{10, 9, 9}}
		if at < start+150 {
			x.Old = Counts{10, 9, 9}
		}
		cells = append(cells, x)
	}
	r := Compare(cells, time.Unix(start, 0), time.Unix(start+300, 0), 0.001, true)
	if r.Worse || len(r.Groups) != 1 || r.Groups[0].Before == 0 {
		t.Errorf("%+v", r)
	}
}

// A later look continues the evidence of an earlier one.
func TestLooks(t *testing.T) {
	var cells []Cell
	const start = 1_000_000
	for at := int64(start); at < start+120; at += Tick {
		cells = append(cells, Cell{Stage: "s", At: at, New: Counts{Calls: 1 + uint64(at)%3, Failed: 1}, Old: Counts{Calls: 2, Failed: uint64(at) / 2 % 2}})
	}
	last := 0.0
	for end := int64(start); end <= start+120; end += 7 {
		r := Compare(cells, time.Unix(start, 0), time.Unix(end, 0), 1e-12, false)
		if r.Evidence < last {
			t.Errorf("evidence %g after %g", r.Evidence, last)
		}
		last = r.Evidence
	}
}

func TestPosition(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 1000: 4} {
		must.Equal(t, Position(n), want, "%d", n)
	}
}
