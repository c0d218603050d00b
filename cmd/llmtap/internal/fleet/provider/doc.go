// Package provider is a stand-in for an LLM provider: it speaks OpenAI's chat completions format on loopback, unary and
// streamed, and is as strict about message histories as the real ones.
//
//	POST /openai/v1/chat/completions   ── check ── OpenAI's error texts    ┐
//	POST /deepseek/v1/chat/completions ── check ── DeepSeek's error texts  ┴─ scripted model ── JSON or SSE
//
// Whose rules apply is in the path: a hook records scheme, host and path of a call, so a reader maps the first path
// element, "openai" or "deepseek", to the variant of that name; Gemini's endpoint is known by its version. The texts
// alone tell it, too.
//
// # Why it checks histories by code of its own
//
// The demo shows that the analyzer finds what a provider rejects. A provider that used the analyzer's rules would only
// show that they agree with themselves.
//
// # The scripted model
//
// Lines of the last user message that begin with "- " are steps, such as `- read_file {"path": "a.go"}`. As long as tools
// are offered and steps are left, the model calls one to three tools, one for each step; all at once where the request
// has parallel_tool_calls true, one where it is false. Then it answers in text. Everything that looks random is drawn
// from a hash of the seed and the request, so the same request has the same answer, whatever else runs.
package provider
