package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/config"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/event"
)

// runCollector runs a collector until the test ends.
func runCollector(t *testing.T, change func(*config.Config)) *collector {
	t.Helper()
	cfg := config.Default()
	change(&cfg)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	c, err := openCollector(ctx, cfg, slog.New(slog.DiscardHandler), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	stopped := make(chan error, 1)
	go func() { stopped <- c.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return c
}

// An agent that only changed its base URL has its calls in ClickHouse, with what was wrong in them.
func TestGateway(t *testing.T) {
	needClickHouse(t)
	c := runWithGateway(t, t.TempDir())
	want := map[string]uint64{"proxy checkout planner 200 ": 1, "proxy checkout planner 400 orphan_tool_reply": 1}
	var got map[string]uint64
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		got = groups(t, c.sink, "SELECT concat(origin, ' ', service, ' ', stage, ' ', toString(status), ' ', cause), count() FROM exchanges_final GROUP BY 1")
		if len(got) == len(want) {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := groups(t, c.sink, "SELECT rule_id, count() FROM findings_final GROUP BY 1")["orphan_tool_reply"]; n != 1 {
		t.Errorf("%d findings", n)
	}
}

// runWithGateway runs a collector on dir. An agent has made two calls through its gateway: one that was accepted and one
// with a tool message whose call is not there.
func runWithGateway(t *testing.T, dir string) *collector {
	t.Helper()
	p := httptest.NewServer(provider.New(provider.Config{}))
	t.Cleanup(p.Close)
	c := runCollector(t, func(cfg *config.Config) {
		cfg.DataDir, cfg.Listen, cfg.NATSServer.Port = dir, "127.0.0.1:0", -1
		cfg.Proxy.Listen, cfg.Proxy.Capture = "127.0.0.1:0", event.CaptureFull
		cfg.Proxy.Upstreams = map[string]string{"openai": strings.TrimSuffix(p.URL+provider.OpenAIPath, "/v1")}
	})
	client := openai.NewClient(
		option.WithBaseURL("http://"+c.gateway.listener.Addr().String()+"/openai/v1"), option.WithAPIKey("sk-1"), option.WithMaxRetries(0),
		option.WithHeader("X-Llmtap-Service", "checkout"), option.WithHeader("X-Llmtap-Stage", "planner"),
	)
	ask := func(messages ...openai.ChatCompletionMessageParamUnion) error {
		_, err := client.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{Model: "gpt-4.1", Messages: messages})
		return err
	}
	if err := ask(openai.UserMessage("read config.py")); err != nil {
		t.Fatal(err)
	}
	if err := ask(openai.UserMessage("read config.py"), openai.AssistantMessage("I will."), openai.ToolMessage("PORT=80", "call_1")); err == nil {
		t.Fatal("a tool message without its call was accepted")
	}
	return c
}

// A gateway by itself needs neither ClickHouse nor, to pass calls on, NATS.
func TestGatewayAlone(t *testing.T) {
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer p.Close()
	c := runCollector(t, func(cfg *config.Config) {
		cfg.Roles, cfg.DataDir, cfg.Listen = []string{config.RoleProxy}, t.TempDir(), "127.0.0.1:0"
		cfg.NATS.URL = fmt.Sprintf("nats://127.0.0.1:%d", freePort(t))
		cfg.Proxy.Listen, cfg.Proxy.Upstreams = "127.0.0.1:0", map[string]string{"local": p.URL}
	})
	if err := c.readiness(t.Context()); err != nil || c.sink != nil {
		t.Errorf("ready: %v, ClickHouse: %v", err, c.sink)
	}
	f := func(method, path string, status int) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+c.gateway.listener.Addr().String()+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status || !json.Valid(body) {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, body, err)
		}
		return string(body)
	}
	f(http.MethodPost, "/local/v1/chat/completions", 200)
	if s := f(http.MethodPost, "/v1/chat/completions", 404); !strings.Contains(s, "/<upstream>") && !strings.Contains(s, "deepseek") {
		t.Errorf("a wrong base URL is told %s", s)
	}
	if s := c.gateway.proxy.Stats(); s.Pending != 2 {
		t.Errorf("%+v", s)
	}
	var out strings.Builder
	c.describe(&out, "no configuration file")
	if s := out.String(); !strings.Contains(s, "llmtap is up (proxy)") || !strings.Contains(s, "not their texts") || strings.Contains(s, "embedded") {
		t.Error(s)
	}
}
