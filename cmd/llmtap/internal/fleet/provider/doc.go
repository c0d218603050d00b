// Package provider fakes LLM providers on loopback: it serves chat completions in OpenAI's format and Anthropic's messages,
// whole and streamed, and is as strict about message histories as the real providers.
//
//	POST /openai/v1/chat/completions   ── check ── OpenAI's error texts    ┐
//	POST /deepseek/v1/chat/completions ── check ── DeepSeek's error texts  ┴─ scripted model ── JSON or SSE
//
// The path selects the provider. A hook records scheme, host and path of a call, so a reader maps the first path element,
// "openai" or "deepseek", to the variant of that name; Gemini's endpoint is identified by its version. A provider can also
// be identified by its error texts alone.
//
// # Why it has its own checks
//
// The demo shows that the analyzer finds what a provider rejects. A provider that used the analyzer's rules would only show
// that the rules agree with themselves.
//
// # Usage
//
// With a prompt cache (package promptcaching), answers of OpenAI, Anthropic, Gemini and DeepSeek report the tokens that were read from
// it. Gemini's own API, generateContent, is there for that: it does not check histories.
//
// # The scripted model
//
// Lines of the last user message that begin with "- " are steps, such as `- read_file {"path": "a.go"}`. While the request
// offers tools and steps remain, the model calls tools for one to three steps, one tool per step. If parallel_tool_calls is
// true, it calls tools for all steps; if it is false, for one step. Then it answers with text. Random choices depend on a
// hash of the seed and the request, so the same request always gets the same answer.
package provider
