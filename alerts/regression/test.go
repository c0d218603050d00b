package regression

import (
	"cmp"
	"math"
)

// Tolerance is the odds ratio of failures up to which a new version is not worse.
const Tolerance = 1.2

// measureTolerance is that of values beyond the 95th percentile, such as durations: up to 9.5% of calls instead of 5%.
const measureTolerance = 2

// alternatives are the odds ratios that the evidence is the mean over.
var alternatives = [...]float64{1.7, 2.4, 4, 8, 20, 60, 300, 3000}

// bounds are the odds ratios that RuledOut considers.
var bounds = [...]float64{1.5, 2, 3, 5, 10, 20, 50, 100}

// A Slice contains the calls of both versions that are compared with each other, and how many of them failed.
type Slice struct{ New, NewFailed, Old, OldFailed uint64 }

// A Test accumulates slices. The zero value is ready to use.
type Test struct {
	tolerance float64 // 0: Tolerance

	log    [len(alternatives)]float64 // log likelihood ratio of each alternative against Tolerance
	bounds [len(bounds)]float64       // log likelihood ratio of an odds ratio of 1 against each bound
}

// Add adds the calls of a slice. Each call may be added once.
func (t *Test) Add(s Slice) {
	m := s.NewFailed + s.OldFailed
	if s.New == 0 || s.Old == 0 || m == 0 || m == s.New+s.Old {
		return // every odds ratio explains it equally well
	}
	h := newHypergeometric(s.New, s.Old, m)
	x := float64(s.NewFailed)
	tolerance := cmp.Or(t.tolerance, Tolerance)
	null := h.logM(tolerance)
	for i, w := range alternatives {
		if w > tolerance { // others are no alternatives, and their factor stays 1
			t.log[i] += x*math.Log(w/tolerance) + null - h.logM(w)
		}
	}
	one := h.logM(1)
	for i, w := range bounds {
		t.bounds[i] += -x*math.Log(w) + h.logM(w) - one
	}
}

// Evidence returns the evidence that the odds ratio is above the tolerance. If it is not, the probability that the evidence ever
// reaches 1/alpha is at most alpha.
func (t *Test) Evidence() float64 {
	sum := 0.0
	for _, l := range t.log {
		sum += math.Exp(min(l, 600)) // no overflow
	}
	return sum / float64(len(t.log))
}

// RuledOut returns the smallest odds ratio such that the calls rule it and all higher ones out with error probability alpha,
// or 0 if there is none.
func (t *Test) RuledOut(alpha float64) float64 {
	for i, l := range t.bounds {
		if l >= -math.Log(alpha) {
			return bounds[i]
		}
	}
	return 0
}

// A hypergeometric is the distribution of the failures among the new calls of a slice.
type hypergeometric struct {
	lo   float64   // the fewest failures
	logP []float64 // log of the probability of lo, lo+1, … failures, up to a constant
}

func newHypergeometric(n, o, m uint64) hypergeometric {
	lo := uint64(0)
	if m > o {
		lo = m - o
	}
	hi := min(m, n)
	h := hypergeometric{float64(lo), make([]float64, hi-lo+1)}
	for k := lo; k < hi; k++ { // the ratio of neighboring probabilities needs no factorials
		up := math.Log(float64(n-k)) + math.Log(float64(m-k))
		down := math.Log(float64(k+1)) + math.Log(float64(o+k+1-m))
		h.logP[k-lo+1] = h.logP[k-lo] + up - down
	}
	return h
}

// logM returns the log of the sum of P(k)·w^k, with the constant of logP.
func (h hypergeometric) logM(w float64) float64 {
	lw, most := math.Log(w), math.Inf(-1)
	for i, p := range h.logP {
		most = max(most, p+float64(i)*lw)
	}
	sum := 0.0
	for i, p := range h.logP {
		sum += math.Exp(p + float64(i)*lw - most)
	}
	return most + math.Log(sum) + h.lo*lw
}
