package load

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The calls of a fleet have the sizes, turns and errors of the recorded traffic they are made after, within a factor of two.
func TestFleetShape(t *testing.T) {
	f := NewFleet(FleetConfig{Seed: 1, Shape: Mix, Services: 20, Environment: "test"})
	f.Agents(50)
	const calls = 5000
	var all, runs []int
	var failed, refused, streamed float64
	conversations := map[string]bool{}
	for n := 0; n < calls; {
		c, events := f.Next()
		if last := events[len(events)-1]; n%16 == 0 && !json.Valid(last.Body) {
			t.Fatalf("invalid request: %.300s", last.Body)
		}
		if c == nil {
			continue
		}
		n++
		conversations[c.Labels.Conversation] = true
		all = append(all, len(c.Request))
		if len(c.Request) > len(f.tools)+2*len(f.prompt[0])/3 && c.Status == 200 {
			runs = append(runs, len(c.Request))
		}
		switch {
		case c.Status == 400:
			refused++
			failed++
		case c.Status > 400:
			failed++
		case c.ResponseType != "application/json":
			streamed++
		case !json.Valid(c.Response):
			t.Fatalf("invalid response: %.300s", c.Response)
		}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		t.Logf("%s: %.4g, recorded %.4g", what, got, want)
		if math.IsNaN(got) || got < want/2 || got > want*2 {
			t.Errorf("%s: %g, recorded %g", what, got, want)
		}
	}
	sum := 0
	for _, n := range all {
		sum += n
	}
	slices.Sort(all)
	slices.Sort(runs)
	near("mean request", float64(sum)/calls, 33_000)
	near("95th percentile of requests", float64(all[len(all)*95/100]), 139_591)
	near("median request of runs", float64(runs[len(runs)/2]), 34_783)
	near("calls of a conversation", calls/float64(len(conversations)), 2.97)
	near("failed calls", failed/calls, 759./27485)
	near("answers 400", refused/calls, 334./27485)
	if streamed/calls > streamShare || streamed == 0 {
		t.Errorf("%g of the answers are streamed", streamed/calls)
	}
}

// The same seed makes the same calls, but for ids.
func TestFleetSeed(t *testing.T) {
	sizes := func(seed uint64) (all []int) {
		f := NewFleet(FleetConfig{Seed: seed, Shape: Mix, Services: 5, Environment: "test"})
		f.Agents(7)
		for range 200 {
			_, events := f.Next()
			all = append(all, len(events[len(events)-1].Body))
		}
		return all
	}
	three := sizes(3)
	must.Agree(t, cmp.Diff(sizes(3), three), "the same seed makes other calls")
	if slices.Equal(three, sizes(4)) {
		t.Error("another seed makes the same calls")
	}
}
