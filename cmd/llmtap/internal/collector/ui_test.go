package collector

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/pages"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// A process with only the role ui reads the tallies of others, and can silence.
func TestUIAlone(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles, cfg.UI.Listen, cfg.NATS.URL, cfg.ClickHouse.DSN = []string{config.RoleUI}, "127.0.0.1:0", collectortest.StartNATS(t, ""), "http://127.0.0.1:1/llmtap"
	})
	collectortest.Run(t, c)
	tallies := pages.Tallies(c.calls.Load)
	now := time.Now().Truncate(time.Second)
	sent := false
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the pages do not see the tallies")
		}
		if c.calls.Load() == nil { // NATS is not connected yet, or the streams are being created
			continue
		}
		for i := int64(-30); i < 0 && !sent; i++ {
			payload, err := json.Marshal(analyzer.Tally{Epoch: 1, Second: now.Unix() + i, Counts: []analyzer.Count{{Metric: analyzer.MetricCalls, Labels: map[string]string{"service": "shop"}, N: 2}}})
			must.Do(t, err)
			must.Do(t, c.conn.Load().PublishTally(t.Context(), 0, 1, now.Unix()+i, payload))
		}
		sent = true
		series := must.Get(tallies.Range(t.Context(), `sum(increase(llmtap_calls_total{service="shop"}[1m]))`, now, now, time.Minute))(t)
		if len(series) == 1 && series[0].Points[0].Value > 0 && c.ui.controls() != nil {
			break
		}
	}
	actions := pages.Controls{Alerts: pages.Alerts{Groups: c.ui.groups}, Controls: c.ui.controls, Engines: c.engines}
	must.Do(t, actions.AddSilence(t.Context(), []string{"service=shop"}, now.Add(time.Hour), "test", "Anna"))
	list, err := actions.Silences(t.Context())
	if err != nil || len(list) != 1 || list[0].By != "Anna" {
		t.Errorf("silences %+v, error %v", list, err)
	}
	if rules, err := actions.Rules(t.Context()); err != nil || len(rules) == 0 {
		t.Errorf("rules %v, error %v", rules, err)
	}
}
