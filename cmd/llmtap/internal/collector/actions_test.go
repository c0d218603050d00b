package collector

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
)

// Who did what is stored after an outage of ClickHouse, even if the process has ended meanwhile.
func TestActionsSurviveAnOutage(t *testing.T) {
	t.Parallel()
	url := collectortest.StartNATS(t, "")
	a, lost := openControls(t, url)
	b, sink := openControls(t, url)
	lost.down = &sinks.RetryError{Err: errors.New("ClickHouse is down")}
	anna := alerts.Actor{ID: "U1", Via: "slack"}
	for _, action := range []string{"silence", "show_query"} {
		must.Do(t, a.Record(t.Context(), action, `X{service="shop"}`, "", anna))
	}
	kept := func() int {
		values := must.Get(b.kv.Values(t.Context(), actionKey+"*"))(t)
		return len(values)
	}
	restore := func(at time.Time) {
		must.Do(t, b.actions.restore(t.Context(), at))
	}
	restore(time.Now()) // they may be in the queue of a
	if n := kept(); n != 2 || b.actions.count() != 0 {
		t.Errorf("%d actions are in NATS", n)
	}
	restore(time.Now().Add(2 * actionAge))
	must.Wait(t, "the rows", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return slices.Equal(sink.rows, []string{"silence U1 slack shop", "show_query U1 slack shop"})
	})
	must.Wait(t, "the end of the copies", func() bool { return kept() == 0 && b.actions.count() == 0 })

	// A stored row leaves no copy.
	must.Do(t, b.Record(t.Context(), "show_query", "X{}", "", anna))
	must.Wait(t, "the end of the copy", func() bool { return kept() == 0 && b.actions.count() == 0 })
}

// An action does not fill NATS.
func TestActionsAreBounded(t *testing.T) {
	t.Parallel()
	a, _ := openControls(t, collectortest.StartNATS(t, ""))
	a.actions.mu.Lock()
	a.actions.waiting = make([]string, maxActions)
	a.actions.mu.Unlock()
	must.Do(t, a.Record(t.Context(), "show_query", "X{}", "", alerts.Actor{ID: "U1", Via: "slack"}))
	must.Equal(t, len(must.Get(a.kv.Values(t.Context(), actionKey+"*"))(t)), 0, "actions are in NATS")
}
