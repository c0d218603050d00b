package rules

import (
	"strconv"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/facts"
)

// OrphanToolReply finds tool messages whose call is nowhere in the request.
var OrphanToolReply = &analyzer.Rule{
	ID: "orphan_tool_reply",
	Doc: `tool message without an assistant message that made its call

Providers answer 400: "messages with role 'tool' must be a response to a preceding message with 'tool_calls'".
Usual causes: the assistant message was stored with role and content only, so its tool_calls were lost; or the history
was trimmed between a call and its reply. Store the assistant message as it came, and trim whole turns: an assistant
message with tool_calls and all tool messages after it stay together or go together.`,
	Fix:      "Store and resend the assistant message with its tool_calls, and when trimming the history drop a call and its replies together.",
	Severity: rejectedBy(facts.OpenAI, facts.Azure, facts.DeepSeek, facts.Qwen, facts.Kimi, facts.MiniMax, facts.Mistral, facts.GeminiOpenAI),
	Run:      orphanToolReply,
}

func orphanToolReply(p *analyzer.Pass) {
	for r := range p.Groups.With(analyzer.ReplyOrphan) {
		detail, before := orphanPlace(p, r.After)
		p.Report(r.Message, r.ID, nil, detail, "message %d (tool) answers %s, which no assistant message in this request called; %s",
			r.Message, name(r.ID), before)
	}
}

// orphanPlace says what stands where the assistant message with the call should be.
func orphanPlace(p *analyzer.Pass, after int) (detail, before string) {
	if after < 0 {
		return "at_start", "no other message comes before it"
	}
	before = "message " + strconv.Itoa(after) + " (" + role(p, after) + ") comes before it"
	switch p.Request.Messages[after].Role {
	case facts.RoleAssistant:
		return "after_plain_assistant", "message " + strconv.Itoa(after) + " is an assistant message without tool_calls"
	case facts.RoleUser:
		return "after_user", before
	case facts.RoleSystem, facts.RoleDeveloper:
		return "after_system", before
	default:
		return "after_other", before
	}
}
