package sent

import (
	"errors"
	"testing"

	"github.com/llmtap/llmtap/alerts/alertstest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A sharedStore is a Store of which another process has turns.
type sharedStore struct {
	alertstest.Store
	turn uint64
}

func (s *sharedStore) Turn() uint64 { return s.turn }

// A notifier forgets what it knows of its messages if another process may have sent others, and only then.
func TestRecordsOfAnotherTurn(t *testing.T) {
	shared := &sharedStore{turn: 1}
	a := New[string](shared, "slack", "", nil)
	b := New[string](&shared.Store, "slack", "", nil)
	f := func(want string) {
		t.Helper()
		got, _ := a.Load(t.Context(), "group")
		must.Equal(t, got, want, "loaded")
	}
	a.Save(t.Context(), "group", "first incident")
	b.Save(t.Context(), "group", "second incident")
	f("first incident")
	shared.turn++
	f("second incident")
	shared.Fail(errors.New("NATS is away"))
	a.Save(t.Context(), "group", "third incident")
	f("third incident")
}
