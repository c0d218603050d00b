// Package rules contains the protocol rules. Each file describes one defect of a message history.
//
//	facts.Request ── check.Pairing ──> rule, rule, … ──> []check.Violation
//	  content of     calls and replies    one loop         message, call id, detail,
//	  the body       matched once         each             severity for the target, a sentence
//
// A rule reads facts, never JSON, and is stateless. The severity of a defect depends on the target of the request. It is Reject
// only for the variants that have been observed to answer 400, and Lenient if the behaviour is unknown, contradictory or only
// inferred.
//
// # Adding a rule
//
// A rule needs one file, one line in All, one testdata/<id>.txtar, and rows in providers.txt that say why each target that it
// expects to reject does so. Its place in the evaluation order and the cause that it
// implies are fields of check.Rule. The comment of the archive describes how the defect arises. bad/NAME.json is a messages
// array or a whole request body, and bad/NAME.want contains the violations that all rules together report for it, one per line:
//
//	2: [orphan_tool_reply after_plain_assistant] message 2 (tool) answers call_1, which …
//	1: [duplicate_call_id_in_history] (lenient) call_1 …
//
// A line contains the message index, the rule, the detail, the predicted severity unless it is reject, and the summary. For
// good/NAME.json, the rule must not report anything, and no other rule may predict a rejection. The target is OpenAI's chat
// completions unless the file name specifies another one: NAME@anthropic.json, NAME@openai_chat.mistral.json,
// NAME@openai_chat.ollama.native.json. The model is taken from the body. NAME.answer is the preceding answer, for rules that
// compare a request with that answer.
//
// # Why pairing is done once
//
// Six of the rules need the pairs of calls and replies. check.Pairing computes them for all rules in one pass, so each rule is
// a single loop. For a request of 100 KB, all 52 rules take 12 microseconds, while the scan takes 40 (BenchmarkRules).
package rules
