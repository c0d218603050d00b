package session

import (
	"strings"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/wire"
)

// origin is the answer that message i repeats; nil when it is not known.
func (t *Turn) origin(i int) *answer {
	m := &t.q.messages[i]
	for _, c := range t.q.calls(m) {
		if call := t.call(c.id); call != nil {
			return call.answer
		}
	}
	if a := t.before; a != nil && m.role == facts.RoleAssistant && i-t.q.lead >= a.after && (t.q.copies(m, a) || t.fit.whole && i-t.q.lead == a.after && a.noText && m.noText) {
		return a
	}
	return nil
}

// reasoningGone explains a message without the reasoning, or its signature, that the target wants back.
func (t *Turn) reasoningGone(s *Symptom) RootCause {
	if s.Message < 0 {
		return RootCause{}
	}
	a := t.origin(s.Message)
	if a == nil {
		return t.reasoningSent(s)
	}
	if r := t.from(a, s.Message); r.ID != "" && r.Detail != "model" {
		return r
	}
	had := a.reasons
	if s.Rule == "thought_signature_missing" {
		had = false
		for _, c := range a.calls {
			had = had || c.signed
		}
	}
	switch {
	case had:
		return because(ReasoningStripped, High, "", "answer of exchange %s came with reasoning or its signature; message %d of the request, its copy, has none", a.exchange, s.Message)
	case a.blank && s.Rule == "reasoning_content_missing":
		return because(EmptyReasoningOmitted, High, "", "answer of exchange %s had an empty string as its reasoning; message %d of the request, its copy, lacks the member", a.exchange, s.Message)
	}
	return t.from(a, s.Message)
}

// reasoningSent explains it by the request before, which sent the same message with its reasoning.
func (t *Turn) reasoningSent(s *Symptom) RootCause {
	m := &t.q.messages[s.Message]
	for i := range t.p.messages {
		p := &t.p.messages[i]
		if p.role != facts.RoleAssistant || !p.reasons || m.reasons || !t.p.same(p, t.q, m, t.loose()) {
			continue
		}
		return because(ReasoningStripped, High, "", "message %d of the request before (exchange %s) had its reasoning; message %d of the request is the same without it", i, t.previous, s.Message)
	}
	return RootCause{}
}

// reasoningUnpaired explains a reasoning item and what it led to of which one is gone.
func (t *Turn) reasoningUnpaired(s *Symptom) RootCause {
	if s.Message < 0 {
		return RootCause{}
	}
	a := t.before
	if s.Detail == "no_reasoning_item" {
		if a == nil {
			return RootCause{}
		}
		return because(ReasoningStripped, High, "", "answer of exchange %s has %d reasoning items; item %d of the request is of that answer, and none of them is there", a.exchange, len(a.signed), s.Message)
	}
	if a == nil || !a.signedItem(t.facts.Messages[s.Message].ID) || len(a.calls) == 0 {
		return RootCause{}
	}
	for _, c := range a.calls {
		if t.q.declares(c.id) >= 0 {
			return RootCause{}
		}
	}
	return because(CallsDropped, High, "", "answer of exchange %s made %s; the next request has its reasoning item as item %d, but not the function_call item",
		a.exchange, named(a.calls[0].CallID, a.calls[0]), s.Message)
}

// switched explains what a target does not take in a message by the other provider that it came from.
func (t *Turn) switched(s *Symptom) RootCause {
	if s.Message < 0 {
		return RootCause{}
	}
	if a := t.origin(s.Message); a != nil {
		if r := t.from(a, s.Message); r.Detail != "model" || strings.HasPrefix(s.Rule, "reasoning_") {
			return r
		}
		return RootCause{}
	}
	// A message of the request before that went to another provider.
	if s.Rule == "reasoning_signature_invalid" || t.pSource == nil || !t.sentBefore(s.Message) {
		return RootCause{}
	}
	if what := change(t.pSource.target, t.source.target); what != "" && what != "model" {
		return because(ProviderSwitched, High, what, "the request before (exchange %s) went to %s with message %d; this one sends the same to %s",
			t.previous, target(t.pSource.target), s.Message, target(t.source.target))
	}
	return RootCause{}
}

// sentBefore reports whether message i was in the request before.
func (t *Turn) sentBefore(i int) bool {
	if i >= t.q.lead {
		return i-t.q.lead < t.fit.prefix
	}
	return i < t.p.lead && t.p.messages[i].hash == t.q.messages[i].hash
}

// from explains message i by the target that its answer a came from, if that is another one.
func (t *Turn) from(a *answer, i int) RootCause {
	what := change(a.source.target, t.source.target)
	if what == "" {
		return RootCause{}
	}
	return because(ProviderSwitched, High, what, "answer of exchange %s came from %s; message %d repeats it in a request to %s",
		a.exchange, target(a.source.target), i, target(t.source.target))
}

// change says what differs between two targets: dialect, variant, family of models, model; "" nothing.
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

// family is the first word of a model's name: gpt of openai/gpt-5-mini.
func family(model string) string {
	model = strings.ToLower(model[strings.LastIndexByte(model, '/')+1:])
	if i := strings.IndexFunc(model, func(r rune) bool { return r < 'a' || r > 'z' }); i > 0 {
		return model[:i]
	}
	return model
}

func target(t wire.Target) string {
	if t.Model == "" {
		return string(t.Variant)
	}
	return string(t.Variant) + " (" + quote(t.Model) + ")"
}

// leaked explains a field that the target does not take: it came with the answer of another provider, or the code that
// writes messages adds it, to all of a role.
func (t *Turn) leaked(s *Symptom) RootCause {
	if s.Message < 0 {
		return RootCause{}
	}
	m := &t.facts.Messages[s.Message]
	if m.Role == facts.RoleAssistant && t.fit.known {
		if r := t.switched(s); r.ID != "" {
			return r
		}
	}
	n, all := t.carry(m, func(o *facts.Message) bool { return o.Role == m.Role })
	switch {
	case all && (n > 1 || t.fit.known && t.sentBefore(s.Message)) && (t.fit.known || m.Role != facts.RoleAssistant):
		return because(FieldLeak, Medium, "", "all messages of the role carry the field in this request (%d)", n)
	}
	if n, all = t.carry(m, func(*facts.Message) bool { return true }); all && n > 1 {
		return because(FieldLeak, Medium, "", "all %d messages of the request carry the field", n)
	}
	return RootCause{}
}

// carry counts some messages of the request, and reports whether all have a field of m.
func (t *Turn) carry(m *facts.Message, some func(*facts.Message) bool) (n int, all bool) {
	fields := m.Fields
	for i := range t.facts.Messages {
		if o := &t.facts.Messages[i]; some(o) {
			fields &= o.Fields
			n++
		}
	}
	return n, fields != 0
}

// idFormat explains a call id that the target does not take.
func (t *Turn) idFormat(s *Symptom) RootCause {
	call := t.call(s.id)
	if call == nil {
		return t.switched(s)
	}
	if r := t.from(call.answer, s.Message); r.ID != "" && r.Detail != "model" {
		return r
	}
	return because(IDFromGateway, Low, "", "answer of exchange %s itself gave the call the id %s, and the request repeats it", call.Exchange, quote(s.ToolCallID))
}
