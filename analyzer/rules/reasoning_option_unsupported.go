package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ReasoningOptionUnsupported finds options of reasoning that the requested model refuses.
var ReasoningOptionUnsupported = &check.Rule{
	ID:    "reasoning_option_unsupported",
	Order: 470,
	Cause: "unsupported_parameter",
	Doc: `reasoning option that the model does not accept

Models differ in the options of their reasoning. GPT-5.4 and later refuse functions together with an effort in chat
completions: "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions"; GPT-5.6 even
without the option, unless it is none. Claude from Opus 4.7 on has no budget of thinking: '"thinking.type.enabled" is not
supported for this model'. Opus 5.5, Fable 5.1, Kimi K2.7 and Meta's models always think, and refuse to be told not to. Usual
cause: the model was changed and its options were not.`,
	Fix:      "Send the option that the model accepts: reasoning_effort none or the Responses API for functions of GPT-5.4 and later, adaptive thinking for Claude from Opus 4.7 on, and no option to switch thinking off where it is always on.",
	Severity: claudes.and(wire.OpenAIChat, wire.OpenAI, wire.Kimi, wire.Meta).reject,
	Run:      reasoningOptionUnsupported,
}

func reasoningOptionUnsupported(p *check.Pass) {
	switch p.Target.Dialect {
	case wire.OpenAIChat:
		chatReasoning(p)
	case wire.Anthropic:
		claudeReasoning(p)
	case wire.Bedrock:
		if modelIs(p, "claude") {
			claudeReasoning(p)
		}
	default:
	}
}

func chatReasoning(p *check.Pass) {
	r := p.Request
	off := func(severity check.Severity) {
		p.ReportAs(severity, -1, nil, nil, "thinking_off", "the request switches thinking off, which this model does not accept")
	}
	switch p.Target.Variant {
	case wire.OpenAI, wire.Azure:
		effortWithTools(p)
	case wire.Kimi:
		if v, ok := versionOf(p, "kimi-k"); ok && v == (version{2, 7}) && r.Thinking == facts.ThinkingOff {
			off(check.Reject)
		}
	case wire.GLM: // refused at one endpoint, ignored at another
		if v, ok := versionOf(p, "glm-"); ok && v.atLeast(5, 3) && r.Thinking == facts.ThinkingOff {
			off(check.Lenient)
		}
	case wire.Meta:
		if r.Effort == facts.ThinkingOff {
			off(check.Reject)
		}
	default:
	}
}

// effortWithTools reports functions with a reasoning effort, for models of OpenAI that take it only in the Responses API. Reports
// of GPT-5.2 contradict each other, and Azure's behaviour is unknown.
func effortWithTools(p *check.Pass) {
	v, ok := versionOf(p, "gpt-")
	r := p.Request
	if !ok || !v.atLeast(5, 2) || !r.HasFunctions || r.Effort == facts.ThinkingOff || r.Effort != facts.ThinkingOn && v != (version{5, 6}) {
		return
	}
	severity := check.Lenient
	if v.major == 5 && v.minor >= 4 && v.minor <= 6 {
		severity = by{wire.OpenAIChat: {wire.OpenAI}}.reject(p.Target)
	}
	has := "and sets reasoning_effort"
	if r.Effort != facts.ThinkingOn {
		has = "without reasoning_effort none"
	}
	p.ReportAs(severity, -1, nil, nil, "effort_with_tools", "the request declares functions %s, which this model accepts only in the Responses API", has)
}

func claudeReasoning(p *check.Pass) {
	r := p.Request
	switch always := thinksAlways(p); {
	case r.Thinking == facts.ThinkingOff && always:
		p.ReportAs(claudeAPIs.reject(p.Target), -1, nil, nil, "thinking_off", "the request switches thinking off, which this model does not accept")
	case r.Thinking == facts.ThinkingOn && !r.Adaptive && (always || onlyAdaptive(p)):
		p.ReportAs(claudes.reject(p.Target), -1, nil, nil, "thinking_budget", "the request has thinking of the type enabled, and this model accepts only adaptive")
	}
}

// onlyAdaptive reports whether a Claude model is known to refuse a budget of thinking: Opus 4.7 to 5.
func onlyAdaptive(p *check.Pass) bool {
	v, ok := versionOf(p, "opus-")
	return ok && v.atLeast(4, 7) && v.major <= 5
}
