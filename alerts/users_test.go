package alerts

import (
	"fmt"
	"math"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
)

// The number of users is nearly exact, does not change when they are hit again, and is bounded.
func TestUsers(t *testing.T) {
	var u, again Users
	n := 0
	for _, want := range []int{0, 1, 10, 100, 1000, 10_000, 100_000} {
		for ; n < want; n++ {
			u.Add(analyzer.UserBucket(fmt.Sprint("user", n)))
		}
		if got := u.Count(); math.Abs(float64(got-want)) > max(1, 0.02*float64(want)) {
			t.Errorf("%d users, counted %d", want, got)
		}
	}
	if !again.Merge(u) || again.Merge(u) || again.Count() != u.Count() {
		t.Errorf("merged: %d users, want %d", again.Count(), u.Count())
	}
	for b := range uint16(analyzer.UserBuckets) {
		u.Add(b)
	}
	if n := u.Count(); n < 150_000 || n > 200_000 {
		t.Errorf("%d users in all buckets", n)
	}
}
