package rules

import (
	"math"
	"testing"
)

func TestFinite(t *testing.T) {
	if finite(math.Inf(1)) != math.MaxFloat64 || finite(math.NaN()) != 0 {
		t.Error("a value remains that JSON cannot represent")
	}
}
