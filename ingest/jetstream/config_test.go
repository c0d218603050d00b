package jetstream

import "testing"

func TestRedactURL(t *testing.T) {
	f := func(s, want string) {
		t.Helper()
		if got := redactURL(s); got != want {
			t.Errorf("redactURL(%q) = %q, want %q", s, got, want)
		}
	}
	f("nats://a:4222", "nats://a:4222")
	f("nats://u:p@a:4222, nats://u:p@b:4222", "nats://u:xxxxx@a:4222,nats://u:xxxxx@b:4222")
	f("nats://token@a:4222", "nats://xxxxx@a:4222")
	f("nats://u:p%zz@a", "(unreadable)")
}
