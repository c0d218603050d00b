package session

import (
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// origin returns the answer that message i repeats; nil if it is unknown.
func (x *explainer) origin(i int) *answer {
	m := &x.q.messages[i]
	for _, c := range x.q.callsOf(m) {
		if call := x.Turn.call(c.id); call != nil {
			return call.answer
		}
	}
	if a := x.before; a != nil && m.role == facts.RoleAssistant && i-x.q.lead >= a.after && (x.q.copies(m, a) || x.aligned.whole && i-x.q.lead == a.after && a.noText && m.noText) {
		return a
	}
	return nil
}

// explainReasoning explains a message that lacks the reasoning or signature that the target requires.
func explainReasoning(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	a := x.origin(x.Message)
	if a == nil {
		return x.reasoningSent()
	}
	if r := x.from(a); r.ID != "" && r.Detail != "model" {
		return r
	}
	had := a.reasons
	switch {
	case x.Rule != "thought_signature_missing":
	case x.items: // the signature is that of a thought, which may be behind the call
		had = had && !slices.ContainsFunc(x.q.messages[x.Message:x.q.groupEnd(x.Message)], func(m message) bool { return m.reasons })
	default:
		had = false
		for _, c := range a.calls {
			had = had || c.signed
			if c.signed && x.lost(c) {
				return because(CallsDropped, High, "some", "answer of LLM call %s made %d calls, of which %s has the signature; message %d of the request is its copy without this one",
					a.exchange, len(a.calls), callName(c.CallID, c), x.Message)
			}
		}
	}
	switch {
	case had:
		return because(ReasoningStripped, High, "", "answer of LLM call %s had reasoning or a signature of it; message %d of the request, its copy, has none", a.exchange, x.Message)
	case a.blank && x.Rule == "reasoning_content_missing":
		return because(EmptyReasoningOmitted, High, "", "answer of LLM call %s had an empty string as its reasoning; message %d of the request, its copy, lacks the field", a.exchange, x.Message)
	}
	return x.from(a)
}

// lost reports whether the message of the defect, a copy of the answer that made c, has fewer calls than the answer and lacks c.
// Calls without ids are told apart by their names only, so any of several calls of one function may be the one that is missing.
func (x *explainer) lost(c *Call) bool {
	calls := x.q.callsOf(&x.q.messages[x.Message])
	if len(calls) >= len(c.answer.calls) {
		return false
	}
	for _, o := range calls {
		if o.id == c.id {
			return c.CallID == ""
		}
	}
	return true
}

// reasoningSent explains missing reasoning by the previous request, if it had the same message with its reasoning.
func (x *explainer) reasoningSent() RootCause {
	m := &x.q.messages[x.Message]
	for i := range x.p.messages {
		p := &x.p.messages[i]
		if p.role != facts.RoleAssistant || !p.reasons || m.reasons || !x.p.same(p, x.q, m, x.loose()) {
			continue
		}
		return because(ReasoningStripped, High, "", "message %d of the request before (LLM call %s) had its reasoning; message %d of the request is the same without it", i, x.previous, x.Message)
	}
	return RootCause{}
}

// explainReasoningItem explains a reasoning item without the item that followed it, or an item without its reasoning item.
func explainReasoningItem(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	a := x.before
	if x.Detail == "no_reasoning_item" {
		if a == nil {
			return RootCause{}
		}
		return because(ReasoningStripped, High, "", "answer of LLM call %s has %d reasoning items; item %d of the request is of that answer, and all of them are missing", a.exchange, len(a.signed), x.Message)
	}
	if x.Detail != "no_following_item" {
		return RootCause{}
	}
	if a = x.answerOfItem(x.facts.Messages[x.Message].ID); a == nil {
		return RootCause{}
	}
	if len(a.calls) == 0 {
		if a.noText || x.loose() || x.q.copyOf(a) >= 0 {
			return RootCause{}
		}
		return because(CallsDropped, High, "message", "answer of LLM call %s has a reasoning item and a message; the request has its reasoning item as item %d, but not the message",
			a.exchange, x.Message)
	}
	for _, c := range a.calls {
		switch at := x.q.lastCall(c.id); {
		case at >= 0 && at < x.Message:
			return because(HistoryReordered, High, "", "answer of LLM call %s has its reasoning item before the call %s; the request has the call as item %d and the reasoning item as item %d",
				a.exchange, callName(c.CallID, c), at, x.Message)
		case at >= 0:
			return RootCause{}
		}
	}
	if c := a.calls[0]; x.p != nil && x.p.lastCall(c.id) >= 0 && x.q.countReplies(c.id) == 0 {
		detail := "middle"
		if x.Message == len(x.q.messages)-1 {
			detail = "tail"
		}
		return because(Truncated, High, detail, "the request before (LLM call %s) contained the call %s; this one has the reasoning item before it as item %d, but neither the call nor its output",
			x.previous, callName(c.CallID, c), x.Message)
	}
	return because(CallsDropped, High, "", "answer of LLM call %s made %s; the next request has its reasoning item as item %d, but not the function_call item",
		a.exchange, callName(a.calls[0].CallID, a.calls[0]), x.Message)
}

// maxItemAnswers bounds the number of calls whose answers are searched for a reasoning item, newest first.
const maxItemAnswers = 256

// answerOfItem returns the answer with the reasoning item id: the previous answer, or an older one with calls; nil if unknown.
func (x *explainer) answerOfItem(id []byte) *answer {
	if a := x.before; a != nil && a.signedItem(id) {
		return a
	}
	order := x.conv.order
	for i := len(order) - 1; i >= max(0, len(order)-maxItemAnswers); i-- {
		if c := x.conv.calls[order[i]]; c != nil && c.answer.signedItem(id) {
			return c.answer
		}
	}
	return nil
}

// explainSwitched explains message content that the target does not accept by a switch of the provider: the message came
// from, or was accepted by, another one.
func explainSwitched(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	if a := x.origin(x.Message); a != nil {
		if r := x.from(a); r.Detail != "model" || strings.HasPrefix(x.Rule, "reasoning_") {
			return r
		}
		return RootCause{}
	}
	// The previous request, which may have gone to another provider, contained the message.
	if x.Rule == "reasoning_signature_invalid" || x.pSource == nil || !x.sentBefore(x.Message) {
		return RootCause{}
	}
	if what := change(x.pSource.target, x.source.target); what != "" && what != "model" {
		return because(ProviderSwitched, High, what, "the request before (LLM call %s) went to %s with message %d; this one sends the same to %s",
			x.previous, targetName(x.pSource.target), x.Message, targetName(x.source.target))
	}
	return RootCause{}
}

// explainSignature explains signed reasoning that differs from the reasoning in the previous answer.
func explainSignature(x *explainer) RootCause {
	if x.Detail == "edited" && x.before != nil {
		return because(ReasoningEdited, High, "", "answer of LLM call %s has signed thinking; message %d of the request has the same signature with another text", x.before.exchange, x.Message)
	}
	if x.Detail == "no_signature" && x.Message >= 0 {
		a := x.origin(x.Message)
		if a == nil || len(a.signed) == 0 {
			return RootCause{}
		}
		return because(FieldLost, High, "signature", "answer of LLM call %s has signed thinking; message %d of the request, its copy, has thinking without a signature", a.exchange, x.Message)
	}
	if r := explainSwitched(x); r.ID != "" || x.Detail != "" || x.before == nil || x.Message < 0 || x.names || x.items {
		// The facts of Gemini do not distinguish an omission from a change. In a recorded conversation, OpenAI accepted encrypted
		// content that differed from the answer's.
		return r
	}
	if int(x.q.messages[x.Message].calls) != len(x.before.calls) {
		return RootCause{} // the message has the signatures of other answers too
	}
	return because(ReasoningEdited, Medium, "", "answer of LLM call %s has signed thinking; message %d of the request, its copy, has another signature", x.before.exchange, x.Message)
}

// sentBefore reports whether the previous request contained message i.
func (x *explainer) sentBefore(i int) bool {
	if i >= x.q.lead {
		return i-x.q.lead < x.aligned.prefix
	}
	return i < x.p.lead && x.p.messages[i].hash == x.q.messages[i].hash
}

// from explains a message that repeats the answer a, if a came from another target.
func (x *explainer) from(a *answer) RootCause {
	what := change(a.source.target, x.source.target)
	if what == "" {
		return RootCause{}
	}
	return because(ProviderSwitched, High, what, "answer of LLM call %s came from %s; message %d repeats it in a request to %s",
		a.exchange, targetName(a.source.target), x.Message, targetName(x.source.target))
}

// change returns the most significant difference between two targets: "dialect", "variant", "family" (of models) or "model";
// "" if there is none.
func change(a, b wire.Target) string {
	switch {
	case a.Dialect != b.Dialect:
		return "dialect"
	case a.Variant != b.Variant:
		return "variant"
	case a.Model == b.Model || a.Model == "" || b.Model == "":
		return ""
	case family(a.Model) != family(b.Model):
		return "family"
	}
	return "model"
}

// family returns the first word of a model name, such as gpt for openai/gpt-5-mini.
func family(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if i := strings.IndexFunc(model, func(r rune) bool { return r < 'a' || r > 'z' }); i > 0 {
		return model[:i]
	}
	return model
}

func targetName(t wire.Target) string {
	if t.Model == "" {
		return string(t.Variant)
	}
	return string(t.Variant) + " (" + quote(t.Model) + ")"
}

// explainField explains a field that the target does not accept: the field came with the answer of another provider, or the
// code that builds messages adds it to all messages of a role.
func explainField(x *explainer) RootCause {
	if x.Message < 0 {
		return RootCause{}
	}
	m := &x.facts.Messages[x.Message]
	if m.Role == facts.RoleAssistant && x.aligned.known {
		if r := explainSwitched(x); r.ID != "" {
			return r
		}
	}
	n, all := x.carry(m, func(o *facts.Message) bool { return o.Role == m.Role })
	switch {
	case all && (n > 1 || x.aligned.known && x.sentBefore(x.Message)) && (x.aligned.known || m.Role != facts.RoleAssistant):
		return because(FieldLeak, Medium, "", "all %d messages of the role have the field in this request", n)
	}
	if n, all = x.carry(m, func(*facts.Message) bool { return true }); all && n > 1 {
		return because(FieldLeak, Medium, "", "all %d messages of the request have the field", n)
	}
	return RootCause{}
}

// carry returns the number of messages for which some returns true, and whether all of them have the same field of m.
func (x *explainer) carry(m *facts.Message, some func(*facts.Message) bool) (n int, all bool) {
	fields := m.Fields
	for i := range x.facts.Messages {
		if o := &x.facts.Messages[i]; some(o) {
			fields &= o.Fields
			n++
		}
	}
	return n, fields != 0
}
