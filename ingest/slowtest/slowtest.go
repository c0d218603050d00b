// Package slowtest marks the tests that take more than ten seconds, or more than five of the processor, so that go test ./... takes
// minutes and not a quarter of an hour. CI runs the marked tests by name, see .ci/run.
package slowtest

import (
	"flag"
	"syscall"
	"testing"
	"time"
)

var slow = flag.Bool("slow", false, "run the slow tests too")

// Skip skips the test unless the flag -slow is set.
func Skip(t *testing.T) {
	t.Helper()
	if !*slow {
		t.Skip("SKIPPED without -slow")
	}
}

// SkipShort skips the test if the flag -short is set, as it is for the race detector; why says what makes it slow, and what else covers it.
func SkipShort(t *testing.T, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED with -short: " + why)
	}
}

// Tenth returns n with the flag -slow, and a tenth of n without.
func Tenth(t *testing.T, n int) int {
	t.Helper()
	if *slow {
		return n
	}
	return n / 10
}

// Processor returns the time of the processor that this process has taken. Unlike the time of a clock, it is the same on a busy machine.
func Processor(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
