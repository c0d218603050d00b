package rules

import (
	"bytes"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// MissingToolReply finds calls without a reply in their turn.
var MissingToolReply = &check.Rule{
	ID:    "missing_tool_reply",
	Order: 50,
	Cause: "missing_tool_reply",
	Doc: `tool call without a reply that answers it

Every call needs its own reply before the next message of another role: otherwise 400, "An assistant message with
'tool_calls' must be followed by tool messages responding to each 'tool_call_id'", "tool_use ids were found without
tool_result blocks immediately after", "No tool output found for function call". Usual causes: only the first of several
parallel calls is run; a tool failed, timed out or was cancelled and nothing was stored; the process died between call
and reply; the history was cut at its end. Always write a reply for every call: a tool that did not run gets
a reply that says so.`,
	Fix:      "Append one reply for every call, also when the tool failed or was skipped (say so in its content), before the next request.",
	Severity: needReplies.reject,
	Run:      missingToolReply,
}

var needReplies = blockAPIs.and(wire.OpenAIResponses, wire.OpenAI, wire.Azure, wire.DeepSeekResponses).
	and(wire.OpenAIChat, wire.OpenAI, wire.Azure, wire.DeepSeek, wire.Qwen, wire.Kimi, wire.Mistral)

// countReplies is the set of targets of which some versions only compare the numbers of replies and calls.
var countReplies = by{wire.OpenAIChat: {wire.Mistral}}

func missingToolReply(p *check.Pass) {
	replies, group, inGroup := 0, -1, 0 // number of replies seen; newest group among them; number of its replies
	for c := range p.Pairing.Unanswered() {
		severity := needReplies.reject(p.Target)
		if countReplies.has(p.Target) {
			for ; replies < len(p.Pairing.Replies) && p.Pairing.Replies[replies].Group <= c.Group; replies++ {
				if r := &p.Pairing.Replies[replies]; r.Group > group {
					group, inGroup = r.Group, 1
				} else if r.Group == group {
					inGroup++
				}
			}
			if g := p.Pairing.Groups[c.Group]; group == c.Group && inGroup == g.Last-g.First {
				severity = check.Lenient
			}
		}
		g := p.Pairing.Groups[c.Group]
		if p.Target.Dialect == wire.Gemini && len(p.Pairing.Replies) == 0 && undeclared(p) {
			severity = check.Lenient // Gemini 2.0 and 2.5 have been observed to accept it
		}
		if c.Type == facts.TypeEither || c.Type == facts.TypeOther && p.Target.Variant == wire.DeepSeekResponses {
			severity = check.Lenient // not observed
		}
		detail, then := missing(g, "at_end"), "the request ends"
		if g.End < len(p.Request.Messages) {
			detail, then = missing(g, "middle"), at(p, g.End)+" follows"
		}
		p.ReportCall(severity, c, detail, "call %s of %s has no reply: %s with %d of %d calls answered",
			answered(p, c), ref(p, c.Message), then, g.Answered, g.Last-g.First)
	}
	if p.Target.Dialect == wire.Anthropic && !p.Pairing.Unknown {
		serverTools(p)
	}
}

var serverToolID = []byte("srvtoolu_")

// serverTools reports calls to a tool that the provider ran (server_tool_use blocks) if the agent sends them back as its own
// calls with replies. Such a request is refused, with the text for a call without a reply, if it declares the provider's tool,
// and accepted if it declares no tools.
func serverTools(p *check.Pass) {
	severity := needReplies.reject(p.Target)
	if undeclared(p) {
		severity = check.Lenient
	}
	for i := range p.Pairing.Calls {
		if c := &p.Pairing.Calls[i]; c.Reply >= 0 && bytes.HasPrefix(c.ID, serverToolID) {
			p.ReportAs(severity, c.Message, c.ID, c.Name, "server_tool", "call %s of %s has the id of a tool that the provider ran, so the agent's reply does not count",
				answered(p, c), ref(p, c.Message))
		}
	}
}

// undeclared reports whether the request is known to declare no tools. Some providers check the calls in such requests less
// strictly.
func undeclared(p *check.Pass) bool { return !p.Request.HasTools && !p.Request.Bare }

// missing returns the detail: "partial_" if other calls of the turn have replies, else "none_", followed by place.
func missing(g check.Group, place string) string {
	if g.Answered > 0 {
		return "partial_" + place
	}
	return "none_" + place
}
