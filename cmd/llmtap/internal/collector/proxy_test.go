package collector

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/collectortest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/testnet"
)

// The calls of an agent that only changed its base URL are stored, with their findings.
func TestProxy(t *testing.T) {
	t.Parallel()
	collectortest.NeedClickHouse(t)
	c := start(t, func(cfg *config.Config) { collectortest.WithProvider(t, cfg) })
	collectortest.CallProxy(t, c.cfg.Proxy.Listen)
	want := map[string]uint64{"proxy checkout planner 200 ": 1, "proxy checkout planner 400 orphan_tool_reply": 1}
	var got map[string]uint64
	must.Wait(t, "the calls are stored", func() bool {
		got = collectortest.Groups(t, c.ClickHouse(), "SELECT concat(origin, ' ', service, ' ', stage, ' ', toString(status), ' ', cause), count() FROM exchanges_final GROUP BY 1")
		return len(got) == len(want)
	}, func() any { return got })
	must.Agree(t, cmp.Diff(want, got))
	must.Equal(t, collectortest.Groups(t, c.ClickHouse(), "SELECT rule_id, count() FROM findings_final GROUP BY 1")["orphan_tool_reply"], 1, "findings")
}

// The role proxy alone requires neither ClickHouse nor, to forward calls, NATS.
func TestProxyAlone(t *testing.T) {
	t.Parallel()
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer p.Close()
	c := open(t, func(cfg *config.Config) {
		cfg.Roles = []string{config.RoleProxy}
		cfg.NATS.URL = fmt.Sprintf("nats://127.0.0.1:%d", testnet.FreePort(t))
		cfg.Proxy.Upstreams = map[string]string{"local": p.URL}
	})
	collectortest.Run(t, c)
	f := func(method, path string, status int) string {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+c.proxy.listener.Addr().String()+path, strings.NewReader("{}")))(t)
		resp := must.Get(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !json.Valid(body) {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, body, err)
		}
		return string(body)
	}
	f(http.MethodPost, "/local/v1/chat/completions", 200)
	if s := f(http.MethodPost, "/v1/chat/completions", 404); !strings.Contains(s, "/<upstream>") && !strings.Contains(s, "deepseek") {
		t.Errorf("response to a wrong base URL: %s", s)
	}
	s := c.proxy.proxy.Stats()
	must.Equal(t, s.Pending, 2, "%+v", s)
	var out strings.Builder
	c.Describe(t.Context(), &out, "no configuration file")
	if s := out.String(); !strings.Contains(s, "llmtap is up (proxy)") || !strings.Contains(s, "without texts") || strings.Contains(s, "embedded") {
		t.Error(s)
	}
}
