package engine

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// An alert about one service has the evidence of that service only, and an alert about no particular service has that of all.
// Series that have ended are forgotten.
func TestEvidenceByService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.RuleFiles = []string{filepath.Join(t.TempDir(), "rules.yaml")}
		rules := "groups: [{name: a, rules: [" +
			"{alert: Fleet, expr: 'sum(increase(llmtap_failed_calls_total[10m])) > 0'}, " +
			"{alert: Service, expr: 'sum by (service) (increase(llmtap_failed_calls_total[10m])) > 0'}]}]"
		must.Do(t, os.WriteFile(cfg.RuleFiles[0], []byte(rules), 0o600))
		b := newBench(t, cfg, nil)
		other := failures("1", "x", "", 7)
		other.Labels = with(other.Labels, "service", "search")
		b.second(calls("1", 20), failures("1", "x", "", 5), other)
		b.idle(10 * time.Second)
		got := map[string]uint64{}
		for _, a := range b.Active() {
			got[a.Name+" "+a.Labels["service"]] = a.Evidence.Failed
		}
		if len(got) != 3 || got["Fleet "] != 12 || got["Service checkout-agent"] != 5 || got["Service search"] != 7 {
			t.Errorf("failed calls %v", got)
		}
		b.idle(cfg.Retention + time.Minute)
		if n, m := len(b.samples.services["checkout-agent"]), len(b.samples.services["search"]); n+m != 0 {
			t.Errorf("%d series of services that have ended", n+m)
		}
	})
}

func TestPoints(t *testing.T) {
	var s series
	for _, p := range []struct {
		second int64
		n      uint64
	}{{maxSecond, 3}, {100, 1}, {102, math.MaxUint32}, {102, 1}, {101, 5}} {
		s.add(p.second, p.n)
	}
	for _, want := range []struct {
		from, to int64
		n        uint64
		last     int64
	}{{0, 102, 6, 101}, {101, 103, 5 + math.MaxUint32, 102}, {103, maxSecond + 1, 3, maxSecond}, {103, maxSecond, 0, 0}} {
		if n, last := s.between(want.from, want.to), s.last(want.from, want.to); n != want.n || last != want.last {
			t.Errorf("[%d, %d): %d, last %d; want %d, %d", want.from, want.to, n, last, want.n, want.last)
		}
	}
	s.trim(102)
	must.Equal(t, len(s.points), 2, "points after trim, want 2")
	_, _, err := newSteps(Default()).add(tally{Tally: &analyzer.Tally{Second: maxSecond + 1}})
	must.Fail(t, err, "", "a second that a point cannot represent is accepted")
}
