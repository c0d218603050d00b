package rules

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

func TestCondition(t *testing.T) {
	list := must.Get(Source{Interval: time.Second, MaxWindow: time.Hour}.Load())(t)
	want := map[string]float64{"StageFailureRate": 0.3, "CollectorBlind": 300, "BadRequestBurst": 15, "NewCause": 5}
	for _, r := range list {
		c, ok := r.Condition()
		t.Logf("%s (%s): %v %s %g others=%v: %s", r.Name, r.Severity(), ok, c.Op, c.Threshold, c.Others, c.Value)
		if n, tested := want[r.Name]; tested {
			delete(want, r.Name)
			if !ok || c.Threshold != n {
				t.Errorf("%s: %+v, want a threshold of %g", r.Name, c, n)
			}
		}
		if _, err := promqlParser.ParseExpr(c.Value); ok && err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("rules %v are missing", want)
	}
}
