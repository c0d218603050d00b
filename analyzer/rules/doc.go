// Package rules holds the protocol rules: one defect of a message history per file.
//
//	facts.Request ── check.Pairing ──> rule, rule, … ──> []check.Violation
//	  what the body  calls and replies    one loop         message, call id, detail,
//	  holds          matched once         each             severity for the target, a sentence
//
// A rule reads facts, never JSON, and keeps no state. What a defect costs depends on who judges the request: Severity
// says Reject only for the variants that were seen to answer 400; what is unknown, contradictory or only inferred is
// Lenient.
//
// # Adding a rule
//
// One file, a line in All and one in InOrder, one testdata/<id>.txtar. The archive's comment tells the story;
// bad/NAME.json is a messages array or a whole request body, and bad/NAME.want what all rules together report on it,
// one line each:
//
//	2: [orphan_tool_reply after_plain_assistant] message 2 (tool) answers call_1, which …
//	1: [duplicate_call_id_in_history] (lenient) call_1 …
//
// that is: message index, rule, detail, what the target is expected to do when it is not to reject, summary. On
// good/NAME.json the rule itself reports nothing, and no other rule anything that the target would reject. The target
// is OpenAI's chat completions unless the name says another: NAME@anthropic.json, NAME@openai_chat.mistral.json,
// NAME@openai_chat.ollama.native.json; the model is the one of the body. NAME.answer is the answer before the request,
// for rules that compare the two.
//
// # Why pairing is done once
//
// Six of the rules ask what became of a reply or a call. check.Pairing answers that for all of them in one pass, so
// each rule is one loop: all 45 over a request of 100 KB take 12 microseconds, its scan takes 40 (BenchmarkRules).
package rules
