package analyzer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/ingest/event"
)

// What waits is taken off the accounts when it goes, in whatever way it goes.
func TestNothingWaitsForEver(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	a := New(Default(), nil, prometheus.NewRegistry())
	out := new(Output)
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i := range 20_000 {
		now = now.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		ev := &event.Event{
			Kind: event.Request + event.Kind(rnd.IntN(2)), Exchange: fmt.Sprintf("x%d", rnd.IntN(300)), Time: now, Status: 200,
			URL: "https://api.openai.com/v1/chat/completions", Body: make([]byte, rnd.IntN(100)), Part: 1 + rnd.IntN(3), Parts: 1 + rnd.IntN(3),
			BodyBytes: 50 + rnd.IntN(2), Instance: fmt.Sprintf("i%d", rnd.IntN(3)), Seq: uint64(i + rnd.IntN(20)),
		}
		a.Process(ev, Position{Seq: uint64(i + 1), Time: now}, true, out)
		if a.held < 0 || a.bytes < 0 {
			t.Fatalf("after %d events: %d bytes held, %d open", i, a.held, a.bytes)
		}
	}
	a.Advance(now.Add(2*time.Hour), true, out)
	if a.held != 0 || a.bytes != 0 || a.parts.Len() != 0 || a.early.Len() != 0 || a.open.Len() != 0 || a.instances.Len() != 0 || a.done.exchanges.Len() != 0 {
		t.Errorf("%d bytes held, %d of open; %d parts, %d early, %d open, %d instances, %d done", a.held, a.bytes, a.parts.Len(), a.early.Len(),
			a.open.Len(), a.instances.Len(), a.done.exchanges.Len())
	}
	if len(out.Dead) == 0 || len(out.Exchanges) == 0 {
		t.Error("no dead letter or no row; the test shows nothing")
	}
}
