package promptcache

import (
	"testing"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestPolicyOf(t *testing.T) {
	for _, c := range []struct {
		dialect  wire.Dialect
		variant  wire.Variant
		model    string
		marked   bool
		provider string
		minimum  int64
		unit     int64
		ends     Ends
		ttl      time.Duration
	}{
		{wire.Anthropic, wire.AnthropicAPI, "claude-opus-5", true, "anthropic", 512, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-fable-5-1", true, "anthropic", 512, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-sonnet-4-20250514", true, "anthropic", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-3-5-sonnet-latest", true, "anthropic", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.VertexAnthropic, "claude-sonnet-4@20250514", true, "anthropic", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-sonnet-4-5-20250929", false, "anthropic", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-sonnet-4-6", true, "anthropic", 2048, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-3-haiku-20240307", true, "anthropic", 2048, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-opus-4-5-20251101", true, "anthropic", 4096, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-haiku-4-5", true, "anthropic", 4096, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.AnthropicAPI, "claude-sonnet-5-5", true, "anthropic", 4096, 1, EndMarks, 5 * time.Minute},
		{wire.OpenAIChat, wire.OpenRouter, "anthropic/claude-sonnet-4.5", true, "anthropic", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.Anthropic, wire.OtherVariant, "us.anthropic.claude-opus-4-20250514-v1:0", true, "anthropic", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.Bedrock, wire.BedrockAPI, "eu.anthropic.claude-opus-4-7-v1:0", true, "aws.bedrock", 4096, 1, EndMarks, 5 * time.Minute},
		{wire.Bedrock, wire.BedrockAPI, "amazon.nova-lite-v1:0", true, "aws.bedrock", 1000, 1, EndMarks, 5 * time.Minute},
		{wire.OpenAIChat, wire.OpenAI, "gpt-4o-mini", false, "openai", 1024, 128, EndUnits, 5 * time.Minute},
		{wire.OpenAIChat, wire.OpenAI, "ft:gpt-4o-2024-08-06:acme::id", false, "openai", 1024, 128, EndUnits, 5 * time.Minute},
		{wire.OpenAIResponses, wire.OpenAI, "o4-mini", false, "openai", 1024, 128, EndUnits, 5 * time.Minute},
		{wire.OpenAIResponses, wire.OpenAI, "gpt-5-codex", false, "openai", 1024, 128, EndUnits, 5 * time.Minute},
		{wire.OpenAIResponses, wire.OpenAI, "gpt-5.5-pro", false, "openai", 2048, 2048, EndUnits, 30 * time.Minute},
		{wire.OpenAIResponses, wire.OpenAI, "gpt-5.6-sol", false, "openai", 1024, 1, EndPrompts | EndMarks, 30 * time.Minute},
		{wire.OpenAIResponses, wire.OpenAI, "gpt-6.1-sol", false, "openai", 1024, 1, EndPrompts | EndMarks, 30 * time.Minute},
		{wire.OpenAIChat, wire.LiteLLM, "openai/gpt-5.4", false, "openai", 1024, 128, EndUnits, 5 * time.Minute},
		{wire.OpenAIChat, wire.Azure, "gpt-4.1", false, "azure.ai.openai", 1024, 128, EndUnits, 5 * time.Minute},
		{wire.OpenAIChat, wire.OpenAI, "gpt-4-turbo", false, "", 0, 0, 0, 0},
		{wire.OpenAIChat, wire.Azure, "gpt-35-turbo", false, "", 0, 0, 0, 0},
		{wire.OpenAIChat, wire.Azure, "our-deployment", false, "", 0, 0, 0, 0},
		{wire.OpenAIChat, wire.OtherVariant, "gpt-oss-120b", false, "", 0, 0, 0, 0},
		{wire.Gemini, wire.GeminiAPI, "gemini-2.5-flash", false, "gcp.gemini", 2048, 2048, EndUnits, 0},
		{wire.Gemini, wire.VertexGemini, "gemini-3.8-flash", false, "gcp.gemini", 4096, 4096, EndUnits, 0},
		{wire.Gemini, wire.GeminiAPI, "gemini-2.0-flash", false, "", 0, 0, 0, 0},
		{wire.OpenAIChat, wire.DeepSeek, "deepseek-chat", false, "deepseek", 64, 64, EndPrompts, time.Hour},
		{wire.OpenAIChat, wire.Qwen, "qwen3-max", true, "qwen", 1024, 1, EndMarks, 5 * time.Minute},
		{wire.OpenAIChat, wire.Qwen, "qwen3-max", false, "qwen", 256, 256, EndUnits, 0},
		{wire.OpenAIChat, wire.MiniMax, "MiniMax-M2.5", false, "minimax", 512, 512, EndUnits, 0},
		{wire.OpenAIChat, wire.VLLM, "Qwen/Qwen3-32B", false, "", 0, 0, 0, 0},
		{wire.OpenAIChat, wire.Kimi, "kimi-k3", false, "moonshot_ai", 1024, 1024, EndUnits, 5 * time.Minute},
		{wire.OpenAIChat, wire.GLM, "glm-4.7", false, "", 0, 0, 0, 0},
	} {
		p := Of(wire.Target{Dialect: c.dialect, Variant: c.variant, Model: c.model}, c.marked)
		if p.Provider != c.provider || p.Minimum != c.minimum || p.Unit != c.unit || p.Ends != c.ends || p.TTL != c.ttl {
			t.Errorf("%s %s: %+v, want %v", c.variant, c.model, *p, c)
		}
		must.Equal(t, p.Known(), c.provider != "", "%s %s: Known()", c.variant, c.model)
	}
}

func TestReusable(t *testing.T) {
	f := func(p Policy, n, want int64) {
		t.Helper()
		must.Equal(t, p.Reusable(n), want, "%d tokens with a minimum of %d", n, p.Minimum)
	}
	steps := Policy{Minimum: 1024, Unit: 128, Ends: EndUnits}
	f(steps, 1023, 0)
	f(steps, 1024, 1024)
	f(steps, 1151, 1024)
	f(steps, 1152, 1152)
	f(Policy{Minimum: 1024, Unit: 1, Ends: EndMarks}, 1100, 1100)
	f(Policy{Minimum: 64, Unit: 64, Ends: EndPrompts}, 130, 128)
	f(Policy{}, 0, 0)
}

func TestPolicyParameter(t *testing.T) {
	claude := Of(wire.Target{Variant: wire.AnthropicAPI, Model: "claude-opus-5"}, true)
	if from, ok := claude.Parameter("tool_choice"); !ok || from != Messages {
		t.Errorf("Claude's tool_choice: %v, %v", from, ok)
	}
	gpt := Of(wire.Target{Variant: wire.OpenAI, Model: "gpt-5"}, false)
	if _, ok := gpt.Parameter("tool_choice"); ok {
		t.Error("OpenAI's tool_choice is part of the prefix")
	}
	if from, ok := gpt.Parameter("response_format"); !ok || from != Tools {
		t.Errorf("OpenAI's response_format: %v, %v", from, ok)
	}
}

func TestPolicyOfAllocates(t *testing.T) {
	target := wire.Target{Dialect: wire.OpenAIChat, Variant: wire.OtherVariant, Model: "some-model-of-a-gateway"}
	must.Equal(t, testing.AllocsPerRun(100, func() { Of(target, false) }), 0, "allocations")
}

func BenchmarkPolicyOf(b *testing.B) {
	for _, t := range []wire.Target{
		{Variant: wire.OpenAI, Model: "gpt-5.4"},
		{Variant: wire.AnthropicAPI, Model: "claude-haiku-4-5-20251001"},
		{Variant: wire.OtherVariant, Model: "some-model-of-a-gateway"},
	} {
		b.Run(t.Model, func(b *testing.B) {
			for b.Loop() {
				Of(t, false)
			}
		})
	}
}
