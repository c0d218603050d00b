package alerts

import "testing"

// The fewer of the failing version's calls fail, the more calls without a failure show that another version is clean.
func TestEnoughCalls(t *testing.T) {
	f := func(failed, all, enough uint64) {
		t.Helper()
		if EnoughCalls(enough-1, failed, all) || !EnoughCalls(enough, failed, all) {
			t.Errorf("%d of %d: %d calls are not the fewest that are enough", failed, all, enough)
		}
	}
	f(10, 10, 1)
	f(9, 10, 2)
	f(45, 100, 6)
	f(1, 10, 29)
	f(1, 20, 59)
	f(1, 100, 299)
	f(11, 10, 1)
	for _, calls := range []uint64{0, 1, 1000} {
		if EnoughCalls(calls, 0, 10) || EnoughCalls(calls, 0, 0) {
			t.Error("a version that does not fail is compared")
		}
	}
}

// A version of the window is only clean if it has made enough calls.
func TestRegressionOfWindow(t *testing.T) {
	f := func(clean uint64, want string) {
		t.Helper()
		ev := Evidence{Versions: []VersionCount{{Version: "1", Calls: clean}, {Version: "2", Calls: 100, Failed: 10}}}
		if first, last := ev.Regression(); first != "2" || last != want {
			t.Errorf("after %d calls: %s, last clean %q, want %q", clean, first, last, want)
		}
	}
	f(28, "")
	f(29, "1")
}
