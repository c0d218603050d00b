// Package must has the checks, and the ways to run and to wait, that most tests repeat.
package must

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Do ends the test if err is not nil. What failed is optional.
func Do(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(append(what, err)...)
	}
}

// Get returns the value of a call that also returns an error, and ends the test if there is one: must.Get(os.ReadFile(path))(t).
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// JSON returns the value of a JSON text, and ends the test if it has none of this type.
func JSON[T any](t testing.TB, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %.2000s", err, text)
	}
	return v
}

// Agree fails the test with diff, a result of cmp.Diff(want, got), unless it is empty; the test continues. The name of what differs is optional.
func Agree(t testing.TB, diff string, what ...any) {
	if diff == "" {
		return
	}
	t.Helper()
	if len(what) > 0 {
		diff = strings.TrimSpace(fmt.Sprintln(what...)) + " (-want +got):\n" + diff
	}
	t.Error(diff)
}

// Contain fails the test unless part is in text; the test continues. The name of the text is optional.
func Contain(t testing.TB, text, part string, what ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%sno %q in\n%s", fmt.Sprintln(what...), part, text)
	}
}

// Equal fails the test unless got is want; the test continues. What it says is a format and its arguments: the name of what is compared.
func Equal[T comparable](t testing.TB, got, want T, format string, args ...any) {
	if got == want {
		return
	}
	t.Helper()
	what := fmt.Sprintf(format, args...)
	if g, ok := any(got).(string); ok {
		t.Errorf("%s:\n got %.2000q\nwant %.2000q", what, g, any(want))
		return
	}
	t.Errorf("%s: got %+v, want %+v", what, got, want)
}

// Fail fails the test unless err is an error with part in its text; the test continues. The name of what should fail is optional.
func Fail(t testing.TB, err error, part string, what ...any) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("%sgot error %v, want one with %q", fmt.Sprintln(what...), err, part)
	}
}

// Is fails the test unless err is target; the test continues. The name of what returned it is optional.
func Is(t testing.TB, err, target error, what ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Errorf("%sgot error %v, want %v", fmt.Sprintln(what...), err, target)
	}
}

// Wait waits until ok returns true, and ends the test after 5 minutes, with what should be and with the state at the end, if given. It calls
// ok every 5 ms, or less often, up to every 200 ms, if ok takes long, such as a query, or after it has waited for long.
func Wait(t testing.TB, what string, ok func() bool, state ...func() any) {
	t.Helper()
	for began := time.Now(); ; {
		asked := time.Now()
		if ok() {
			return
		}
		if time.Since(began) > 5*time.Minute {
			failed := []any{"not within 5 minutes:", what}
			for _, s := range state {
				failed = append(failed, s())
			}
			t.Fatal(failed...)
			return
		}
		time.Sleep(min(max(5*time.Millisecond, 5*time.Since(asked), time.Since(began)/50), 200*time.Millisecond))
	}
}

// Run runs a blocking call, such as that of an engine, in the background. It is ended by stop, and by the end of the test.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Err returns the error of a call that also returns a value.
func Err[T any](_ T, err error) error { return err }
