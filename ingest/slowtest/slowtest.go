// Package slowtest marks the tests that take more than ten seconds, or more than five of the processor, so that go test ./... takes
// minutes and not a quarter of an hour. They run with the flag -slow, or with LLMTAP_SLOW=1 in the environment, as in CI: Go keeps the
// results of tests with variables, but not of those with flags that it does not know. Waits and Computes make all tests of a package faster.
package slowtest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

var slow = flag.Bool("slow", false, "run the slow tests too, as with LLMTAP_SLOW=1")

// wanted reads the variable in the test: of one that is read earlier, Go would not know.
func wanted() bool {
	return *slow || os.Getenv("LLMTAP_SLOW") != ""
}

// Skip skips the test unless slow tests are wanted.
func Skip(t *testing.T) {
	t.Helper()
	if !wanted() {
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

// Tenth returns n if slow tests are wanted, and else a tenth of n.
func Tenth(t *testing.T, n int) int {
	t.Helper()
	if wanted() {
		return n
	}
	return n / 10
}

// Waits lets at least four parallel tests of a package run at once, for packages whose tests wait for processes and servers more than
// they compute. TestMain calls it.
func Waits() {
	_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))) // the flag exists
}

// Computes collects garbage a quarter as often, for packages whose tests compute: it takes up to a third of their time. Benchmarks
// measure a program as it runs. TestMain calls it.
func Computes() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
}

// Processor returns the time of the processor that this process has taken. Unlike the time of a clock, it is the same on a busy machine.
func Processor(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	must.Do(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
