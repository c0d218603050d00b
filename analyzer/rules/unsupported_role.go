package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// UnsupportedRole finds messages with a role that the target does not know.
var UnsupportedRole = &check.Rule{
	ID:    "unsupported_role",
	Order: 250,
	Cause: "unsupported_role",
	Doc: `message with a role that the provider does not know

Providers check the role against a list: DeepSeek answers "unknown variant ` + "`developer`" + `, expected one of …", Qwen
"developer is not one of [...]", Gemini "Please use a valid role: user, model". Usual causes: the provider was switched
and the client still writes developer, which is OpenAI's word for system; a framework's own role (human, ipython, the
name of an agent) is sent unchanged. Map roles where the request is built, for each provider.`,
	Fix:      "Map roles to those of the provider before sending: developer to system, system between messages to user for models that do not take it there, and a framework's own roles to user or assistant.",
	Severity: unsupportedRoleSeverity,
	Run:      unsupportedRole,
}

func unsupportedRoleSeverity(t wire.Target) check.Severity {
	if t.Dialect == wire.OpenAIChat && after(t.Model, "o1-mini") >= 0 && (t.Variant == wire.OpenAI || t.Variant == wire.Azure) {
		return check.Reject
	}
	return by{wire.OpenAIChat: {wire.DeepSeek, wire.Qwen, wire.Mistral}, wire.OpenAIResponses: openAIs, wire.Gemini: nil}.reject(t)
}

func unsupportedRole(p *check.Pass) {
	d := p.Target.Dialect
	items, chat, mini := d.Descriptor().Pairing.Items, isChat(p.Target), modelIs(p, "o1-mini")
	system := check.Severity("")
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Role == facts.RoleUser || m.Role == facts.RoleAssistant || m.Kind != facts.Object {
			continue
		}
		detail := ""
		switch {
		case items:
			// Other items have no role; their type identifies them.
			if m.Item == facts.ItemMessage && (m.Role == facts.RoleTool || m.Role == facts.RoleFunction || m.Role == facts.RoleOther) {
				detail = "other"
			}
		case chat:
			detail = chatRole(p.Target.Variant, m, mini)
		case d == wire.Gemini:
			if m.Role == facts.RoleTool {
				continue // Google's own examples give function responses this role
			}
			detail = blockRole(m)
		case m.Role == facts.RoleSystem:
			if system == "" {
				system = systemRole(p)
			}
			if system != check.Style {
				p.ReportAs(system, i, nil, nil, "system", "%s has %s", ref(p, i), unsupportedBy(p, i, "system"))
			}
		default:
			detail = blockRole(m)
		}
		if detail != "" {
			p.Report(i, nil, nil, detail, "%s has %s", ref(p, i), unsupportedBy(p, i, detail))
		}
	}
}

// systemRole returns the severity of a system message for Claude: Style for the models that accept it between other messages, see
// system_not_first. "role 'system' is not supported on this model" was recorded of Opus 4.7, and "Unexpected role" of models before
// it; of Sonnet 5 and Haiku 5, reports contradict each other.
func systemRole(p *check.Pass) check.Severity {
	if takesSystem(p) {
		return check.Style
	}
	for _, family := range [...]string{"opus-", "sonnet-", "haiku-", "claude-"} {
		if v, ok := versionOf(p, family); ok && !v.atLeast(5, 0) {
			return claudeAPIs.reject(p.Target)
		}
	}
	return check.Lenient
}

// takesSystem reports whether the requested model is known to accept system messages between other messages.
func takesSystem(p *check.Pass) bool {
	v, ok := versionOf(p, "opus-")
	return ok && v.atLeast(4, 8)
}

// unsupportedBy returns the end of the summary for a detail.
func unsupportedBy(p *check.Pass, i int, detail string) string {
	m := &p.Request.Messages[i]
	switch detail {
	case "missing":
		return "no role"
	case "developer":
		return "the role developer, OpenAI's word for system, which this provider or model does not support"
	case "system":
		return "the role system, which this provider or model does not support in a message"
	}
	return "the role " + name(m.RoleName) + ", which this provider does not support"
}

// chatRole returns the detail for the role of m, or "" if v supports that role.
func chatRole(v wire.Variant, m *facts.Message, mini bool) string {
	switch m.Role {
	case facts.RoleSystem:
		if mini && (v == wire.OpenAI || v == wire.Azure) {
			return "system"
		}
	case facts.RoleDeveloper:
		switch v {
		case wire.OpenAI, wire.Azure:
			if !mini {
				return ""
			}
		case wire.OpenRouter, wire.LiteLLM: // they translate the role
			return ""
		default:
		}
		return "developer"
	case facts.RoleFunction: // only legacy for other targets; see legacy_function_role
		if v == wire.DeepSeek || v == wire.Mistral {
			return "function"
		}
	case facts.RoleOther:
		if v != wire.DeepSeek || string(m.RoleName) != "latest_reminder" {
			return "other"
		}
	case facts.RoleNone:
		return "missing"
	default:
	}
	return ""
}

// blockRole returns the detail for a role other than user and assistant (Gemini's model), the only roles of Gemini, Anthropic
// and Bedrock.
func blockRole(m *facts.Message) string {
	switch m.Role {
	case facts.RoleSystem, facts.RoleDeveloper:
		return m.Role.Word()
	case facts.RoleNone:
		return "missing"
	default:
		return "other"
	}
}
