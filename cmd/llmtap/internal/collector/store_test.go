package collector

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/alerts/rules"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks"
	"github.com/llmtap/llmtap/sinks/chdb"
)

// On a machine without ClickHouse the collector is ready, counts calls, and says how to add one. Once there is one, it stores the
// calls that the stream holds.
func TestWithoutClickHouse(t *testing.T) {
	collectortest.NeedClickHouse(t)
	library := must.Get(chdb.FindLibrary(t.Context(), chdb.LibraryConfig{}))(t)
	for name, value := range map[string]string{"PATH": t.TempDir(), "HOME": t.TempDir(), "XDG_CACHE_HOME": "", "LLMTAP_LIBCHDB": ""} {
		t.Setenv(name, value)
	}
	if found, err := chdb.PresentLibrary(chdb.LibraryConfig{}); err == nil {
		t.Skipf("SKIPPED, this machine has another ClickHouse: %s", found)
	}
	withoutClickHouse(t, chdb.HowToAdd, false, func(*Collector) { t.Setenv("LLMTAP_LIBCHDB", library) })
}

// While ClickHouse is downloaded for the first time, the collector works as without one, but keeps the history of alerts. It says if
// that fails, and tries again.
func TestDownload(t *testing.T) {
	fail, end := collectortest.SlowDownload(t)
	withoutClickHouse(t, "it is being downloaded", true, func(c *Collector) {
		fail()
		must.Wait(t, "the download ends", func() bool { return !errors.Is(c.NoStore(), ErrDownload) })
		must.Contain(t, c.NoStore().Error(), "it cannot be downloaded, which is tried again")
		must.Contain(t, c.NoStore().Error(), "registry unreachable")
		end()
	})
}

// withoutClickHouse runs a collector that has no ClickHouse until add is called. say is what it says, kept is whether
// it keeps the history of alerts until then.
func withoutClickHouse(t *testing.T, say string, kept bool, add func(*Collector)) {
	t.Helper()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles = []string{config.RoleProxy, config.RoleAnalyze, config.RoleAlert, config.RoleUI}
		collectortest.WithProvider(t, cfg)
	})
	collectortest.RunReady(t, c)
	collectortest.CallProxy(t, c.proxy.listener.Addr().String())
	get := func(url string) string {
		t.Helper()
		resp := must.Get(http.Get(url))(t)
		defer resp.Body.Close()
		return string(must.Get(io.ReadAll(resp.Body))(t))
	}
	must.Contain(t, get("http://"+c.httpAddr()+"/readyz"), say)
	tallied := "http://" + c.httpAddr() + "/api/v1/query?query=llmtap_calls_total"
	must.Wait(t, "calls are counted", func() bool { return strings.Contains(get(tallied), `"value":[`) })
	page := get(c.UIURL())
	must.Contain(t, page, say)
	must.Contain(t, page, "These numbers are counts of the event stream")
	var banner strings.Builder
	c.Describe(t.Context(), &banner, "")
	must.Contain(t, banner.String(), "there is none on this machine")

	m := newMonitor(c.conn.Load().Inspect, c.store.Ping, time.Now())
	m.probe(t.Context())
	for _, g := range m.gauges() {
		if g.Metric == rules.MetricStoreUp || g.Metric == rules.MetricBacklogRatio || g.Metric == rules.MetricUnread {
			t.Errorf("%s is %v: nobody expects rows", g.Metric, g.Value)
		}
	}
	must.Equal(t, m.unavailable(), "", "note on alerts")

	must.Equal(t, c.store.Write(t.Context(), &sinks.Batch{Alerts: make([]sinks.Alert, 1)}) != nil, kept, "alerts are kept")
	add(c)
	must.Wait(t, "the calls are stored", func() bool {
		sink := c.ClickHouse()
		if sink == nil {
			return false
		}
		counts, err := sink.Counts(t.Context())
		return err == nil && counts["exchanges"] == 2
	})
	must.Equal(t, fmt.Sprint(c.NoStore()), "<nil>", "no store")
}
