package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The query is that of deploy/gates.
func TestVersionEvidence(t *testing.T) {
	f := func(oldFailed, newFailed uint64, worse bool) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, Default(), nil)
			evidence := func() float64 {
				t.Helper()
				v, err := b.Query(t.Context(), `max(llmtap_version_evidence{service="checkout-agent",service_version="2.4.0"}) or vector(0)`, time.Unix(b.sec-2, 0))
				if err != nil || len(v) != 1 {
					t.Fatal(v, err)
				}
				return v[0].Value
			}
			b.seconds(60, calls("2.3.9", 10))
			must.Equal(t, evidence(), 0, "before the rollout: evidence")
			b.seconds(90, calls("2.3.9", 10), calls("2.4.0", 5), failures("2.3.9", "auth", "", oldFailed), failures("2.4.0", "auth", "", newFailed))
			e := evidence()
			must.Equal(t, e >= 1000, worse, "%d of 10 and %d of 5 failed: evidence %g, worse: %t", oldFailed, newFailed, e, worse)
		})
	}
	f(0, 3, true)
	f(6, 3, false)
	f(0, 0, false)
}
