package collector

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// firstSecond is the time within which a process serves. A loaded machine gets more time than a user would accept.
const firstSecond = 10 * time.Second

// While NATS or ClickHouse is away, at start or later, every set of roles serves: /healthz answers, /readyz says what is
// missing and why, and the proxy forwards calls. The recorded exchanges are stored once the servers are back.
func TestAway(t *testing.T) {
	slowtest.Skip(t)
	collectortest.NeedClickHouse(t)
	dsn := must.Get(url.Parse(collectortest.StartClickHouse(t).DSN()))(t)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"1"}`) }))
	t.Cleanup(provider.Close)
	databases := 0
	f := func(roles, away string) {
		t.Helper()
		databases++
		database := fmt.Sprintf("away_%d", databases)
		t.Run(strings.ReplaceAll(roles+" "+away, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newAwayTest(t, roles, dsn, database, provider.URL)
			gates := map[string]*testnet.Link{"NATS": w.nats, "ClickHouse": w.clickhouse}
			for name, g := range gates {
				if !strings.Contains(away, name) {
					g.Open()
				}
			}
			w.start(t)
			w.call(t)
			w.expectAway(t, away)
			for name, g := range gates {
				if strings.Contains(away, name) {
					g.Open()
				}
			}
			w.expectReady(t)
			w.expectStored(t, 1)
			// Away later.
			for name, g := range gates {
				if strings.Contains(away, name) {
					g.Close()
				}
			}
			w.expectAway(t, away)
			w.call(t)
			for name, g := range gates {
				if strings.Contains(away, name) {
					g.Open()
				}
			}
			w.expectReady(t)
			w.expectStored(t, 2)
		})
	}
	f("analyze alert proxy", "NATS ClickHouse")
	f("proxy", "NATS")
	if testing.Short() {
		return
	}
	for _, roles := range []string{"analyze alert proxy", "analyze proxy", "alert proxy", "analyze alert", "analyze", "alert"} {
		f(roles, "NATS")
		f(roles, "ClickHouse")
	}
	for _, roles := range []string{"analyze proxy", "alert proxy", "analyze alert", "analyze", "alert"} {
		f(roles, "NATS ClickHouse")
	}
}

// An awayTest is a collector with a NATS server and a ClickHouse database behind gates.
type awayTest struct {
	cfg              config.Config
	c                *Collector
	nats, clickhouse *testnet.Link
	direct           config.Config // the servers without gates
}

func newAwayTest(t *testing.T, roles string, engine *url.URL, database, provider string) *awayTest {
	t.Helper()
	natsURL := collectortest.StartNATS(t, "")
	w := &awayTest{nats: testnet.NewLink(t, strings.TrimPrefix(natsURL, "nats://")), clickhouse: testnet.NewLink(t, engine.Host)}
	dsn := *engine
	dsn.Path = "/" + database
	change := func(cfg *config.Config) {
		cfg.Roles = strings.Fields(roles)
		cfg.NATS.URL, cfg.ClickHouse.DSN = natsURL, dsn.String()
		cfg.Proxy.Upstreams = map[string]string{"local": provider}
		cfg.Alerts.EvaluationInterval = time.Second
	}
	w.direct = collectortest.Config(t, change)
	dsn.Host = w.clickhouse.Addr
	w.cfg = collectortest.Config(t, func(cfg *config.Config) {
		change(cfg)
		cfg.NATS.URL, cfg.ClickHouse.DSN = "nats://"+w.nats.Addr, dsn.String()
	})
	return w
}

// start starts the collector, which must serve within firstSecond.
func (w *awayTest) start(t *testing.T) {
	t.Helper()
	begun := time.Now()
	w.c = must.Get(Open(t.Context(), w.cfg, Options{Logger: testLogger()}))(t)
	collectortest.Run(t, w.c)
	code, body := w.get(t, "/healthz")
	must.Equal(t, code, http.StatusOK, "/healthz: %s", body)
	if took := time.Since(begun); took > firstSecond {
		t.Errorf("serves after %v", took)
	}
}

func (w *awayTest) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp := must.Get(http.Get("http://" + w.c.httpAddr() + path))(t)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(body)
}

// call makes a call through the proxy, if the collector runs one.
func (w *awayTest) call(t *testing.T) {
	t.Helper()
	if w.c.proxy == nil {
		return
	}
	resp, err := http.Post("http://"+w.c.proxy.listener.Addr().String()+"/local/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[]}`))
	must.Do(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(body) != `{"id":"1"}` {
		t.Errorf("call through the proxy: %d %s %v", resp.StatusCode, body, err)
	}
}

// expectAway waits until /readyz reports that the servers are away, and why.
func (w *awayTest) expectAway(t *testing.T, away string) {
	t.Helper()
	w.expect(t, "not ready", func(code int, body string) bool {
		if code != http.StatusServiceUnavailable {
			return false
		}
		for _, name := range []string{"NATS", "ClickHouse"} {
			missing := strings.Contains(away, name) && (name == "NATS" || w.c.stores())
			reason := ""
			for line := range strings.Lines(body) {
				if strings.Contains(line, name) && strings.Contains(line, ": ") && !strings.Contains(line, ": waiting for ") {
					reason = line
				}
			}
			if missing != (reason != "") || missing && !strings.Contains(reason, "refused") && !strings.Contains(reason, "EOF") && !strings.Contains(reason, "closed") {
				return false
			}
		}
		return !strings.Contains(away, "NATS") || w.c.proxy == nil || strings.Contains(body, "proxy: forwards calls; ")
	})
}

func (w *awayTest) expectReady(t *testing.T) {
	t.Helper()
	w.expect(t, "ready", func(code int, _ string) bool { return code == http.StatusOK })
}

func (w *awayTest) expect(t *testing.T, want string, ok func(code int, body string) bool) {
	t.Helper()
	code, body := 0, ""
	must.Wait(t, want, func() bool {
		code, body = w.get(t, "/readyz")
		return ok(code, body)
	}, func() any { return fmt.Sprint("/readyz: ", code, " ", body) })
}

// expectStored waits until n exchanges are stored. If the collector does not run the role analyze, another process stores
// them.
func (w *awayTest) expectStored(t *testing.T, n uint64) {
	t.Helper()
	if w.c.proxy == nil {
		return
	}
	sink := w.c.ClickHouse()
	if !slices.Contains(w.cfg.Roles, config.RoleAnalyze) {
		cfg := w.direct
		cfg.Roles, cfg.DataDir = []string{config.RoleAnalyze}, t.TempDir()
		c := must.Get(Open(t.Context(), cfg, Options{Logger: testLogger()}))(t)
		collectortest.RunReady(t, c)
		sink = c.ClickHouse()
	}
	var counts map[string]uint64
	var err error
	must.Wait(t, fmt.Sprint(n, " exchanges are stored"), func() bool {
		counts, err = sink.Counts(t.Context())
		return err == nil && counts["exchanges"] == n
	}, func() any { return fmt.Sprint(counts, err) })
}
