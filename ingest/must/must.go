// Package must ends a test at an error that it does not expect.
package must

import "testing"

// Do ends the test if err is not nil.
func Do(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
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
