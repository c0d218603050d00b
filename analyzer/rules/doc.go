// Package rules contains the protocol rules: one defect of a message history per file.
//
//	facts.Request ── check.Pairing ──> rule, rule, … ──> []check.Violation
//	  content of     calls and replies    one loop         message, call id, detail,
//	  the body       matched once         each             severity for the target, a sentence
//
// A rule reads facts, never JSON, and keeps no state. The severity of a defect depends on the target of the request: it is
// Reject only for the variants that were seen to answer 400; if the behaviour is unknown, contradictory or only inferred,
// it is Lenient.
//
// # Adding a rule
//
// A rule is one file, one line in All and one testdata/<id>.txtar; its place in the evaluation order and the cause that it
// implies are fields. The archive's comment describes how the defect arises. bad/NAME.json is a messages array or a whole
// request body, and bad/NAME.want contains the violations that all rules together report for it, one per line:
//
//	2: [orphan_tool_reply after_plain_assistant] message 2 (tool) answers call_1, which …
//	1: [duplicate_call_id_in_history] (lenient) call_1 …
//
// that is: message index, rule, detail, predicted severity unless it is reject, summary. For good/NAME.json the rule
// reports nothing, and no other rule predicts a reject. The target is OpenAI's chat completions unless the file name
// specifies another: NAME@anthropic.json, NAME@openai_chat.mistral.json, NAME@openai_chat.ollama.native.json; the model is
// that of the body. NAME.answer is the preceding answer, for rules that compare the two.
//
// # Why pairing is done once
//
// Six of the rules need the match between calls and replies. check.Pairing computes it for all of them in one pass, so
// each rule is one loop: all 45 take 12 microseconds for a request of 100 KB, whose scan takes 40 (BenchmarkRules).
package rules
