package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// AssistantContentMissing finds assistant messages with neither content nor calls.
var AssistantContentMissing = &check.Rule{
	ID:    "assistant_content_missing",
	Order: 190,
	Cause: "missing_required_field",
	Doc: `assistant message with neither content nor tool calls

Content may be null only next to tool calls; otherwise 400, "Invalid value for 'content': expected a string, got null",
"either content or tool_calls, but not none". Usual causes: the assistant message was stored with role and content only,
and it had no text besides its tool calls; a turn was stored in which the model said nothing. Groq and OpenRouter
accept it.`,
	Fix:      "Store the assistant message with its tool calls; do not store a turn that has neither text nor calls.",
	Severity: answersChecked.reject,
	Run:      assistantContentMissing,
}

var answersChecked = blockAPIs.and(wire.OpenAIResponses, openAIs...).and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.Mistral, wire.Kimi, wire.GLM)

// instead contains the fields that an answer may have in place of content: a refusal, audio or a legacy function_call.
const instead = facts.FieldRefusal | facts.FieldAudio | facts.FieldFunctionCall

func assistantContentMissing(p *check.Pass) {
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Role != facts.RoleAssistant || m.Content > facts.Null || len(m.Calls) > 0 || m.Fields&^m.NullFields&instead != 0 {
			continue
		}
		if p.Target.Dialect.Descriptor().Pairing.Items && (m.Item != facts.ItemMessage || m.Content != facts.Absent) {
			continue // other items have no content, and no rejection of null has been observed
		}
		if m.ToolCalls > facts.Null && m.ToolCalls != facts.Array || p.Request.Dropped > 0 {
			continue // the calls are malformed or dropped, so the message is not empty
		}
		detail, is := "absent", "no content and no "
		if m.Content == facts.Null {
			detail, is = "null", "content null and no "
		}
		severity := answersChecked.reject(p.Target)
		if m.Reasoning > facts.Null && p.Target.Dialect == wire.OpenAIChat {
			// An answer with only reasoning is known to be rejected only by OpenAI, which ignores reasoning.
			severity = by{wire.OpenAIChat: openAIs}.reject(p.Target)
		}
		p.ReportAs(severity, i, nil, nil, detail, "%s has %s%s", at(p, i), is, wordsOf(p).Call)
	}
}
