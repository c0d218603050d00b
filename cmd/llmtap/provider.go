package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

var providerCommand = &command.Command{
	Name:  "provider",
	Short: "Run a local fake of OpenAI, DeepSeek and other providers",
	Long: `It serves OpenAI's Chat Completions API and Anthropic's Messages API on loopback,
and rejects a broken history with a 400 and the error text of the provider in the
path. Test an agent, or llmtap, without an account.

Its model is scripted: each line of the last user message that begins with "- "
is a tool call, such as
  - read_file {"path": "config.py"}
With parallel_tool_calls true one answer contains all calls, with false each
answer contains one. After the last call the model reports that it is done.`,
	Examples: `  llmtap provider
  export OPENAI_BASE_URL=http://127.0.0.1:8091/deepseek/v1 OPENAI_API_KEY=none`,
	Run: runProvider,
}

// providerPaths lists the paths of the providers' base URLs.
var providerPaths = []struct{ name, path string }{
	{"OpenAI", provider.OpenAIPath},
	{"DeepSeek", provider.DeepSeekPath},
	{"Qwen", provider.QwenPath},
	{"Gemini", provider.GeminiPath},
	{"Mistral", provider.MistralPath},
	{"Groq", provider.GroqPath},
	{"Anthropic", provider.AnthropicPath},
}

func runProvider(ctx context.Context, c *command.Call) error {
	port := c.Flags.Int("provider-port", 8091, "`port` on 127.0.0.1; 0: a free port")
	if err := c.Parse(); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	fmt.Fprintln(c.Stdout, "base URLs:")
	for _, p := range providerPaths {
		fmt.Fprintf(c.Stdout, "  %-10s http://%s%s\n", p.name, l.Addr(), p.path)
	}
	srv := &http.Server{Handler: provider.New(provider.Default()), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
