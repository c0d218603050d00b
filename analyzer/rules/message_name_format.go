package rules

import (
	"bytes"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// MessageNameFormat finds messages whose names have a format that the target refuses.
var MessageNameFormat = &check.Rule{
	ID:    "message_name_format",
	Order: 230,
	Cause: "unsupported_field",
	Doc: `message with a name in a format that the provider refuses

The field name distinguishes participants of one role. OpenAI refuses white space and some characters in it, "string does not
match pattern": until 2024 all but letters, digits, _ and -, today only < | \ / >. Mistral refuses any name but a tool
message's. Usual cause: the display name of a user or an agent. Leave out name, or clean it.`,
	Fix:      "Leave name out of messages, or reduce it to letters, digits, _ and -.",
	Severity: by{wire.OpenAIChat: {wire.OpenAI, wire.Mistral}}.reject,
	Run:      messageNameFormat,
}

func messageNameFormat(p *check.Pass) {
	if !isChat(p.Target) {
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.NameKind != facts.String || m.Role == facts.RoleFunction {
			continue
		}
		detail, is := "", ""
		severity := by{wire.OpenAIChat: {wire.OpenAI}}.reject(p.Target)
		switch mistral := p.Target.Variant == wire.Mistral; {
		case mistral && m.Role != facts.RoleTool:
			detail, is, severity = "any", "which is not allowed", check.Reject
		case mistral && (len(m.Name) > 64 || !plain(m.Name, "_-")):
			detail, is, severity = "pattern", "which is not 1 to 64 letters, digits, _ and -", check.Reject
		case bytes.ContainsAny(m.Name, " \t\r\n<|\\/>"):
			detail, is = "pattern", "which contains white space or one of < | \\ / >"
			if m.Role == facts.RoleTool {
				severity = check.Lenient // no provider documents a name in tool messages, but many SDKs send one
			}
		default:
			continue
		}
		p.ReportAs(severity, i, nil, nil, detail, "%s has the name %s, %s", at(p, i), name(m.Name), is)
	}
}
