package rules

import (
	"cmp"
	"strconv"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// wordsOf returns the terms of the target's dialect.
func wordsOf(p *check.Pass) *wire.Words { return &p.Target.Dialect.Descriptor().Words }

// ref returns "message 2", or "item 2" for a Responses input.
func ref(p *check.Pass, i int) string { return wordsOf(p).Message + " " + strconv.Itoa(i) }

// at returns "message 2 (tool)".
func at(p *check.Pass, i int) string { return ref(p, i) + " (" + role(p, i) + ")" }

// theReply returns the start of a sentence about the content or id of a reply: "message 2 (tool) has", or "message 2 (user) has
// a tool_result with".
func theReply(p *check.Pass, i int) string {
	if inBlocks(p.Target) {
		return at(p, i) + " has a " + wordsOf(p).Reply + " with"
	}
	return at(p, i) + " has"
}

// maxName bounds the quoted bytes of an id or a name in a summary.
const maxName = 80

// name returns an id or a function name in printable form: quoted if it has special characters, and truncated if it is long.
func name(b []byte) string {
	cut := ""
	if len(b) > maxName {
		b, cut = b[:maxName], "…"
	}
	for _, c := range b {
		if c <= ' ' || c > '~' || c == '"' {
			return strconv.Quote(string(b)) + cut
		}
	}
	if len(b) == 0 {
		return "(no id)"
	}
	return string(b) + cut
}

// function returns "read_file", or "a function without a name".
func function(c *facts.Call) string {
	if len(c.Name) == 0 {
		return "a function without a name"
	}
	return name(c.Name)
}

// answered describes the call that a reply answers: "call_1 (read_file)", or "read_file" if replies name functions.
func answered(p *check.Pass, c *check.PairedCall) string {
	if p.Target.Dialect.Descriptor().Pairing.Names {
		return function(c.Call)
	}
	if len(c.ID) == 0 {
		return function(c.Call) + " (no id)"
	}
	return name(c.ID) + " (" + function(c.Call) + ")"
}

// quoted returns what a summary quotes of a call or reply that is not matched: its id, or the name where replies name functions.
func quoted(p *check.Pass, id, function []byte) []byte {
	if p.Target.Dialect.Descriptor().Pairing.Names {
		return function
	}
	return id
}

// called returns "read_file (call_1)", or "read_file" for a call without an id.
func called(c *check.PairedCall) string {
	if len(c.Call.ID) == 0 {
		return function(c.Call)
	}
	return function(c.Call) + " (" + name(c.Call.ID) + ")"
}

// role returns the role of message i, or the type of a Responses item that has no role.
func role(p *check.Pass, i int) string {
	m := &p.Request.Messages[i]
	switch m.Item {
	case facts.ItemCall:
		return callWord(m.Calls)
	case facts.ItemReply:
		return replyWord(p, m.Replies)
	case facts.ItemReasoning:
		if p.Target.Dialect == wire.Interactions {
			return "thought"
		}
		return "reasoning"
	case facts.ItemReference:
		return "item_reference"
	case facts.ItemOther:
		return "other " + wordsOf(p).Message
	case facts.NoItem, facts.ItemMessage:
	}
	switch m.Role {
	case facts.RoleAssistant:
		return wordsOf(p).Assistant
	case facts.RoleOther:
		return "unknown role"
	default:
		return cmp.Or(m.Role.Word(), "no role")
	}
}

// callWord returns the type of an item that is a call.
func callWord(calls []facts.Call) string {
	if len(calls) > 0 {
		switch c := &calls[0]; c.Type {
		case facts.TypeCustom:
			return "custom_tool_call"
		case facts.TypeOther, facts.TypeEither:
			return string(c.Name) + "_call"
		default:
		}
	}
	return "function_call"
}

// replyWord returns the type of an item that is a reply. Only the outputs of other tools have a name without a member for it.
func replyWord(p *check.Pass, replies []facts.Reply) string {
	if len(replies) == 0 || len(replies[0].Name) == 0 || replies[0].NameKind != facts.Absent {
		return wordsOf(p).Reply
	}
	if tool := string(replies[0].Name); tool != "tool_search" {
		return tool + "_call_output"
	}
	return "tool_search_output"
}

// kinds contains the names of the JSON types: with their article, and as the detail of a value of the wrong type.
var kinds = [...]struct{ name, detail string }{
	facts.Absent: {"absent", "absent"}, facts.Null: {"null", "null"}, facts.Bool: {"a boolean", "scalar"}, facts.Number: {"a number", "scalar"},
	facts.String: {"a string", "string"}, facts.Array: {"an array", "array"}, facts.Object: {"an object", "object"}, facts.Invalid: {"not JSON", "scalar"},
}

// kind returns the name of a JSON type with its article.
func kind(k facts.Kind) string { return kinds[k].name }

// kindDetail returns the detail for a value of JSON type k, which is the wrong type.
func kindDetail(k facts.Kind) string { return kinds[k].detail }

// toolName returns the function name of call c of the pairing; nil if c is negative.
func toolName(p *check.Pass, c int) []byte {
	if c < 0 {
		return nil
	}
	return p.Pairing.Calls[c].Name
}
