package rules

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// scan reads a messages array.
func scan(t testing.TB, messages []byte) *facts.Request {
	t.Helper()
	var ms []map[string]json.RawMessage
	if err := json.Unmarshal(messages, &ms); err != nil {
		t.Fatalf("messages: %v", err)
	}
	r := &facts.Request{MessagesKind: facts.Array}
	str := func(b json.RawMessage) []byte {
		var s string
		if json.Unmarshal(b, &s) != nil {
			return nil
		}
		return []byte(s)
	}
	for _, m := range ms {
		var f facts.Message
		switch string(str(m["role"])) {
		case "system":
			f.Role = facts.RoleSystem
		case "developer":
			f.Role = facts.RoleDeveloper
		case "user":
			f.Role = facts.RoleUser
		case "assistant":
			f.Role = facts.RoleAssistant
		case "tool":
			f.Role = facts.RoleTool
		case "function":
			f.Role = facts.RoleFunction
		default:
			f.Role = facts.RoleOther
		}
		f.Content = kindOf(m["content"])
		var parts []json.RawMessage
		if f.Content == facts.Array {
			_ = json.Unmarshal(m["content"], &parts)
		}
		for _, p := range parts {
			var o map[string]json.RawMessage
			if json.Unmarshal(p, &o) != nil || kindOf(o["type"]) != facts.String {
				f.Parts |= facts.PartBad
			}
		}
		f.ReplyKind, f.ToolCallID = kindOf(m["tool_call_id"]), str(m["tool_call_id"])
		f.ToolCalls = kindOf(m["tool_calls"])
		var calls []map[string]json.RawMessage
		_ = json.Unmarshal(m["tool_calls"], &calls)
		for _, c := range calls {
			var fn map[string]json.RawMessage
			_ = json.Unmarshal(c["function"], &fn)
			call := facts.Call{ID: str(c["id"]), Name: str(fn["name"]), IDKind: kindOf(c["id"]), FuncKind: kindOf(c["function"]), ArgsKind: kindOf(fn["arguments"])}
			if call.ArgsKind == facts.String {
				call.Args = argsOf(str(fn["arguments"]))
			}
			f.Calls = append(f.Calls, call)
		}
		r.Messages = append(r.Messages, f)
	}
	return r
}

func kindOf(b json.RawMessage) facts.Kind {
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return facts.Absent
	}
	switch b[0] {
	case '"':
		return facts.String
	case '{':
		return facts.Object
	case '[':
		return facts.Array
	case 'n':
		return facts.Null
	case 't', 'f':
		return facts.Bool
	}
	return facts.Number
}

func argsOf(b []byte) facts.Args {
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return facts.ArgsEmpty
	}
	d := json.NewDecoder(bytes.NewReader(b))
	var v json.RawMessage
	if err := d.Decode(&v); err != nil {
		if err.Error() == "unexpected EOF" {
			return facts.ArgsTruncated
		}
		return facts.ArgsBad
	}
	if d.More() {
		if d.Decode(&v) == nil {
			return facts.ArgsMultiple
		}
		return facts.ArgsBad
	}
	if kindOf(b) != facts.Object {
		return facts.ArgsNotObject
	}
	return facts.ArgsObject
}
