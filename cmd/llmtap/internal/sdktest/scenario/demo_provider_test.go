package scenario

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
	"github.com/llmtap/llmtap/ingest/proxy"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The real client reads the same answer of the demo's provider with and without streaming, and through the proxy.
func TestDemoProvider(t *testing.T) {
	srv := httptest.NewServer(provider.New(provider.Config{Seed: 7}))
	defer srv.Close()
	cfg := proxy.Default()
	cfg.NATSURL, cfg.Upstreams, cfg.Logger = "nats://127.0.0.1:1", map[string]string{"demo": srv.URL}, slog.New(slog.DiscardHandler)
	p := must.Get(proxy.Open(cfg, nil))(t)
	defer p.Close()
	front := httptest.NewServer(p)
	defer front.Close()
	for _, path := range []string{srv.URL + provider.OpenAIPath, srv.URL + provider.DeepSeekPath, front.URL + "/demo" + provider.OpenAIPath} {
		c := openai.NewClient(option.WithBaseURL(path), option.WithAPIKey("k"), option.WithMaxRetries(0))
		f := func(task string, wantCalls bool) {
			t.Helper()
			p := openai.ChatCompletionNewParams{
				Model: "gpt-5", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(task)},
				Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "read_file"})},
			}
			unary := must.Get(c.Chat.Completions.New(t.Context(), p))(t)
			again := must.Get(c.Chat.Completions.New(t.Context(), p))(t)
			must.Equal(t, unary.ID, again.ID, "two answers to the same request")
			p.StreamOptions.IncludeUsage = openai.Bool(true)
			s := c.Chat.Completions.NewStreaming(t.Context(), p)
			defer s.Close()
			var acc openai.ChatCompletionAccumulator
			for s.Next() {
				if !acc.AddChunk(s.Current()) {
					t.Error("invalid chunk")
				}
			}
			if s.Err() != nil {
				t.Fatal(s.Err())
			}
			for _, got := range []openai.ChatCompletion{*unary, acc.ChatCompletion} {
				m := got.Choices[0].Message
				if (len(m.ToolCalls) > 0) != wantCalls || (m.Content == "") != wantCalls || got.Usage.TotalTokens == 0 {
					t.Errorf("%s: answer %+v", path, got)
				}
				for _, call := range m.ToolCalls {
					if call.ID == "" || call.Function.Name != "read_file" || !json.Valid([]byte(call.Function.Arguments)) {
						t.Errorf("%s: call %+v", path, call)
					}
				}
			}
		}
		f("hello", false)
		f("do this:\n- read_file ä.txt, whose name is long enough for two pieces, ä\n- read_file b.txt", true)

		_, err := c.Chat.Completions.New(t.Context(), openai.ChatCompletionNewParams{
			Model: "gpt-5", Messages: []openai.ChatCompletionMessageParamUnion{openai.ToolMessage("ok", "call_1")},
		})
		if apiErr, ok := errors.AsType[*openai.Error](err); !ok || apiErr.StatusCode != 400 || !strings.Contains(apiErr.Message, "role 'tool'") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
