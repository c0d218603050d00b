package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ForcedToolChoice finds a tool choice that forces a call, for models that do not accept it while they think, or at all.
var ForcedToolChoice = &check.Rule{
	ID:    "forced_tool_choice",
	Order: 460,
	Cause: "tool_choice_invalid",
	Doc: `tool_choice that forces a call of a model that thinks

While a model thinks, many providers accept only the tool choices auto and none: Claude answers "Thinking may not be enabled
when tool_choice forces tool use", DeepSeek "Thinking mode does not support this tool_choice", Kimi "tool_choice 'required' is
incompatible with thinking enabled", Qwen "does not support being set to required or object in thinking mode". DeepSeek V4 and
Kimi think unless the request says otherwise. Claude Opus 5.5 and Fable 5.1 accept no forced choice. Usual causes: a
framework forces a tool to get structured output; thinking was switched on later, or the model was changed.`,
	Fix:      "Send tool_choice auto and ask for the tool in the prompt, or switch thinking off in the request that forces the tool.",
	Severity: claudes.and(wire.OpenAIChat, wire.DeepSeek, wire.Kimi, wire.Qwen, wire.Meta).reject,
	Run:      forcedToolChoice,
}

func forcedToolChoice(p *check.Pass) {
	r := p.Request
	if !r.Forces || r.Bare {
		return
	}
	severity, detail := check.Severity(""), "thinking"
	switch p.Target.Dialect {
	case wire.Anthropic, wire.Bedrock:
		severity, detail = forcedClaude(p)
	case wire.OpenAIChat:
		severity, detail = forcedChat(p)
	default:
	}
	switch {
	case severity == "":
	case detail == "model":
		p.ReportAs(severity, -1, nil, r.Forced, detail, "the request forces a call with tool_choice, which this model does not accept")
	default:
		p.ReportAs(severity, -1, nil, r.Forced, detail, "the request forces a call with tool_choice, which is not accepted in thinking mode")
	}
}

// forcedClaude returns the severity for Claude, or "" if it accepts a forced choice. What it does in adaptive thinking is unknown.
func forcedClaude(p *check.Pass) (severity check.Severity, detail string) {
	if p.Target.Dialect == wire.Bedrock && !modelIs(p, "claude") {
		return "", ""
	}
	if thinksAlways(p) {
		return claudeAPIs.reject(p.Target), "model"
	}
	switch {
	case p.Request.Thinking != facts.ThinkingOn:
		return "", ""
	case p.Request.Adaptive:
		return check.Lenient, "thinking"
	}
	return claudes.reject(p.Target), "thinking"
}

// thinksAlways reports whether a Claude model is known to accept neither a forced tool nor disabled thinking: Opus 5.5, Fable
// 5.1 and Mythos 5.1.
func thinksAlways(p *check.Pass) bool {
	for _, m := range [...]struct {
		family string
		is     version
	}{{"opus-", version{5, 5}}, {"fable-", version{5, 1}}, {"mythos-", version{5, 1}}} {
		if v, ok := versionOf(p, m.family); ok && v == m.is {
			return true
		}
	}
	return false
}

// forcedChat returns the severity for the variants of chat completions, or "" if they accept a forced choice.
func forcedChat(p *check.Pass) (severity check.Severity, detail string) {
	thinking, detail := p.Request.Thinking, "thinking"
	v4 := modelIs(p, "deepseek-v4") && thinking != facts.ThinkingOff
	switch p.Target.Variant {
	case wire.DeepSeek:
		if v4 {
			return check.Reject, detail
		}
	case wire.Kimi:
		switch v, ok := versionOf(p, "kimi-k"); {
		case thinking == facts.ThinkingOff || ok && v.major > 2 && len(p.Request.Forced) == 0: // K3 accepts required
			return "", ""
		case ok && v.major == 2 && v.minor >= 5:
			return check.Reject, detail
		case ok && v.major > 2:
			return check.Lenient, detail
		}
	case wire.Qwen:
		if thinking == facts.ThinkingOn {
			return check.Reject, detail
		}
	case wire.Meta:
		return check.Reject, "model"
	case wire.GLM: // one report, of a gateway in between
		return check.Lenient, "model"
	case wire.OpenAI, wire.Azure, wire.OpenRouter: // OpenRouter leaves out the reasoning
		return "", ""
	default:
		if v4 {
			return check.Lenient, detail
		}
	}
	if thinking == facts.ThinkingOn {
		return check.Lenient, detail
	}
	return "", ""
}
