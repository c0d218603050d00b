package rules

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// ToolCallIDFormat finds call ids, and ids of Responses items, whose format the target refuses.
var ToolCallIDFormat = &check.Rule{
	ID:    "tool_call_id_format",
	Order: 210,
	Cause: "tool_call_id_format",
	Doc: `tool call id in a format that the provider refuses

Mistral requires 9 letters and digits; Anthropic letters, digits, _ and -; Bedrock these and . and :, at most 64; the
Responses API a call_id of at most 64 characters, and item ids with the prefix of their type (fc_, rs_, msg_). OpenAI was
seen to refuse ids over 40 and over 64 characters, and to accept 51. Usual causes: a history started with one provider
continues with another; a gateway makes its own ids. Map the ids of calls and replies alike when the provider changes.`,
	Fix:      "Map call ids to the format of the target provider, alike in the call and in its reply.",
	Severity: idBlockAPIs.and(wire.OpenAIChat, wire.Mistral, wire.OpenAI).and(wire.OpenAIResponses, openAIs...).reject,
	Run:      toolCallIDFormat,
}

func toolCallIDFormat(p *check.Pass) {
	legal := idCheck(p.Target)
	if legal == nil {
		return
	}
	for i := range p.Pairing.Calls {
		c := &p.Pairing.Calls[i]
		detail, is := legal(c.Call)
		if detail == "" {
			continue
		}
		severity := check.Reject
		if detail == "long" && p.Target.Dialect == wire.OpenAIChat && len(c.ID) <= 64 ||
			p.Target.Dialect == wire.Anthropic && p.Target.Variant == wire.OtherVariant {
			severity = check.Lenient
		}
		p.ReportAs(severity, c.Message, c.ID, c.Name, detail, "%s calls %s with an id that is %s", at(p, c.Message), called(c), is)
	}
	if p.Target.Dialect != wire.OpenAIResponses {
		return
	}
	for i := range p.Request.Messages {
		m := &p.Request.Messages[i]
		if want := itemPrefix(m); want != "" && len(m.ID) > 0 && !bytes.HasPrefix(m.ID, []byte(want)) {
			p.ReportAs(check.Reject, i, nil, nil, "item_prefix", "%s has the id %s, which does not start with %s", at(p, i), name(m.ID), want)
		}
	}
}

// idCheck returns a function that checks a call id as the target does; nil if no check is known. The detail is "" for a valid
// id. In chat completions, malformed_tool_call reports missing ids.
func idCheck(t wire.Target) func(*facts.Call) (detail, is string) {
	switch {
	case grammars[t.Dialect].callID != nil:
		return grammars[t.Dialect].callID
	case t.Dialect == wire.OpenAIResponses && (t.Variant == wire.OpenAI || t.Variant == wire.Azure):
		return func(c *facts.Call) (detail, is string) { return idForm(c, 64, "", "") }
	case t.Dialect == wire.OpenAIChat && t.Variant == wire.OpenAI:
		return func(c *facts.Call) (detail, is string) {
			if len(c.ID) > 40 {
				return "long", long(c.ID)
			}
			return "", ""
		}
	case t.Dialect == wire.OpenAIChat && t.Variant == wire.Mistral:
		return func(c *facts.Call) (detail, is string) {
			if len(c.ID) > 0 && (len(c.ID) != 9 || !plain(c.ID, "")) {
				return "pattern", "not 9 letters and digits"
			}
			return "", ""
		}
	}
	return nil
}

// idForm checks an id that must be present and have at most limit bytes. Unless more is "", the id may contain only letters,
// digits and the characters in more; madeOf describes this set.
func idForm(c *facts.Call, limit int, more, madeOf string) (detail, is string) {
	switch {
	case c.IDKind != facts.String:
		return "not_string", kind(c.IDKind)
	case len(c.ID) == 0:
		return "empty", "empty"
	case len(c.ID) > limit:
		return "long", long(c.ID)
	case more != "" && !plain(c.ID, more):
		return "pattern", "not made of " + madeOf + " only"
	}
	return "", ""
}

func long(id []byte) string { return strconv.Itoa(len(id)) + " characters long" }

// plain reports whether b contains only ASCII letters, digits and the characters in more.
func plain(b []byte, more string) bool {
	for _, c := range b {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return true
}

// itemPrefix returns the required prefix of the id of item m; "" if unknown.
func itemPrefix(m *facts.Message) string {
	switch m.Item {
	case facts.ItemCall:
		if len(m.Calls) == 1 && m.Calls[0].Type == facts.TypeFunction {
			return "fc"
		}
	case facts.ItemReasoning:
		return "rs"
	case facts.ItemMessage:
		if m.Role == facts.RoleAssistant {
			return "msg"
		}
	default:
	}
	return ""
}
