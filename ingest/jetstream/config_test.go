package jetstream

import (
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestRedactURL(t *testing.T) {
	t.Parallel()
	f := func(s, want string) {
		t.Helper()
		must.Equal(t, redactURL(s), want, "redactURL(%q)", s)
	}
	f("nats://a:4222", "nats://a:4222")
	f("nats://u:p@a:4222, nats://u:p@b:4222", "nats://u:xxxxx@a:4222,nats://u:xxxxx@b:4222")
	f("nats://token@a:4222", "nats://xxxxx@a:4222")
	f("nats://u:p%zz@a", "(unreadable)")
}
