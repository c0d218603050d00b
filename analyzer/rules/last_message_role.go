package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// LastMessageRole finds requests that end with an assistant message, for targets that do not continue such a message.
var LastMessageRole = &check.Rule{
	ID:    "last_message_role",
	Order: 270,
	Cause: "role_order",
	Doc: `request that ends with an assistant message

Mistral answers "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant", Vertex
AI "Requests ending with a model turn are not supported", newer Claude models "This model does not support assistant
message prefill. The conversation must end with a user message". Others continue the message, which is seldom intended.
Usual causes: a loop calls the model again without new input; the tool messages of the last call were lost. Send
only with a new user message or tool reply; mark an intended start of the answer (prefix, partial).`,
	Fix:      "Call the model only after a user message or tool replies were appended; mark an intended start of the answer with prefix: true where the provider supports it.",
	Severity: lastMessageSeverity,
	Run:      lastMessageRole,
}

func lastMessageSeverity(t wire.Target) check.Severity {
	switch t.Dialect {
	case wire.Anthropic:
		if refuses, _ := refusesPrefill(t.Model); refuses && t.Variant != wire.OtherVariant {
			return check.Reject
		}
		return check.Lenient
	case wire.Bedrock:
		if after(t.Model, "amazon.") >= 0 || after(t.Model, "inference-profile") >= 0 {
			return check.Lenient // Nova has been observed to accept it
		}
	default:
	}
	return by{wire.OpenAIChat: {wire.Mistral}, wire.Bedrock: nil, wire.Gemini: {wire.VertexGemini}}.reject(t)
}

func lastMessageRole(p *check.Pass) {
	n := len(p.Request.Messages)
	if n == 0 || p.Request.Dropped > 0 || p.Request.Compacts || p.Target.Dialect.Descriptor().Pairing.Items {
		return
	}
	m := &p.Request.Messages[n-1]
	if m.Role != facts.RoleAssistant || m.Fields&^m.NullFields&facts.FieldPrefix != 0 || acceptsPrefill(p) {
		return
	}
	if p.Target.Dialect == wire.Anthropic && m.Parts&facts.PartOther != 0 {
		return // an answer that stopped with pause_turn or compaction is sent back for the model to continue it
	}
	severity := lastMessageSeverity(p.Target)
	if p.Target.Dialect == wire.Bedrock && !followsReplies(p, n-1) {
		if refuses, known := refusesPrefill(p.Target.Model); known && !refuses {
			severity = check.Lenient // observed: prefills after tool results were refused, and a prefill after a text was accepted
		}
	}
	p.ReportAs(severity, n-1, nil, nil, "", "the request ends with message %d (%s): the model has nothing to answer", n-1, role(p, n-1))
}

// followsReplies reports whether the user messages directly before message i contain tool replies.
func followsReplies(p *check.Pass, i int) bool {
	for i--; i >= 0 && p.Request.Messages[i].Role == facts.RoleUser; i-- {
		if len(p.Request.Messages[i].Replies) > 0 {
			return true
		}
	}
	return false
}

// acceptsPrefill reports whether the target is known to continue an assistant message.
func acceptsPrefill(p *check.Pass) bool {
	switch p.Target.Dialect {
	case wire.OpenAIChat:
		switch p.Target.Variant {
		case wire.OpenAI, wire.Azure, wire.Ollama, wire.VLLM, wire.OpenRouter:
			return true
		case wire.DeepSeek:
			return !modelIs(p, "reasoner") // deepseek-reasoner refused a prefill in 2025
		default:
		}
	case wire.Gemini:
		return p.Target.Variant == wire.GeminiAPI
	case wire.Anthropic:
		refuses, known := refusesPrefill(p.Target.Model)
		return known && !refuses
	case wire.Bedrock:
		// Claude accepts a prefill, except in newer models and in requests with tools.
		refuses, known := refusesPrefill(p.Target.Model)
		return known && !refuses && !p.Request.HasTools && !p.Request.Bare
	default:
	}
	return false
}

// refusesPrefill reports whether a Claude model refuses a request that ends with an assistant message. Opus 4.6 to 5.x and
// Sonnet 5 are known to refuse it, and models up to 4.5 are known to accept it.
func refusesPrefill(model string) (refuses, known bool) {
	if after(model, "claude") < 0 {
		return false, false
	}
	if v, ok := versionAfter(model, "opus-"); ok && v.atLeast(4, 6) {
		return v.major <= 5, v.major <= 5
	}
	if v, ok := versionAfter(model, "sonnet-"); ok && v.major == 5 {
		return true, true
	}
	for _, family := range [...]string{"opus-", "sonnet-", "haiku-", "claude-"} {
		if v, ok := versionAfter(model, family); ok {
			return false, !v.atLeast(4, 6)
		}
	}
	return false, false
}
