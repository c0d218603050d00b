package facts

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// A node is a JSON value decoded with encoding/json, with its position in the text and its members in order. The simple and
// slow reference implementation below finds the facts in it.
type node struct {
	kind       Kind
	start, end int
	text       string // of a string or number
	truth      bool
	keys       []string
	elems      []node
}

// parse decodes valid JSON.
func parse(b []byte) node {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return parseNode(b, d)
}

func parseNode(b []byte, d *json.Decoder) node {
	n := node{start: int(d.InputOffset())}
	for strings.IndexByte(" \t\r\n,:", b[n.start]) >= 0 {
		n.start++
	}
	t, err := d.Token()
	if err != nil {
		panic(err)
	}
	switch t := t.(type) {
	case nil:
		n.kind = Null
	case bool:
		n.kind, n.truth = Bool, t
	case json.Number:
		n.kind, n.text = Number, t.String()
	case string:
		n.kind, n.text = String, t
	case json.Delim:
		n.kind = Array
		if t == '{' {
			n.kind = Object
		}
		for d.More() {
			if n.kind == Object {
				k, err := d.Token()
				if err != nil {
					panic(err)
				}
				n.keys = append(n.keys, k.(string))
			}
			n.elems = append(n.elems, parseNode(b, d))
		}
		if _, err := d.Token(); err != nil {
			panic(err)
		}
	}
	n.end = int(d.InputOffset())
	return n
}

// get returns the last member of this name.
func (n node) get(key string) node {
	if n.kind == Object {
		for i, k := range slices.Backward(n.keys) {
			if k == key {
				return n.elems[i]
			}
		}
	}
	return node{}
}

// lastKey returns the last of the keys that n has.
func (n node) lastKey(keys ...string) string {
	for _, k := range slices.Backward(n.keys) {
		if slices.Contains(keys, k) {
			return k
		}
	}
	return ""
}

// last returns the last member with one of the keys.
func (n node) last(keys ...string) node {
	if k := n.lastKey(keys...); k != "" {
		return n.get(k)
	}
	return node{}
}

func (n node) bytes() []byte {
	if n.kind != String {
		return nil
	}
	return []byte(n.text)
}

// inside returns the raw text of a string, or any other raw value.
func (n node) inside(b []byte) []byte {
	if n.kind == String {
		return b[n.start+1 : n.end-1]
	}
	return b[n.start:n.end]
}

func (n node) integer() int64 {
	if n.kind != Number || len(n.text) > 18 {
		return 0
	}
	v, err := json.Number(n.text).Int64()
	if err != nil {
		return 0
	}
	return v
}

// refRequest is the reference implementation of ScanRequest for valid JSON objects.
func refRequest(b []byte) Request {
	n := parse(b)
	f := refMessages(b, n.get("messages"))
	f.Model = n.get("model").bytes()
	f.Stream = n.get("stream").truth
	f.HasTools = n.get("tools").kind == Array
	if f.HasTools {
		f.ToolCount = len(n.get("tools").elems)
		for _, t := range n.get("tools").elems {
			if name := refCalled(t); name != nil {
				f.Tools = append(f.Tools, name)
				f.HasFunctions = f.HasFunctions || t.lastKey("function", "custom") == "function"
			} else {
				f.OpenTools = true
			}
		}
	}
	f.ToolChoice = n.get("tool_choice").kind
	f.Forced = refCalled(n.get("tool_choice"))
	f.Forces = f.Forced != nil || refForces(n.get("tool_choice"))
	f.Effort = refEffort(n.get("reasoning_effort"))
	f.Adaptive = n.get("thinking").get("type").text == "adaptive"
	f.ParallelCalls = n.get("parallel_tool_calls").kind
	if f.Functions = n.get("functions").kind; f.Functions == Absent {
		f.Functions = n.get("function_call").kind
	}
	f.Thinking = refThinking(n)
	if f.MaxTokens = n.get("max_completion_tokens").integer(); f.MaxTokens == 0 {
		f.MaxTokens = n.get("max_tokens").integer()
	}
	return f
}

func refForces(choice node) bool {
	return choice.kind == String && (choice.text == "required" || choice.text == "any")
}

func refEffort(n node) Thinking {
	switch {
	case n.kind != String:
	case n.text == "none":
		return ThinkingOff
	case slices.Contains([]string{"minimal", "low", "medium", "high", "xhigh", "max"}, n.text):
		return ThinkingOn
	}
	return ThinkingUnknown
}

// refCalled returns the name of the function in a tool or a choice of one.
func refCalled(n node) (name []byte) {
	return n.last("function", "custom").get("name").bytes()
}

func refThinking(n node) Thinking {
	switch n.get("thinking").get("type").text {
	case "enabled", "adaptive":
		return ThinkingOn
	case "disabled":
		return ThinkingOff
	}
	for _, k := range []string{"enable_thinking", "think"} {
		switch v := n.get(k); {
		case v.kind == String, v.truth:
			return ThinkingOn
		case v.kind == Bool:
			return ThinkingOff
		}
	}
	return ThinkingUnknown
}

// refFields are the keys with their own bit.
var refFields = map[Fields][]string{
	FieldName: {"name"}, FieldRefusal: {"refusal"}, FieldAudio: {"audio"}, FieldFunctionCall: {"function_call"},
	FieldPrefix: {"prefix", "partial"}, FieldReasoningContent: {"reasoning_content"}, FieldReasoning: {"reasoning"},
	FieldReasoningDetails: {"reasoning_details"}, FieldExtraContent: {"extra_content"}, FieldIndex: {"index"},
	FieldFinishReason: {"finish_reason"}, FieldLogprobs: {"logprobs"}, FieldAnnotations: {"annotations"},
	FieldTimestamp: {"timestamp"}, FieldMetadata: {"metadata"}, FieldToolName: {"tool_name"},
	FieldCacheControl: {"cache_control"}, FieldID: {"id"}, FieldToolPlan: {"tool_plan"},
}

// refField returns the bit of a key outside the schema.
func refField(key string, schema ...string) Fields {
	if slices.Contains(schema, key) {
		return 0
	}
	for field, keys := range refFields {
		if slices.Contains(keys, key) {
			return field
		}
	}
	return FieldUnknown
}

func refMessages(b []byte, n node) Request {
	f := Request{MessagesKind: n.kind}
	if n.kind != Array {
		return f
	}
	for _, e := range n.elems {
		f.Messages = append(f.Messages, refMessage(b, e))
	}
	return f
}

func refMessage(b []byte, e node) Message {
	roles := map[string]Role{
		"system": RoleSystem, "developer": RoleDeveloper, "user": RoleUser, "assistant": RoleAssistant,
		"tool": RoleTool, "function": RoleFunction,
	}
	m := Message{Kind: e.kind, Start: e.start, End: e.end, Hash: xxh3.Hash(b[e.start:e.end])}
	if e.kind != Object {
		return m
	}
	var present Fields // with a value that is neither null nor false
	for i, k := range e.keys {
		field := refField(k, "role", "content", "tool_calls", "tool_call_id")
		if v := e.elems[i]; v.kind != Null && (v.kind != Bool || v.truth) {
			present |= field
		}
		if m.Fields |= field; field == FieldUnknown && m.OtherField == nil {
			m.OtherField = []byte(k)
		}
	}
	m.NullFields = m.Fields &^ present
	role := e.get("role")
	m.RoleName = role.bytes()
	if m.RoleKind = role.kind; role.kind == String {
		m.Role = RoleOther
		if r, ok := roles[role.text]; ok {
			m.Role = r
		}
	}
	m.Name, m.NameKind = e.get("name").bytes(), e.get("name").kind
	refContent(b, e.get("content"), &m)
	calls := e.get("tool_calls")
	if m.ToolCalls = calls.kind; calls.kind == Array {
		for _, c := range calls.elems {
			m.Calls = append(m.Calls, refCall(b, c))
		}
	}
	if m.Role == RoleTool {
		r := Reply{
			ID: e.get("tool_call_id").bytes(), IDKind: e.get("tool_call_id").kind, Name: m.Name, NameKind: m.NameKind,
			Content: m.Content, ContentBytes: m.ContentBytes, Parts: m.Parts, PartCount: m.PartCount, Start: e.start, End: e.end,
		}
		if e.get("tool_name").kind == String && m.NameKind != String {
			r.Name, r.NameKind = e.get("tool_name").bytes(), String
		}
		m.Replies = []Reply{r}
	}
	kinds := []Kind{e.get("reasoning_content").kind, e.get("reasoning").kind, e.get("reasoning_details").kind, e.get("thinking").kind}
	if m.Parts&PartReasoning != 0 && kinds[3] < Array {
		kinds[3] = Array
	}
	for _, k := range slices.Backward(kinds) {
		if k > Null || k == Null && m.Reasoning == Absent {
			m.Reasoning = k
		}
	}
	return m
}

func refContent(b []byte, content node, m *Message) {
	m.Content = content.kind
	m.ContentBytes = len(content.inside(b))
	texts, has := "", false
	switch content.kind {
	case String:
		if n, ok := shaped(content.inside(b)); ok {
			m.ContentBytes = n
		}
		texts, has = content.text, true
	case Array:
		m.PartCount = len(content.elems)
		for i, p := range content.elems {
			part := refPart(b, p)
			if m.Parts |= part; i == 0 {
				m.FirstPart = part
			}
			if text := p.get("text"); part&PartText != 0 && text.kind == String {
				texts, has = texts+text.text, true
			}
		}
	default:
	}
	if m.Role == RoleAssistant && has {
		m.ContentHash = xxh3.HashString(texts)
	}
}

func refPart(b []byte, p node) Parts {
	if p.get("type").kind != String {
		return PartBad
	}
	switch p.get("type").text {
	case "text":
		if text := p.get("text"); text.kind == String {
			if n, ok := shaped(text.inside(b)); text.text == "" || ok && n == 0 {
				return PartText | PartBlank
			}
		}
		return PartText
	case "image_url", "image":
		return PartImage
	case "input_audio":
		return PartAudio
	case "file", "document", "document_url":
		return PartFile
	case "refusal":
		return PartRefusal
	case "thinking":
		return PartReasoning
	}
	return PartOther
}

func refCall(b []byte, n node) Call {
	c := Call{
		Kind: n.kind, Start: n.start, End: n.end, ID: n.get("id").bytes(), IDKind: n.get("id").kind,
		TypeKind: n.get("type").kind, FuncKind: n.get("function").kind,
	}
	if c.TypeKind == String {
		switch n.get("type").text {
		case "function":
			c.Type = TypeFunction
		case "custom":
			c.Type = TypeCustom
		default:
			c.Type = TypeOther
		}
	}
	called, arguments := n.last("function", "custom"), "arguments"
	if n.lastKey("function", "custom") == "custom" {
		arguments = "input"
	}
	c.Name, c.NameKind = called.get("name").bytes(), called.get("name").kind
	args := called.get(arguments)
	if c.ArgsKind = args.kind; args.kind != Absent {
		c.ArgsBytes, c.ArgsHash = len(args.inside(b)), xxh3.Hash(args.inside(b))
	}
	switch {
	case arguments == "input":
	case args.kind == String:
		c.Args = refArgs(args.text)
	case args.kind == Object:
		c.Args = ArgsObject
	}
	c.Signature = n.get("extra_content").get("google").get("thought_signature").kind
	for i, k := range n.keys {
		c.Fields |= refField(k, "id", "type", "function", "custom")
		if k == "function" || k == "custom" {
			for _, inner := range n.elems[i].keys {
				c.Fields |= refField(inner, "name", map[string]string{"function": "arguments", "custom": "input"}[k])
			}
		}
	}
	return c
}
