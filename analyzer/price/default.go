package price

import "strings"

// Date is the date of the prices in Default.
const Date = "2026-08-01"

// Default returns public list prices as of Date, for prompts of usual length, from the table model_prices_and_context_window.json that
// LiteLLM publishes. Models whose prices differ between two copies of it, a week apart, are left out; some models are only in one of
// them. Providers change their prices, and customers may have individual prices; regions of a cloud may cost a tenth more. Where a
// provider has no lower price for cached input, it is that of input.
func Default() Table {
	table := make(Table, len(listed))
	for i, r := range listed {
		table[i] = Price{Provider: r.provider, Model: r.model, Input: r.input, CachedInput: r.cached, Output: r.output}
		// What providers charge for cache writes, as multiples of the price of input. Others charge nothing more for them.
		switch {
		case strings.Contains(r.model, "claude"): // platform.claude.com/docs/en/build-with-claude/prompt-caching
			table[i].CacheWrite, table[i].CacheHour = 1.25*r.input, 2*r.input
		case strings.HasPrefix(r.model, "gpt-5.6"), // learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching: from gpt-5.6 on
			r.provider == "qwen": // alibabacloud.com/help/en/model-studio/context-cache: of an explicit cache
			table[i].CacheWrite = 1.25 * r.input
		}
	}
	return table
}

// listed are the prices of Default but those of cache writes.
var listed = []struct {
	provider, model       string
	input, cached, output float64
}{
	// OpenAI, also on Azure.
	{"", "gpt-5.6", 5, 0.5, 30},
	{"", "gpt-5.6-sol*", 5, 0.5, 30},
	{"", "gpt-5.5-pro*", 30, 3, 180},
	{"", "gpt-5.5", 5, 0.5, 30},
	{"", "gpt-5.5-2026*", 5, 0.5, 30},
	{"", "gpt-5.4-pro*", 30, 3, 180},
	{"", "gpt-5.4-mini*", 0.75, 0.075, 4.5},
	{"", "gpt-5.4-nano*", 0.2, 0.02, 1.25},
	{"", "gpt-5.4", 2.5, 0.25, 15},
	{"", "gpt-5.4-2026*", 2.5, 0.25, 15},
	{"", "gpt-5.3-chat*", 1.75, 0.175, 14},
	{"", "gpt-5.3-codex", 1.75, 0.175, 14},
	{"", "gpt-5.2-pro*", 21, 21, 168},
	{"", "gpt-5.2", 1.75, 0.175, 14},
	{"", "gpt-5.2-2025*", 1.75, 0.175, 14},
	{"", "gpt-5.2-c*", 1.75, 0.175, 14}, // chat, codex
	{"", "gpt-5.1-codex-mini*", 0.25, 0.025, 2},
	{"", "gpt-5.1", 1.25, 0.125, 10},
	{"", "gpt-5.1-2025*", 1.25, 0.125, 10},
	{"", "gpt-5.1-c*", 1.25, 0.125, 10},
	{"", "gpt-5-pro*", 15, 15, 120},
	{"", "gpt-5-mini*", 0.25, 0.025, 2},
	{"", "gpt-5-nano*", 0.05, 0.005, 0.4},
	{"", "gpt-5", 1.25, 0.125, 10},
	{"", "gpt-5-2025*", 1.25, 0.125, 10},
	{"", "gpt-5-chat*", 1.25, 0.125, 10},
	{"", "gpt-5-codex", 1.25, 0.125, 10},
	{"", "gpt-4.1-mini*", 0.4, 0.1, 1.6},
	{"", "gpt-4.1-nano*", 0.1, 0.025, 0.4},
	{"", "gpt-4.1", 2, 0.5, 8},
	{"", "gpt-4.1-2025*", 2, 0.5, 8},
	{"", "gpt-4o-mini", 0.15, 0.075, 0.6},
	{"", "gpt-4o-mini-2024*", 0.15, 0.075, 0.6},
	{"", "gpt-4o", 2.5, 1.25, 10},
	{"", "gpt-4o-2024-08-06", 2.5, 1.25, 10},
	{"", "gpt-4o-2024-11-20", 2.5, 1.25, 10},
	{"", "o4-mini", 1.1, 0.275, 4.4},
	{"", "o4-mini-2025*", 1.1, 0.275, 4.4},
	{"", "o3-pro*", 20, 20, 80},
	{"", "o3-mini*", 1.1, 0.55, 4.4},
	{"", "o3", 2, 0.5, 8},
	{"", "o3-2025*", 2, 0.5, 8},
	{"", "o1", 15, 7.5, 60},
	{"", "o1-2024*", 15, 7.5, 60},
	// Anthropic, also on Bedrock, whose names have a region before, and on Vertex AI.
	{"", "*claude-fable-5*", 10, 1, 50},
	{"", "*claude-opus-5*", 5, 0.5, 25},
	{"", "*claude-opus-4-5*", 5, 0.5, 25},
	{"", "*claude-opus-4-6*", 5, 0.5, 25},
	{"", "*claude-opus-4-7*", 5, 0.5, 25},
	{"", "*claude-opus-4-8*", 5, 0.5, 25},
	{"", "*claude-opus-4-1*", 15, 1.5, 75},
	{"", "*claude-opus-4-2025*", 15, 1.5, 75},
	{"", "*claude-sonnet-5*", 2, 0.2, 10},
	{"", "*claude-sonnet-4*", 3, 0.3, 15},
	{"", "*claude-haiku-4-5*", 1, 0.1, 5},
	{"", "*claude-3-7-sonnet*", 3, 0.3, 15},
	// Google, the Gemini API and Vertex AI.
	{"", "gemini-3.6-flash", 1.5, 0.15, 7.5},
	{"", "gemini-3.5-flash", 1.5, 0.15, 9},
	{"", "gemini-3.5-flash-lite", 0.3, 0.03, 2.5},
	{"", "gemini-3.1-pro-preview*", 2, 0.2, 12},
	{"", "gemini-3.1-flash-lite*", 0.25, 0.025, 1.5},
	{"", "gemini-3-pro-preview", 2, 0.2, 12},
	{"", "gemini-3-flash-preview", 0.5, 0.05, 3},
	{"", "gemini-2.5-pro", 1.25, 0.125, 10},
	{"", "gemini-2.5-flash", 0.3, 0.03, 2.5},
	{"", "gemini-2.5-flash-lite", 0.1, 0.01, 0.4},

	{"deepseek", "deepseek-v4-flash*", 0.14, 0.0028, 0.28},
	{"deepseek", "deepseek-v4-pro*", 0.435, 0.003625, 0.87},
	{"deepseek", "deepseek-chat", 0.28, 0.028, 0.42},
	{"deepseek", "deepseek-reasoner", 0.28, 0.028, 0.42},

	{"mistral_ai", "mistral-large-latest", 0.5, 0.5, 1.5},
	{"mistral_ai", "mistral-large-2512", 0.5, 0.5, 1.5},
	{"mistral_ai", "mistral-medium-latest", 1.5, 1.5, 7.5},
	{"mistral_ai", "mistral-medium-3-5", 1.5, 1.5, 7.5},
	{"mistral_ai", "mistral-medium-2604", 1.5, 1.5, 7.5},
	{"mistral_ai", "mistral-medium-250*", 0.4, 0.4, 2},
	{"mistral_ai", "magistral-medium*", 2, 2, 5},
	{"mistral_ai", "devstral-2512", 0.4, 0.4, 2},
	{"mistral_ai", "devstral-latest", 0.4, 0.4, 2},
	{"mistral_ai", "codestral-2508", 0.3, 0.3, 0.9},

	{"x_ai", "grok-4.5*", 2, 0.5, 6},
	{"x_ai", "grok-4.3*", 1.25, 0.2, 2.5},
	{"x_ai", "grok-4-1-fast*", 0.2, 0.05, 0.5},
	{"x_ai", "grok-4-fast*", 0.2, 0.05, 0.5},
	{"x_ai", "grok-code-fast*", 0.2, 0.02, 1.5},

	{"moonshot_ai", "kimi-k2.6", 0.95, 0.16, 4},
	{"moonshot_ai", "kimi-k2-*turbo*", 1.15, 0.15, 8},
	{"moonshot_ai", "kimi-k2-*", 0.6, 0.15, 2.5},

	{"glm", "glm-5.1", 1.4, 0.26, 4.4},
	{"glm", "glm-5", 1, 0.2, 3.2},
	{"glm", "glm-4.7", 0.6, 0.11, 2.2},
	{"glm", "glm-4.6", 0.6, 0.11, 2.2},

	{"qwen", "qwen3.7-max", 2.5, 0.5, 7.5},
	{"qwen", "qwen-max", 1.6, 1.6, 6.4},
	{"qwen", "qwen-turbo*", 0.05, 0.05, 0.2},

	{"groq", "openai/gpt-oss-120b", 0.15, 0.075, 0.6},
	{"groq", "openai/gpt-oss-20b", 0.075, 0.0375, 0.3},
	{"groq", "llama-3.3-70b-versatile", 0.59, 0.59, 0.79},
	{"groq", "llama-3.1-8b-instant", 0.05, 0.05, 0.08},

	{"cohere", "command-a-03-2025", 2.5, 2.5, 10},
	{"cohere", "command-r-plus-08-2024", 2.5, 2.5, 10},
	{"cohere", "command-r-08-2024", 0.15, 0.15, 0.6},
	{"cohere", "command-r7b-12-2024", 0.0375, 0.0375, 0.15},
}
