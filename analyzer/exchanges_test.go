package analyzer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// The accounted bytes and counts return to zero however waiting state is removed.
func TestWaitingStateIsReleased(t *testing.T) {
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
		if x := a.exchanges; x.waitingBytes < 0 || x.pendingBytes < 0 {
			t.Fatalf("after %d events: %d bytes waiting, %d pending", i, x.waitingBytes, x.pendingBytes)
		}
	}
	a.Advance(now.Add(2*time.Hour), true, out)
	x, processes := a.exchanges, a.processes.queue.Len()
	if x.waitingBytes != 0 || x.pendingBytes != 0 || x.parts.Len() != 0 || x.early.Len() != 0 || x.pending.Len() != 0 || processes != 0 || x.completed.exchanges.Len() != 0 {
		t.Errorf("%d bytes waiting, %d pending; %d parts, %d early, %d pending, %d processes, %d completed", x.waitingBytes, x.pendingBytes, x.parts.Len(), x.early.Len(),
			x.pending.Len(), processes, x.completed.exchanges.Len())
	}
	if len(out.Dead) == 0 || len(out.Exchanges) == 0 {
		t.Error("no dead letter or no row; the test shows nothing")
	}
}
