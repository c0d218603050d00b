// Package cause says why an exchange failed, in the closed set of words of the registry.
//
//	error text ── normal form ──> wordings of families, the judge's own first:  ──┐
//	                              openai, deepseek, qwen, gemini, anthropic,      │
//	                              mistral, hosts                                  ├──> Cause
//	                              what a clause talks about: common ──────────────┤
//	HTTP status ──────────────────────────────────────────────────────────────────┤
//	rules that expected a rejection ──────────────────────────────────────────────┘
//
// The provider's text decides first, then the status where it has one meaning, then what the rules found in the
// request, else the failure is unexplained. That a request broke a rule does not mean that it failed for that: a 400
// is also sent for a bad key, no credit, a filter or a long prompt, and those must never count as protocol failures. In
// turn a text that names a fault of the history is one under any status, for proxies turn a 400 into a 500 or a 200.
//
// # A row of a family
//
// A table is data: phrases of the normal form, the cause, the thread or file where the wording was seen ("unlinked":
// known from documentation or fixtures, without a thread to cite; "recorded": in a recorded HTTP exchange; a repository
// without an owner is cited as it was found). One check has many spellings: "preceding" and "preceeding", single, double
// and curly quotes, Python and JSON, wrapped lines, four levels of escaping by gateways. The normal form removes all of
// that, and what is left in common is a few words in order.
//
// # Concepts
//
// Most texts that fail an agent tomorrow stand in no table today: a new server, a new check, a new sentence. So common
// does not look for sentences. The lexicon lists what error texts talk about and the phrases that do so in the words of
// all servers ("toolreply": tool message, tool_result, function response, …; "nocall": no corresponding, must be a
// response to, …); the text is cut into clauses; a row of common is a condition on one clause:
//
//	{when: "toolreply nocall", cause: "orphan_tool_reply", …}
//
// Rows are in order: first what is nobody's protocol fault, then the finer fault before the coarser. To teach llmtap a
// wording, add its phrase to the concept it is one of; where it is the whim of one server, a row to the file of its
// family; and always the sentence to testdata/unseen.jsonl. The families come first because they know more: which rules
// a text of theirs also stands for, and what the same words mean at one provider only.
//
// How well that does, always when first seen: of 297 texts family tables alone explained 31 %; the half that the lexicon
// was not built with 91 % afterwards. Texts as they are found, in their envelopes and whether their wording is known or
// not: 181, 109, 49 and 42 of them were 82, 84, 90 and 86 % exact and 86, 88, 92 and 86 % within their class. Wordings
// that no table and no test had: 75, 49, 34, 143 and 160 of them, 76, 69, 79, 75 and 75 % exact and 79, 76, 88, 80 and
// 79 % within their class; a third of the last come from endpoints other than chat. Sentences made up to be unlike all
// others, 70, 65, 62 and 79 % (TestUnseen). What is missed is mostly left unexplained; at most 5 in a hundred were
// called a fault of the messages that are none. With a provider's own table and texts left out, 89 % of its texts are
// explained exactly and 93 % within their class (TestLeaveOneProviderOut).
//
// Last come rows that know no more than which part of the request a text speaks of. They are weak: the status and what
// the request shows go first. A text that names nothing stays unexplained (TestOpaque).
//
// # Who said it
//
// StatedBy is the table that knows the wording, not who wrote it: many servers copy one wording. Server names who wrote
// the text only where its spelling shows it, such as the two spaces in Kimi's "tool_call_id  is not found"; Gateway
// names who passed it on and left a mark, such as the "(request id: …)" of the one-api family.
//
// # Cost
//
// A text takes 5 microseconds whether a family knows it or not, and no memory; the worst, of which the first 3 KiB and
// the last KiB are read, 0.2 milliseconds (BenchmarkClassify).
package cause
