package terminal

import "testing"

func TestMiddle(t *testing.T) {
	f := func(s string, n int, want string) {
		t.Helper()
		if got := Middle(s, n); got != want {
			t.Errorf("Middle(%q, %d) = %q, want %q", s, n, got, want)
		}
	}
	f("abcdef", 6, "abcdef")
	f("abcdefghi", 6, "abcd … 3 characters left out … hi")
	f("名前名前名前", 3, "名前 … 3 characters left out … 前")
}

func TestAround(t *testing.T) {
	f := func(s string, at, n int, want string) {
		t.Helper()
		if got := Around(s, at, n); got != want {
			t.Errorf("Around(%q, %d, %d) = %q, want %q", s, at, n, got, want)
		}
	}
	f("abcdef", 5, 6, "abcdef")
	f("abcdefghi", 0, 3, "abc…")
	f("abcdefghi", 4, 3, "…def…")
	f("abcdefghi", 9, 3, "…ghi")
	f("名前名前名前", 6, 3, "…前名前…")
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %q, want %q", n, got, want)
		}
	}
}
