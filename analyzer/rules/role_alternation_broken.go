package rules

import (
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// RoleAlternationBroken finds consecutive messages of one role, for targets that require user and assistant to alternate.
var RoleAlternationBroken = &check.Rule{
	ID:    "role_alternation_broken",
	Order: 260,
	Cause: "role_order",
	Doc: `two messages of one role in a row

Bedrock answers "A conversation must alternate between user and assistant roles" for models without
merging, and chat templates of open models "Conversation roles must alternate user/assistant/user/assistant/...".
OpenAI, Mistral and Anthropic accept such histories, Anthropic since 2024. Usual causes: a retry appends the
user's message again; two workers write one conversation; a summary is inserted as a message of its own. Merge neighbours
of one role into one message when the request is built.`,
	Fix:      "Merge neighbouring messages of one role into one message before sending, and replace a user message on a retry instead of appending it.",
	Severity: roleAlternationSeverity,
	Run:      roleAlternationBroken,
}

// roleAlternationSeverity returns Lenient for models that may accept consecutive messages of one role. Bedrock's rejections
// date from 2024 and 2025; recorded traffic shows that it now accepts such messages for Claude and Titan. The model behind an
// inference profile is unknown.
func roleAlternationSeverity(t wire.Target) check.Severity {
	if after(t.Model, "claude") >= 0 || after(t.Model, "amazon.") >= 0 || after(t.Model, "inference-profile") >= 0 {
		return check.Lenient
	}
	return bedrocks.reject(t)
}

func roleAlternationBroken(p *check.Pass) {
	if !alternates(p) {
		return
	}
	last := -1
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if m.Role != facts.RoleUser && m.Role != facts.RoleAssistant {
			if !isSystem(m) {
				last = -1
			}
			continue
		}
		if last >= 0 {
			if n := &p.Request.Messages[last]; n.Role == m.Role && !joined(p, n, m) {
				detail := "user"
				if m.Role == facts.RoleAssistant {
					detail = "assistant"
				} else if v := p.Target.Variant; v == wire.OpenRouter || v == wire.GLM {
					last = i // has been observed to accept two user messages
					continue
				}
				p.Report(i, nil, nil, detail, "message %d (%s) follows message %d (%s): roles must alternate", i, role(p, i), last, role(p, last))
			}
		}
		last = i
	}
}

// alternates reports whether the target may require user and assistant to alternate.
func alternates(p *check.Pass) bool {
	if p.Target.Dialect != wire.OpenAIChat {
		return grammars[p.Target.Dialect].alternates
	}
	switch p.Target.Variant {
	case wire.OpenAI, wire.Azure, wire.Mistral:
		return false
	case wire.DeepSeek:
		return modelIs(p, "reasoner") // deepseek-reasoner refused consecutive messages in 2025
	default:
		return true
	}
}

// joined reports whether two consecutive messages of one role count as one turn, as parallel replies in separate messages do.
// Gemini accepts consecutive messages of one role, but a call must directly follow a user message.
func joined(p *check.Pass, a, b *facts.Message) bool {
	if p.Target.Dialect == wire.Gemini {
		return a.Role == facts.RoleUser || len(b.Calls) == 0
	}
	return len(a.Replies) > 0 && len(b.Replies) > 0
}
