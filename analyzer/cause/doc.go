// Package cause says why an exchange failed, in the closed set of words of the registry.
//
//	error text ── normal form ──> tables, the judge's own first ──┐
//	                              openai, deepseek, qwen, gemini, │
//	                              anthropic, mistral, hosts,      ├──> Cause
//	                              common                          │
//	HTTP status ──────────────────────────────────────────────────┤
//	rules that expected a rejection ──────────────────────────────┘
//
// The provider's text decides first, then the status where it has one meaning, then what the rules found in the
// request, else the failure is unexplained. That a request broke a rule does not mean that it failed for that: a 400
// is also sent for a bad key, no credit, a filter or a long prompt, and those must never count as protocol failures.
//
// # A row
//
// A table is data: phrases of the normal form, the cause, the thread or file where the wording was seen ("unlinked":
// known from documentation or fixtures, without a thread to cite; "recorded": in a recorded HTTP exchange; a repository
// without an owner is cited as it was found). To teach llmtap a new wording add a row to the file of the provider that
// writes it, and a line to TestWordings.
//
// # Why phrases, not regular expressions
//
// One check has many wordings: "preceding" and "preceeding", single, double and curly quotes, Python and JSON, wrapped
// lines, four levels of escaping by gateways. The normal form removes all of that, and what is left in common is a few
// words in order. That is easier to read and to extend than patterns that spell the variations out, and it is fast: the
// public texts take 2 microseconds each, the worst of 4 KiB 13 (BenchmarkClassify).
package cause
