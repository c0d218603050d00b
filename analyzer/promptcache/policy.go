package promptcache

import (
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An Element is a part of a prompt.
type Element uint8

// The elements of a prompt, in the order in which all providers serialise them that document an order. A schema for the answer
// counts as Tools, because it comes before the system prompt too.
const (
	Tools Element = iota
	System
	Messages
)

// Ends says where a prefix can end that a provider caches.
type Ends uint8

// The ends. A provider may have several.
const (
	EndUnits   Ends = 1 << iota // anywhere, in steps of Policy.Unit
	EndMarks                    // at a mark in the earlier request
	EndPrompts                  // at the end of the earlier prompt, of its answer for some, but nowhere inside it
)

// A Policy is what a provider documents about its prompt cache. The zero value is the policy of a provider that documents
// nothing usable.
type Policy struct {
	Provider string // gen_ai.provider.name of who documents it; "" if unknown

	Minimum  int64 // tokens of the shortest prefix that every request can read
	Unit     int64 // fewer tokens than these that were not read say nothing
	Reported int64 // the tokens read are a multiple of this; 0 if unknown
	Ends     Ends
	Lookback int // content blocks before a mark at which the provider looks for an earlier one; 0 if unlimited

	// TTL is how long after its last use a prefix can be expected, and Longer the same for a request that asks for the longer
	// time: a mark with "ttl": "1h", prompt_cache_retention or prompt_cache_options.ttl. 0 if the documentation names no time.
	TTL, Longer time.Duration
	Settle      time.Duration // how long after an answer its prefix may still not be readable

	Images       bool        // the first image makes the messages unreadable
	Parameters   []Parameter // parameters that are part of the prefix
	KeyRoutes    bool        // calls of one prefix need the same prompt_cache_key to find what was cached
	KeySeparates bool        // calls with another prompt_cache_key do not
	Rate         int64       // calls a minute of one prefix, or of one key, from which on some go to machines without the prefix; 0 if unknown
}

// A Parameter is a parameter whose change makes the elements from From on unreadable.
type Parameter struct {
	Name string // as facts.Parameter
	From Element
}

// Known reports whether the provider documents its cache.
func (p *Policy) Known() bool { return p.Provider != "" }

// Reusable returns how many tokens the provider can read of a prefix of n tokens that ends where a cached prefix can: see Ends.
func (p *Policy) Reusable(n int64) int64 {
	if n < max(p.Minimum, 1) {
		return 0
	}
	if p.Unit > 1 {
		n -= (n - p.Minimum) % p.Unit
	}
	return n
}

// Parameter returns the element from which on a change of the parameter breaks the prefix, and whether it is part of it.
func (p *Policy) Parameter(name string) (from Element, ok bool) {
	for _, x := range p.Parameters {
		if x.Name == name {
			return x.From, true
		}
	}
	return 0, false
}

// Of returns the policy of a target, which must not be changed. marked reports whether the request marks what is to be cached,
// which for some providers selects another cache.
func Of(t wire.Target, marked bool) *Policy {
	for i := range policies {
		r := &policies[i]
		if (r.marked == 0 || marked == (r.marked == withMarks)) && slices.Contains(r.variants, t.Variant) && r.serves(t.Model) {
			return &r.Policy
		}
	}
	return &unknown
}

var unknown Policy

// A policyRow is the policy of some models of some providers.
type policyRow struct {
	variants []wire.Variant
	family   string                  // in the names of all these models
	models   func(model string) bool // nil for all of the family
	marked   uint8                   // 0, or one of the constants
	Policy
}

const (
	withMarks    = 1 // requests with marks only
	withoutMarks = 2
)

func (r *policyRow) serves(model string) bool {
	return strings.Contains(model, r.family) && (r.models == nil || r.models(model))
}

// policies has one row for each policy; the first that fits applies. Gateways and unknown hosts have the policy of the model's
// vendor, because it is the vendor who caches. Where a model has no documented minimum, or documentation contradicts itself,
// the row has the larger value, because a call with fewer tokens then gets no verdict. What is not here, is documented without
// numbers (GLM, xAI, Mistral, Fireworks, Together), or depends on the server (vLLM, SGLang, llama.cpp, Ollama).
var policies = []policyRow{
	// Anthropic, platform.claude.com/docs/en/build-with-claude/prompt-caching and tool-use-with-prompt-caching, and its own guide
	// github.com/anthropics/skills claude-api/shared/prompt-caching.md, read 2026-11-28: order, marks (at most 4, or one for the
	// whole request), 20 blocks, 5 minutes and 1 hour from the start of the last use, minimum by model, what a parameter
	// invalidates. A changed effort or thinking mode costs all elements of some models, and the messages of all. An answer that
	// has begun can be read. Claude Sonnet 4.6: 1024 there, 2048 in github.com/anthropics/anthropic-sdk-python/issues/1194.
	{claudeHosts, "claude-", named("opus-5", "fable-5", "fable-5-1", "mythos-5", "mythos-5-1"), 0, claude("anthropic", 512)},
	{claudeHosts, "claude-", named(sonnets...), 0, claude("anthropic", 1024)},
	{claudeHosts, "claude-", named("opus-4-7", "sonnet-4-6", "mythos-preview", "3-haiku", "3-5-haiku"), 0, claude("anthropic", 2048)},
	{claudeHosts, "claude-", nil, 0, claude("anthropic", 4096)}, // Opus 4.5 and 4.6, Haiku 4.5

	// Amazon, docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html, read 2026-11-28: cache points, Claude as at
	// Anthropic except that the table gives 4096 for Opus 4.7, Nova from 1000 tokens without tools. Nova also caches without
	// cache points, which the answer does not report.
	{bedrock, "claude-", named("opus-5", "fable-5", "fable-5-1", "mythos-5", "mythos-5-1"), 0, claude("aws.bedrock", 512)},
	{bedrock, "claude-", named(sonnets...), 0, claude("aws.bedrock", 1024)},
	{bedrock, "claude-", named("sonnet-4-6", "3-haiku", "3-5-haiku"), 0, claude("aws.bedrock", 2048)},
	{bedrock, "claude-", nil, 0, claude("aws.bedrock", 4096)},
	{bedrock, "nova-", nil, 0, Policy{
		Provider: "aws.bedrock", Minimum: 1000, Unit: 1, Reported: 1, Ends: EndMarks, TTL: 5 * time.Minute,
	}},

	// OpenAI, developers.openai.com/api/docs/guides/prompt-caching, version of 2026-09-23, and the cookbook's Prompt Caching 201:
	// tools and schemas come before the developer's instructions; model, tools, parallel_tool_calls, the schema, effort and
	// verbosity are part of the prefix, tool_choice is not. From GPT-5.6 on, a prefix ends at the latest user message or tool
	// reply, or at a mark, is held for 30 minutes, and is found without prompt_cache_key. GPT-5.5 has steps of 2048 tokens and
	// always the longer retention, which typically holds for 30 minutes; earlier models hold for 5 to 10 minutes unless asked.
	// Their steps depend on the model; 1024 and then 128 tokens is what the guide said until 2026, and Azure's still does.
	{openAI, "", gpt(version{5, 6}, newest), 0, Policy{
		Provider: "openai", Minimum: 1024, Unit: 1, Reported: 1, Ends: EndPrompts | EndMarks, TTL: 30 * time.Minute,
		Parameters: openAIParameters, KeySeparates: true, Rate: 15,
	}},
	{openAI, "", gpt(version{5, 5}, version{5, 5}), 0, Policy{
		Provider: "openai", Minimum: 2048, Unit: 2048, Reported: 128, Ends: EndUnits, TTL: 30 * time.Minute,
		Parameters: openAIParameters, KeyRoutes: true, KeySeparates: true, Rate: 15,
	}},
	{openAI, "", gpt(version{4, 0}, version{5, 4}), 0, Policy{
		Provider: "openai", Minimum: 1024, Unit: 128, Reported: 128, Ends: EndUnits, TTL: 5 * time.Minute, Longer: 30 * time.Minute,
		Parameters: openAIParameters, KeyRoutes: true, KeySeparates: true, Rate: 15,
	}},

	// Microsoft, learn.microsoft.com/azure/foundry/openai/how-to/prompt-caching, version of 2026-08-04: as OpenAI, but it wants
	// prompt_cache_key from GPT-5.6 on.
	{azure, "", gpt(version{5, 6}, newest), 0, Policy{
		Provider: "azure.ai.openai", Minimum: 1024, Unit: 1, Reported: 1, Ends: EndPrompts | EndMarks, TTL: 30 * time.Minute,
		Parameters: openAIParameters, KeyRoutes: true, KeySeparates: true, Rate: 15,
	}},
	{azure, "", gpt(version{5, 5}, version{5, 5}), 0, Policy{
		Provider: "azure.ai.openai", Minimum: 2048, Unit: 2048, Reported: 128, Ends: EndUnits, TTL: 30 * time.Minute,
		Parameters: openAIParameters, KeySeparates: true,
	}},
	{azure, "", gpt(version{4, 0}, version{5, 4}), 0, Policy{
		Provider: "azure.ai.openai", Minimum: 1024, Unit: 128, Reported: 128, Ends: EndUnits, TTL: 5 * time.Minute, Longer: 30 * time.Minute,
		Parameters: openAIParameters, KeySeparates: true,
	}},

	// Google, ai.google.dev/gemini-api/docs/caching, version of 2026-10-13, and the overview for Vertex AI: the implicit cache of
	// 2.5 and later, without order, steps or time. A cache that a request names (cachedContent) is not a prefix of the request.
	{geminis, "gemini-", like("gemini-2-5"), 0, Policy{Provider: "gcp.gemini", Minimum: 2048, Unit: 2048, Ends: EndUnits}},
	{geminis, "gemini-", like("gemini-3", "gemini-4", "gemini-flash-latest", "gemini-flash-lite-latest", "gemini-pro-latest"), 0, Policy{
		Provider: "gcp.gemini", Minimum: 4096, Unit: 4096, Ends: EndUnits,
	}},

	// DeepSeek, api-docs.deepseek.com/guides/kv_cache, read 2026-11-28: a prefix ends where an earlier prompt or its answer ended,
	// or where the provider saw that prompts part; it takes seconds to write, and a few hours to a few days until it is gone. The
	// unit of 64 tokens is in the announcement of 2024-08-02. The order is not documented.
	{[]wire.Variant{wire.DeepSeek, wire.DeepSeekResponses}, "", nil, 0, deepSeek},
	{gateways, "deepseek-", named("deepseek-chat", "deepseek-reasoner"), 0, deepSeek},

	// Alibaba Cloud, alibabacloud.com/help/en/model-studio/context-cache, version of 2026-06-24: a request with marks uses the
	// explicit cache and no other, which looks back 20 blocks and can be read after the answer.
	{[]wire.Variant{wire.Qwen}, "", nil, withMarks, Policy{
		Provider: "qwen", Minimum: 1024, Unit: 1, Ends: EndMarks, Lookback: 20, TTL: 5 * time.Minute,
	}},
	{[]wire.Variant{wire.Qwen}, "", nil, withoutMarks, Policy{Provider: "qwen", Minimum: 256, Unit: 256, Ends: EndUnits}},

	// Moonshot, forum.moonshot.ai/t/613 (its announcement), read 2026-11-28: 5 minutes, or 1 hour with prompt_cache_options.ttl. It
	// names no minimum and no steps.
	{[]wire.Variant{wire.Kimi}, "", nil, 0, Policy{
		Provider: "moonshot_ai", Minimum: 1024, Unit: 1024, Ends: EndUnits, TTL: 5 * time.Minute, Longer: time.Hour,
	}},

	// MiniMax, platform.minimax.io/docs/api-reference/text-prompt-caching, read 2026-11-28. The time depends on the load.
	{[]wire.Variant{wire.MiniMax}, "", nil, 0, Policy{Provider: "minimax", Minimum: 512, Unit: 512, Ends: EndUnits}},

	// Groq, console.groq.com/docs/prompt-caching, read 2026-11-28: 2 hours; the minimum is 128 to 1024 tokens by model.
	{[]wire.Variant{wire.Groq}, "", nil, 0, Policy{Provider: "groq", Minimum: 1024, Unit: 1024, Ends: EndUnits, TTL: 2 * time.Hour}},

	// Cerebras, inference-docs.cerebras.ai/capabilities/prompt-caching, read 2026-11-28: blocks of 128, or of 100 to 600 tokens.
	{[]wire.Variant{wire.Cerebras}, "", nil, 0, Policy{Provider: "cerebras", Minimum: 600, Unit: 600, Ends: EndUnits, TTL: 5 * time.Minute}},
}

var (
	gateways    = []wire.Variant{wire.OtherVariant, wire.LiteLLM}
	claudeHosts = []wire.Variant{wire.AnthropicAPI, wire.VertexAnthropic, wire.OpenRouter, wire.OtherVariant, wire.LiteLLM}
	bedrock     = []wire.Variant{wire.BedrockAPI}
	openAI      = []wire.Variant{wire.OpenAI, wire.OpenRouter, wire.OtherVariant, wire.LiteLLM}
	azure       = []wire.Variant{wire.Azure}
	geminis     = []wire.Variant{wire.GeminiAPI, wire.VertexGemini, wire.GeminiOpenAI, wire.OpenRouter, wire.OtherVariant, wire.LiteLLM}

	// sonnets are the Claude models with a minimum of 1024 tokens.
	sonnets = []string{
		"opus-4-8", "sonnet-5", "sonnet-4-5", "sonnet-4-0", "sonnet-4", "opus-4-1", "opus-4-0", "opus-4", "3-7-sonnet", "3-5-sonnet", "3-opus",
	}
	openAIParameters = []Parameter{
		{"response_format", Tools},
		{"text", Tools},
		{"reasoning", Tools},
		{"reasoning_effort", Tools},
		{"verbosity", Tools},
		{"parallel_tool_calls", Tools},
	}
	claudeParameters = []Parameter{
		{"tool_choice", Messages}, {"thinking", Messages}, {"output_config", Messages}, {"additional_model_request_fields", Messages},
	}

	deepSeek = Policy{
		Provider: "deepseek", Minimum: 64, Unit: 64, Reported: 64, Ends: EndPrompts, TTL: time.Hour, Settle: 10 * time.Second,
	}
)

// claude returns the policy of Claude models with a minimum.
func claude(provider string, minimum int64) Policy {
	return Policy{
		Provider: provider, Minimum: minimum, Unit: 1, Reported: 1, Ends: EndMarks, Lookback: 20,
		TTL: 5 * time.Minute, Longer: time.Hour, Parameters: claudeParameters, Images: true,
	}
}

// like returns a function that reports whether a model's name contains one of the names. Dots and at signs count as hyphens.
func like(names ...string) func(string) bool {
	return func(model string) bool {
		for _, name := range names {
			if _, ok := after(model, name); ok {
				return true
			}
		}
		return false
	}
}

// named returns the same, except that no version may follow the name: sonnet-4 is in sonnet-4-20250514, not in sonnet-4-5.
func named(names ...string) func(string) bool {
	return func(model string) bool {
		for _, name := range names {
			if rest, ok := after(model, name); ok && !hasMinor(rest) {
				return true
			}
		}
		return false
	}
}

// after returns what follows the first name in a model's name.
func after(model, name string) (rest string, ok bool) {
	for ; len(model) >= len(name); model = model[1:] {
		start := strings.IndexByte(model, name[0])
		if start < 0 || len(model)-start < len(name) {
			break
		}
		model = model[start:]
		if rest, ok = afterStart(model, name); ok {
			return rest, true
		}
	}
	return "", false
}

func afterStart(model, name string) (rest string, ok bool) {
	for i := range len(name) {
		if c := model[i]; c != name[i] && (name[i] != '-' || c != '.' && c != '@') {
			return "", false
		}
	}
	return model[len(name):], true
}

// hasMinor reports whether rest begins with a number of one or two digits.
func hasMinor(rest string) bool {
	if rest == "" || rest[0] != '-' && rest[0] != '.' {
		return false
	}
	_, end := number(rest[1:])
	digits := len(rest) - 1 - len(end)
	return digits == 1 || digits == 2
}

// A version is that of a GPT model.
type version struct{ major, minor int }

var newest = version{1 << 30, 0}

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

// gpt returns a function that reports whether a model is one of OpenAI's from one version to another, both included, that
// caches. Of GPT-4, these are 4o and 4.1; the models whose names begin with o, and the codex models without a version, count as 4.
func gpt(from, to version) func(string) bool {
	return func(model string) bool {
		v, ok := gptVersion(model)
		return ok && !v.before(from) && !to.before(v)
	}
}

// gptVersion returns the version in the name of a model of OpenAI, which may have the prefix of a gateway, or of a fine-tuned
// model.
func gptVersion(model string) (v version, ok bool) {
	model = strings.TrimPrefix(model, "ft:")
	model = model[strings.LastIndexByte(model, '/')+1:]
	for _, old := range [...]string{"o1", "o3", "o4", "codex-", "chatgpt-4o", "gpt-4o", "gpt-4.1"} {
		if strings.HasPrefix(model, old) {
			return version{4, 0}, true
		}
	}
	rest, ok := strings.CutPrefix(model, "gpt-")
	if !ok || strings.HasPrefix(rest, "35") { // Azure's name of 3.5
		return v, false
	}
	if v.major, rest = number(rest); v.major < 5 {
		return v, false
	}
	if minor, dot := strings.CutPrefix(rest, "."); dot {
		v.minor, _ = number(minor)
	}
	return v, true
}

// number reads the digits at the start of s.
func number(s string) (n int, rest string) {
	i := 0
	for ; i < len(s) && i < 6 && '0' <= s[i] && s[i] <= '9'; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return n, s[i:]
}
