// Package promptcaching is the prompt caching of OpenAI, Anthropic, Gemini and DeepSeek, as far as they document it: which tokens of a
// request are read from the cache and which are written to it follows from the requests before.
//
//	request ── rendered in the provider's order ── longest prefix in the cache ──> Usage
//	answer begins ── the prefixes that it wrote can be read
//
// It is written from the documentation alone. A cache that shared code with the analyzer would only show that the analyzer
// agrees with itself.
//
// # Tokens
//
// A token is four bytes of the rendered prompt, at every provider. Each tool, each block of a message and each system text starts
// a new token.
//
// # Sources
//
// OpenAI: developers.openai.com/api/docs/guides/prompt-caching, as of July 2026, and Prompt Caching 201 in its cookbook, as of 2026,
// for models before GPT-5.6. Prompts of 1024 tokens or more, in steps of 128; tools and the schema of a response format come
// first, images count, and so does the effort, tool_choice does not; requests are routed by a hash of about the first 256 tokens
// and prompt_cache_key, and above about 15 a minute some go to another machine; held for 5 to 10 minutes after the last use, or
// for 24 hours with prompt_cache_retention.
//
// Anthropic: platform.claude.com/docs/en/build-with-claude/prompt-caching, as of August 2026. Tools, system, messages; cached up to
// marks, of which there are at most four, or one in the request itself for its last block; each looks back 20 blocks; a minimum by
// model; 5 minutes or an hour, renewed by each use; written when the answer begins. tool_choice, thinking and the presence of
// images are part of the messages, output_config.format of the system prompt (…/structured-outputs).
//
// Gemini: ai.google.dev/gemini-api/docs/caching, as of June 2026. A minimum by model for implicit caching; cachedContents live
// for an hour unless they have a ttl. Not documented: the step, which is 64 tokens here, the order, which is that of cachedContents
// (system instruction, tools, contents), and how long implicit caches live, which is 5 to 10 minutes here.
//
// DeepSeek: api-docs.deepseek.com/guides/kv_cache, as of May 2026. Prefixes end where a request ends, where its answer ends, where
// requests were seen to part, and after each of certain numbers of tokens, which are not documented and 4096 here; a prefix is read
// as a whole or not at all. Units of 64 tokens are from the older guide of August 2024. An unused prefix is cleared after hours to
// days: a day here.
package promptcaching
