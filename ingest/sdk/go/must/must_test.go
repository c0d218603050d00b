package must_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// recorder records failures instead of failing.
type recorder struct {
	testing.TB
	fatal, failed []any
}

func (r *recorder) Helper()                           {}
func (r *recorder) Fatal(args ...any)                 { r.fatal = args }
func (r *recorder) Fatalf(format string, args ...any) { r.fatal = []any{fmt.Sprintf(format, args...)} }

func (r *recorder) Errorf(format string, args ...any) {
	r.failed = append(r.failed, fmt.Sprintf(format, args...))
}

func (r *recorder) Error(args ...any) { r.failed = append(r.failed, args...) }

func TestErrors(t *testing.T) {
	r := &recorder{TB: t}
	must.Do(r, nil)
	if n := must.Get(strconv.Atoi("7"))(r); n != 7 || r.fatal != nil {
		t.Errorf("got %d and %v without an error", n, r.fatal)
	}
	want := errors.New("no disk")
	must.Do(r, want)
	if !slices.Equal(r.fatal, []any{want}) {
		t.Errorf("Do ended the test with %v", r.fatal)
	}
	if must.Do(r, want, "write", 2); !slices.Equal(r.fatal, []any{"write", 2, want}) {
		t.Errorf("Do ended the test with %v", r.fatal)
	}
	if must.Get(strconv.Atoi("x"))(r); len(r.fatal) != 1 || !errors.Is(r.fatal[0].(error), strconv.ErrSyntax) {
		t.Errorf("Get ended the test with %v", r.fatal)
	}
}

func TestRun(t *testing.T) {
	r := &recorder{TB: t}
	stop := must.Run(r, func(ctx context.Context) error { <-ctx.Done(); return errors.New("not closed") })
	stop()
	stop()
	if r.fatal != nil || len(r.failed) != 1 || fmt.Sprint(r.failed) != "[not closed]" {
		t.Errorf("Run failed the test with %q, and ended it with %v", r.failed, r.fatal)
	}
}

func TestJSON(t *testing.T) {
	r := &recorder{TB: t}
	if v := must.JSON[struct{ A []int }](r, []byte(`{"a":[1,2]}`)); len(v.A) != 2 || r.fatal != nil {
		t.Errorf("got %v and %v", v, r.fatal)
	}
	must.JSON[int](r, []byte(`"x"`))
	if len(r.fatal) != 1 || fmt.Sprint(r.fatal) != `[json: cannot unmarshal string into Go value of type int in "x"]` {
		t.Errorf("JSON ended the test with %v", r.fatal)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, start, calls := &recorder{TB: t}, time.Now(), 0
		must.Wait(r, "a minute", func() bool { return time.Since(start) > time.Minute })
		if r.fatal != nil || time.Since(start) > 61*time.Second {
			t.Errorf("waited for %v, and ended the test with %v", time.Since(start), r.fatal)
		}
		must.Wait(r, "never", func() bool { calls++; return r.fatal != nil }, func() any { return calls })
		if waited := time.Since(start); waited < 6*time.Minute || waited > 7*time.Minute || fmt.Sprint(r.fatal) != "[not within 5 minutes: never 1688]" {
			t.Errorf("waited for %v, and ended the test with %v", waited, r.fatal)
		}
	})
}

func TestAgree(t *testing.T) {
	r := &recorder{TB: t}
	must.Agree(r, "", "nothing")
	must.Agree(r, "-1 +2")
	must.Agree(r, "-1 +2", "numbers")
	if r.fatal != nil || !slices.Equal(r.failed, []any{"-1 +2", "numbers (-want +got):\n-1 +2"}) {
		t.Errorf("Agree failed the test with %q, and ended it with %v", r.failed, r.fatal)
	}
}

func TestEqual(t *testing.T) {
	r := &recorder{TB: t}
	must.Equal(r, "a", "a", "letters")
	must.Equal(r, 2*time.Second, 1500*time.Millisecond, "%s of the queue", "age")
	must.Equal(r, "a", "b", "letters")
	if want := []any{"age of the queue: got 2s, want 1.5s", "letters:\n got \"a\"\nwant \"b\""}; r.fatal != nil || !slices.Equal(r.failed, want) {
		t.Errorf("Equal failed the test with %q, and ended it with %v", r.failed, r.fatal)
	}
}

func TestContain(t *testing.T) {
	r := &recorder{TB: t}
	must.Contain(r, "one two", "two")
	must.Contain(r, "one two", "three", "numbers")
	if r.fatal != nil || !slices.Equal(r.failed, []any{"numbers\nno \"three\" in\none two"}) {
		t.Errorf("Contain failed the test with %q, and ended it with %v", r.failed, r.fatal)
	}
}

func TestFail(t *testing.T) {
	r := &recorder{TB: t}
	full := errors.New("disk is full")
	must.Fail(r, full, "full")
	must.Is(r, fmt.Errorf("write: %w", full), full)
	must.Fail(r, must.Err(7, full), "empty", "write")
	must.Fail(r, nil, "full", "write")
	must.Is(r, nil, full, "write")
	want := []any{
		"write\ngot error disk is full, want one with \"empty\"", "write\ngot error <nil>, want one with \"full\"", "write\ngot error <nil>, want disk is full",
	}
	if r.fatal != nil || !slices.Equal(r.failed, want) {
		t.Errorf("the test failed with %q, and ended with %v", r.failed, r.fatal)
	}
}
