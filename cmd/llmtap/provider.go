package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

const providerHelp = `Run a stand-in for LLM providers on loopback. It speaks OpenAI's chat completions and Anthropic's Messages, and refuses a
broken history with a 400 in the words of the provider that it plays. Use it to try an agent, or llmtap, without an account.

  llmtap provider
  OPENAI_BASE_URL=http://127.0.0.1:8091/deepseek/v1 OPENAI_API_KEY=none python agent.py

Its model does what it is told: lines of the last user message that begin with "- " are tool calls, such as
  - read_file {"path": "config.py"}
With parallel_tool_calls true it makes all of them in one answer, with false one in each. Then it says that it is done.`

// providerPaths are base URLs of the providers that it plays, below its address.
var providerPaths = []struct{ name, path string }{
	{"OpenAI", provider.OpenAIPath},
	{"DeepSeek", provider.DeepSeekPath},
	{"Qwen", provider.QwenPath},
	{"Gemini", provider.GeminiPath},
	{"Mistral", provider.MistralPath},
	{"Groq", provider.GroqPath},
	{"Anthropic", provider.AnthropicPath},
}

func runProvider(ctx context.Context, c *cli) error {
	fs := c.flags("provider", providerHelp)
	port := fs.Int("provider-port", 8091, "`port` on 127.0.0.1; 0 for a free one")
	if err := c.parse(fs); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	fmt.Fprintln(c.stdout, "base URLs:")
	for _, p := range providerPaths {
		fmt.Fprintf(c.stdout, "  %-10s http://%s%s\n", p.name, l.Addr(), p.path)
	}
	srv := &http.Server{Handler: provider.New(provider.Default()), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
