package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// OrphanToolReply finds tool replies whose call is not in the request.
var OrphanToolReply = &check.Rule{
	ID:    "orphan_tool_reply",
	Order: 10,
	Cause: "orphan_tool_reply",
	Doc: `tool reply without an assistant message that made its call

Providers answer 400: "messages with role 'tool' must be a response to a preceding message with 'tool_calls'".
Usual causes: the assistant message was stored with role and content only, so its tool_calls were lost; or the history
was trimmed between a call and its reply. Store the assistant message unchanged, and trim whole turns: keep or drop an
assistant message with tool_calls together with all tool messages after it.`,
	Fix:      "Store and resend the assistant message with its tool calls, and when trimming the history drop a call and its replies together.",
	Severity: needCalls.reject,
	Run:      orphanToolReply,
}

var needCalls = blockAPIs.and(wire.OpenAIResponses, openAIs...).and(wire.Interactions, wire.GeminiAPI).
	and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Qwen, wire.Kimi, wire.MiniMax, wire.Mistral, wire.GeminiOpenAI)

func orphanToolReply(p *check.Pass) {
	var severity check.Severity
	for r := range p.Pairing.With(check.ReplyOrphan) {
		if severity == "" {
			severity = unlessOtherCalls(p, needCalls)
		}
		detail, before := orphanPlace(p, r.After)
		caller := "no assistant message"
		switch p.Target.Dialect {
		case wire.OpenAIResponses:
			caller = "no item"
		case wire.Gemini:
			caller = "no model message"
		case wire.Interactions:
			caller = "no step"
		default:
		}
		p.ReportReply(ofOutput(p, r, severity), r, quoted(p, nil, r.Name), detail, "%s answers %s, which %s in this request called; %s",
			at(p, r.Message), name(quoted(p, r.ID, r.Name)), caller, before)
	}
	switch p.Target.Dialect {
	case wire.Anthropic:
		serverResults(p, needCalls.reject(p.Target))
	case wire.Gemini, wire.Interactions:
		serverResults(p, check.Lenient) // whether it is refused is unknown
	default:
	}
}

// serverResults reports results of tools that the provider ran (server_tool_use, mcp_tool_use, toolCall, google_search_call) without any such call before them,
// which compaction leaves: "Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it".
func serverResults(p *check.Pass, severity check.Severity) {
	if p.Request.Stored {
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Fields&facts.FieldServerOrphan != 0 {
			p.ReportAs(severity, i, nil, nil, "server_tool", "%s has the result of a tool that the provider ran, and no call of such a tool precedes it", at(p, i))
		}
		if m.Fields&facts.FieldServerUse != 0 {
			return // it may be the call of a later result
		}
	}
}

// unlessOtherCalls returns the severity of a reply without its call. It is Lenient if a Responses input has items that may be
// calls of an unpaired kind.
func unlessOtherCalls(p *check.Pass, who by) check.Severity {
	for i := range p.Request.Messages {
		if p.Request.Messages[i].Unpaired {
			return check.Lenient
		}
	}
	return who.reject(p.Target)
}

// ofOutput returns severity, or Lenient if the reply is the output of a tool of which only a missing reply, but none without its
// call, has been observed to be refused.
func ofOutput(p *check.Pass, r *check.Reply, severity check.Severity) check.Severity {
	if word := role(p, r.Message); word == "local_shell_call_output" || word == "apply_patch_call_output" {
		return check.Lenient
	}
	return severity
}

// orphanPlace returns the detail and a clause about the message at the position where the missing call should be.
func orphanPlace(p *check.Pass, after int) (detail, before string) {
	if after < 0 {
		return "at_start", "no other " + wordsOf(p).Message + " precedes it"
	}
	before = at(p, after) + " precedes it"
	switch p.Request.Messages[after].Role {
	case facts.RoleAssistant:
		if m := &p.Request.Messages[after]; len(m.Calls) > 0 || m.Item != facts.NoItem {
			return "after_plain_assistant", before
		}
		article := "an "
		if p.Target.Dialect == wire.Gemini {
			article = "a "
		}
		return "after_plain_assistant", ref(p, after) + " is " + article + role(p, after) + " message without " + wordsOf(p).Call
	case facts.RoleUser:
		return "after_user", before
	case facts.RoleSystem, facts.RoleDeveloper:
		return "after_system", before
	default:
		return "after_other", before
	}
}
