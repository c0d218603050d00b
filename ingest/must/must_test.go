package must_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/llmtap/llmtap/ingest/must"
)

// fatal records what a test ends with instead of ending it.
type fatal struct {
	testing.TB
	with []any
}

func (f *fatal) Helper()           {}
func (f *fatal) Fatal(args ...any) { f.with = args }

func TestMust(t *testing.T) {
	f := &fatal{TB: t}
	must.Do(f, nil)
	if n := must.Get(strconv.Atoi("7"))(f); n != 7 || f.with != nil {
		t.Errorf("got %d and %v without an error", n, f.with)
	}
	want := errors.New("no disk")
	must.Do(f, want)
	if len(f.with) != 1 || !errors.Is(f.with[0].(error), want) {
		t.Errorf("Do ended the test with %v", f.with)
	}
	if must.Get(strconv.Atoi("x"))(f); len(f.with) != 1 || !errors.Is(f.with[0].(error), strconv.ErrSyntax) {
		t.Errorf("Get ended the test with %v", f.with)
	}
}
