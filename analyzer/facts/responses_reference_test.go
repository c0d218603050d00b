package facts

import (
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// refResponses is the reference implementation of ScanRequest for the Responses API and valid JSON objects.
func refResponses(b []byte) Request {
	n := parse(b)
	input := n.get("input")
	f := refInput(b, input)
	for i, k := range n.keys { // of these keys duplicates count, too
		v := n.elems[i]
		switch k {
		case "previous_response_id":
			f.Stored = f.Stored || v.text != "" && v.kind == String
		case "conversation":
			f.Stored = f.Stored || v.kind > Null
		case "prompt":
			f.Stored, f.OpenTools = f.Stored || v.kind > Null, f.OpenTools || v.kind > Null
		case "input":
			other := refInput(b, v)
			f.Stored, f.OpenTools = f.Stored || other.Stored, f.OpenTools || other.OpenTools
		case "tools":
			for _, t := range v.elems {
				f.OpenTools = f.OpenTools || v.kind == Array && t.kind == Object && refToolName(t) == nil
			}
		}
	}
	f.Model = n.get("model").bytes()
	f.Stream = n.get("stream").truth
	f.System = n.get("instructions").kind
	f.ToolChoice = n.get("tool_choice").kind
	f.ParallelCalls = n.get("parallel_tool_calls").kind
	f.MaxTokens = n.get("max_output_tokens").integer()
	f.Unstored = n.get("store").kind == Bool && !n.get("store").truth
	f.PreviousResponse = n.get("previous_response_id").bytes()
	if n.get("tool_choice").kind == Object {
		f.Forced = refToolName(n.get("tool_choice"))
	}
	f.Forces = f.Forced != nil || refForces(n.get("tool_choice"))
	f.Thinking = refEffort(n.get("reasoning").get("effort"))
	if tools := n.get("tools"); tools.kind == Array {
		f.HasTools, f.ToolCount = true, len(tools.elems)
		for _, t := range tools.elems {
			for i, k := range t.keys {
				if t.kind != Object || k != "tools" || t.get("type").kind != String || t.get("type").text != "namespace" || t.elems[i].kind != Array {
					continue
				}
				for _, spaced := range t.elems[i].elems {
					if name := spaced.get("name"); spaced.kind == Object && name.kind == String {
						f.Spaced = append(f.Spaced, name.bytes())
					}
				}
			}
			if name := refToolName(t); name != nil {
				f.Tools = append(f.Tools, name)
				f.HasFunctions = f.HasFunctions || t.get("type").text == "function"
			}
		}
	}
	return f
}

// refToolName returns the name of a function or a custom tool, nil for others.
func refToolName(t node) []byte {
	if typ := t.get("type"); typ.kind == String && (typ.text == "function" || typ.text == "custom") {
		return t.get("name").bytes()
	}
	return nil
}

func refInput(b []byte, n node) Request {
	f := Request{MessagesKind: n.kind}
	if n.kind != Array {
		return f
	}
	for _, e := range n.elems {
		m := Message{Kind: e.kind, Start: e.start, End: e.end, Hash: xxh3.Hash(b[e.start:e.end])}
		if e.kind == Object {
			refItem(b, e, &m)
			f.Stored = f.Stored || m.Item == ItemReference
			if t := e.get("type"); t.kind == String {
				f.Stored = f.Stored || t.text == "compaction" || t.text == "compaction_summary"
				f.OpenTools = f.OpenTools || slices.Contains([]string{"additional_tools", "tool_search_output", "mcp_list_tools"}, t.text)
			}
		}
		f.Messages = append(f.Messages, m)
	}
	return f
}

// refKeys are the keys of the known items.
var refKeys = map[Item][]string{
	ItemMessage:   {"role", "content", "phase"},
	ItemCall:      {"call_id", "name", "arguments", "input", "caller", "namespace", "async"},
	ItemReply:     {"call_id", "name", "output", "caller", "namespace"},
	ItemReasoning: {"summary", "content", "encrypted_content"},
	ItemReference: {},
}

var (
	refOtherCalls   = []string{"local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call"}
	refOtherOutputs = []string{"local_shell_call_output", "shell_call_output", "apply_patch_call_output", "computer_call_output", "tool_search_output"}
	refNoCalls      = []string{
		"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "tool_search_call", "mcp_call", "mcp_list_tools",
		"mcp_approval_request", "mcp_approval_response", "program", "program_output", "compaction", "compaction_summary", "compaction_trigger",
		"additional_tools", "function_call_output", "custom_tool_call_output",
	}
)

func refHosted(e node) bool {
	for i, k := range e.keys { // of these keys duplicates count, too
		v := e.elems[i]
		if k == "environment" && v.kind == Object && (v.get("type").kind != String || v.get("type").text != "local") ||
			k == "execution" && v.kind == String && v.text == "server" {
			return true
		}
	}
	return false
}

func refItem(b []byte, e node, m *Message) {
	typ, id, name := e.get("type"), e.get("call_id"), e.get("name")
	m.Item, m.ID = ItemOther, e.get("id").bytes()
	other := typ.kind == String && (slices.Contains(refOtherCalls, typ.text) || slices.Contains(refOtherOutputs, typ.text))
	switch {
	case typ.kind <= Null:
		m.Item = ItemMessage
		if e.get("id").kind == String && !slices.ContainsFunc(e.keys, refOddReferenceKey) {
			m.Item = ItemReference
		}
	case typ.kind != String:
	case typ.text == "message":
		m.Item = ItemMessage
	case typ.text == "reasoning":
		m.Item = ItemReasoning
	case typ.text == "item_reference":
		m.Item = ItemReference
	case slices.Contains(refOtherCalls, typ.text) && id.kind == String && !refHosted(e):
		m.Item = ItemCall
	case slices.Contains(refOtherOutputs, typ.text) && id.kind == String && !refHosted(e):
		m.Item = ItemReply
	case typ.text == "local_shell_call_output" && id.kind == Absent && e.get("id").kind == String && !refHosted(e):
		m.Item, id = ItemReply, e.get("id")
	case (typ.text == "function_call" || typ.text == "custom_tool_call") && id.kind != Null:
		m.Item = ItemCall
	case (typ.text == "function_call_output" || typ.text == "custom_tool_call_output") && id.kind != Null && (id.kind != Absent || name.kind == Absent):
		m.Item = ItemReply
	}
	switch m.Item {
	case ItemMessage:
		if role := e.get("role"); role.kind != Absent {
			m.RoleKind, m.RoleName = role.kind, role.bytes()
			m.Role = roleOf(m.RoleName, m.RoleKind)
		}
		m.Name, m.NameKind = name.bytes(), name.kind
		refItemContent(b, e.get("content"), m)
		if m.Role != RoleAssistant {
			m.ContentHash = 0
		}
	case ItemCall:
		c := Call{
			Kind: Object, ID: id.bytes(), IDKind: id.kind, Name: name.bytes(), NameKind: name.kind, TypeKind: String, Type: TypeFunction,
			FuncKind: Object, Start: e.start, End: e.end,
		}
		if e.get("namespace").kind > Null {
			c.Fields = FieldNamespace
		}
		args := e.get("arguments")
		if other {
			c.Name, c.NameKind, c.FuncKind, c.Type = []byte(strings.TrimSuffix(typ.text, "_call")), Absent, Absent, TypeOther
			if typ.text == "shell_call" && e.get("environment").kind == Absent {
				c.Type = TypeEither
			}
			if typ.text != "tool_search_call" {
				args = node{}
				for i, k := range e.keys {
					if slices.Contains([]string{"action", "actions", "operation"}, k) && e.elems[i].kind > Null {
						args = e.elems[i]
					}
				}
			}
		}
		if typ.text == "custom_tool_call" {
			c.Type, args = TypeCustom, e.get("input")
		}
		if c.ArgsKind = args.kind; args.kind != Absent {
			c.ArgsBytes, c.ArgsHash = len(args.inside(b)), xxh3.Hash(args.inside(b))
		}
		switch {
		case c.Type == TypeCustom || other:
		case args.kind == String:
			c.Args = refArgs(args.text)
		case args.kind == Object:
			c.Args = ArgsObject
		}
		m.Role, m.Calls = RoleAssistant, []Call{c}
	case ItemReply:
		refItemContent(b, e.get("output"), m)
		m.ContentHash = 0
		var called []byte
		if called = name.bytes(); other {
			called, name.kind = []byte(strings.TrimSuffix(strings.TrimSuffix(typ.text, "_output"), "_call")), Absent
			m.Content, m.Parts, m.PartCount, m.FirstPart = String, 0, 0, 0
			if e.get("tools").kind != Absent {
				m.ContentBytes += len(b[e.get("tools").start:e.get("tools").end])
			}
		}
		m.Role, m.Replies = RoleTool, []Reply{{
			ID: id.bytes(), IDKind: id.kind, Name: called, NameKind: name.kind, Content: m.Content, ContentBytes: m.ContentBytes,
			Parts: m.Parts, PartCount: m.PartCount, Start: e.start, End: e.end,
		}}
	case ItemReasoning:
		m.Reasoning = firstReasoning(e.get("encrypted_content").kind, e.get("content").kind, e.get("summary").kind)
		if text := e.get("encrypted_content"); text.kind == String && text.text != "" {
			m.Signed = xxh3.HashString(text.text)
		}
	case ItemOther:
		if m.Unpaired = typ.kind != String || !slices.Contains(refNoCalls, typ.text) && !slices.Contains(refOtherOutputs, typ.text); m.Unpaired {
			m.CallID = id.bytes()
		}
	default:
	}
	if !other {
		refItemFields(e, m)
	}
}

func refOddReferenceKey(k string) bool {
	return !slices.Contains([]string{"type", "id", "status", "created_by"}, k)
}

func refItemFields(e node, m *Message) {
	if m.Item == ItemOther {
		return
	}
	null := true
	note := func(k string, v node) {
		if m.Fields = FieldUnknown; m.OtherField == nil {
			m.OtherField = []byte(k)
		}
		null = null && (v.kind == Null || v.kind == Bool && !v.truth)
	}
	for i, k := range e.keys {
		if v := e.elems[i]; v.kind == Array && (k == "content" || k == "output") {
			for _, p := range v.elems {
				for j, k := range p.keys {
					if k == "cache_control" {
						note(k, p.elems[j])
					}
				}
			}
		}
	}
	for i, k := range e.keys {
		if refOddReferenceKey(k) && !slices.Contains(refKeys[m.Item], k) {
			note(k, e.elems[i])
		}
	}
	if null {
		m.NullFields = m.Fields
	}
}

func refItemContent(b []byte, n node, m *Message) {
	m.Content = n.kind
	if n.kind == Absent {
		return
	}
	m.ContentBytes = len(n.inside(b))
	var text string
	has := n.kind == String
	if has {
		m.ContentBytes, text = textBytes(n.inside(b)), n.text
	}
	if n.kind == Array {
		m.PartCount = len(n.elems)
		for i, p := range n.elems {
			part := PartBad
			if typ := p.get("type"); typ.kind == String {
				part = itemPartOf([]byte(typ.text))
			}
			if t := p.get("text"); part == PartText && t.kind == String {
				has = true
				if text += t.text; textBytes(t.inside(b)) == 0 {
					part |= PartBlank
				}
			}
			if i == 0 {
				m.FirstPart = part
			}
			m.Parts |= part
		}
	}
	if has {
		m.ContentHash = xxh3.HashString(text)
	}
}
