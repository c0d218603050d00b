package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// MissingToolCallID finds tool replies without the id of their call.
var MissingToolCallID = &check.Rule{
	ID:    "missing_tool_call_id",
	Order: 90,
	Cause: "unknown_tool_call_id",
	Doc: `tool reply without the id of its call

Without tool_call_id, or with an empty one, a reply belongs to no call: 400, "messages with role 'tool' must have a
'tool_call_id'". Usual causes: the id is no column of the table that stores messages; a stream was assembled from deltas
that carry the id apart from the name. Store the id with the call and with its reply.`,
	Fix: "Set tool_call_id (tool_use_id, call_id, Gemini's name) of every reply to that of the call it answers, and store it with the reply.",
	Severity: idBlockAPIs.and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Kimi, wire.Mistral).and(wire.OpenAIResponses, openAIs...).
		and(wire.Interactions, wire.GeminiAPI).and(wire.Gemini, wire.GeminiAPI).reject, // "function_response.name: Name cannot be empty"
	Run: missingToolCallID,
}

func missingToolCallID(p *check.Pass) {
	for r := range p.Pairing.With(check.ReplyWithoutID) {
		id, k := wordsOf(p).ReplyID, r.IDKind
		if p.Target.Dialect == wire.Gemini {
			k = r.NameKind
		}
		if k == facts.Absent && p.Target.Native {
			continue // Ollama's own API pairs replies with calls by order and tool_name
		}
		var detail, is string
		switch k {
		case facts.Absent:
			detail, is = "absent", "no "+id
		case facts.String:
			detail, is = "empty", "an empty "+id
		default:
			detail, is = "not_string", "a "+id+" that is "+kind(k)+", not a string"
		}
		p.Report(r.Message, nil, toolName(p, r.Call), detail, "%s %s", theReply(p, r.Message), is)
	}
}
