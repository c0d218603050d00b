package collector

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/alerts"
	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/pages"
	"github.com/llmtap/llmtap/dashboards/web"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A process with only the role ui reads the tallies and problems of others and what is usual, can silence, and can decide about problems.
func TestUIAlone(t *testing.T) {
	t.Parallel()
	natsURL := collectortest.StartNATS(t, "")
	c := open(t, func(cfg *config.Config) {
		cfg.Roles, cfg.UI.Listen, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleUI}, "127.0.0.1:0", natsURL, "http://127.0.0.1:1/llmtap"
		cfg.Batcher.DrainTimeout = noStore
	})
	// The leader has stored that something is unusual.
	bucket := must.Get(collectortest.ConnectNATS(t, natsURL, prometheus.NewRegistry()).KV(t.Context(), event.BucketAlerts))(t)
	var shard bytes.Buffer
	w := gzip.NewWriter(&shard)
	fmt.Fprintf(w, `{"minute":%[1]d,"stages":[{"service":"shop","seen":%[1]d,"firing":[{"Metric":"llmtap_unusual","Labels":{"service":"shop","measure":"duration"},"Value":0.4}]}]}`, time.Now().Unix()/60-1)
	must.Do(t, w.Close())
	must.Do(t, bucket.Put(t.Context(), "usual.0", shard.Bytes()))
	collectortest.Run(t, c)
	tallies := pages.Tallies(c.calls.Load)
	now := time.Now().Truncate(time.Second)
	sent := false
	must.Wait(t, "the pages see the tallies", func() bool {
		if c.calls.Load() == nil { // NATS is not connected yet, or the streams are being created
			return false
		}
		for i := int64(-30); i < 0 && !sent; i++ {
			calls := []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: map[string]string{"service": "shop"}, N: 2}}
			payload := must.Get(json.Marshal(analyzer.Tally{Epoch: 1, Second: now.Unix() + i, Counts: calls}))(t)
			must.Do(t, c.conn.Load().PublishTally(t.Context(), 0, 1, now.Unix()+i, payload))
		}
		sent = true
		series := must.Get(tallies.Range(t.Context(), `sum(increase(llmtap_calls_total{service="shop"}[1m]))`, now, now, time.Minute))(t)
		return len(series) == 1 && series[0].Points[0].Value > 0 && c.ui.controls() != nil
	})
	must.Wait(t, "what is unusual", func() bool {
		series, err := tallies.Range(t.Context(), "llmtap_unusual", now, now, time.Minute)
		return err == nil && len(series) == 1 && series[0].Points[0].Value == 0.4
	})
	actions := pages.Controls{Alerts: pages.Alerts{Groups: c.ui.groups}, Controls: c.ui.controls, Engines: c.engines}
	must.Do(t, actions.AddSilence(t.Context(), []string{"service=shop"}, now.Add(time.Hour), "test", "Anna"))
	list, err := actions.Silences(t.Context())
	if err != nil || len(list) != 1 || list[0].By != "Anna" {
		t.Errorf("silences %+v, error %v", list, err)
	}
	if rules, err := actions.Rules(t.Context()); err != nil || len(rules) == 0 {
		t.Errorf("rules %v, error %v", rules, err)
	}
	problem := alerts.Problem{
		Key: `problem{service="shop",stage="planner",problem="dropped"}`, Service: "shop", Stage: "planner", Cause: "dropped", FirstSeen: now, LastSeen: now, Rules: []string{"Burst"}, Severity: "critical",
		Summary: "shop/planner: 7 calls failed", Versions: []alerts.ProblemVersion{{Version: "1.0"}}, Incidents: 1, Firing: true,
	}
	kv := must.Get(c.conn.Load().KV(t.Context(), event.BucketAlerts))(t)
	must.Do(t, kv.Put(t.Context(), problemKey+problem.ID(), must.Get(json.Marshal(problem))(t)))
	problems := pages.Problems{Controls: actions, Problems: c.knownProblems}
	must.Wait(t, "the pages see the problem", func() bool {
		all, err := problems.All(t.Context())
		return err == nil && len(all) == 1
	})
	must.Do(t, problems.Decide(t.Context(), problem.ID(), web.ProblemDecision{Action: alerts.ActionResolve, Version: "1.1"}, "Anna"))
	got := must.Get(problems.Problem(t.Context(), problem.ID()))(t)
	if got.State != alerts.ProblemResolved || got.Fixed == nil || got.Fixed.By != "Anna" || got.Fixed.Version != "1.1" || got.Summary != "7 calls failed" || len(got.Silences) != 1 {
		t.Errorf("the problem is %+v, fixed %+v", got, got.Fixed)
	}
	if _, err := problems.Problem(t.Context(), "unknown"); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("an unknown problem: error %v", err)
	}
}
