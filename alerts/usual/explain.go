package usual

import "math"

// A Part is the part of a call that makes it slow.
type Part string

// The parts.
const (
	FirstToken Part = "first token"  // the wait for the first token, as in the queue of the provider
	Prompt     Part = "prompt"       // the same, with longer inputs
	Output     Part = "output"       // longer outputs
	Pace       Part = "pace"         // the time for each token of the output
	Unknown    Part = "unknown part" // no time to the first token and no output is known
)

// Percentiles are the 95th percentiles of the measures of calls; 0 is unknown.
type Percentiles struct{ Duration, First, Input, Output float64 }

// Slow returns the part that most of the additional duration is in, now compared with what is usual. Percentiles of parts do not add
// up to that of the whole, so this is what to look at first, and no proof.
func Slow(usual, now Percentiles) Part {
	more := now.Duration - usual.Duration
	known := usual.First > 0 && now.First > 0
	if known && now.First-usual.First >= more/2 {
		if half(usual.Input, now.Input, usual.First, now.First) {
			return Prompt
		}
		return FirstToken
	}
	if usual.Output > 0 && now.Output > 0 {
		if half(usual.Output, now.Output, max(1, usual.Duration-usual.First), max(1, now.Duration-now.First)) {
			return Output
		}
		return Pace
	}
	if known {
		return Pace
	}
	return Unknown
}

// half reports whether the factor from a to b explains at least half of that from c to d.
func half(a, b, c, d float64) bool {
	return a > 0 && b > a && math.Log(b/a) >= math.Log(d/c)/2
}
