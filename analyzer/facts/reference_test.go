package facts

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// A node is a JSON value as encoding/json reads it, with its place in the text and its members in order. The
// reference implementation below finds the facts in it, slowly and plainly.
type node struct {
	kind       Kind
	start, end int
	text       string // of a string or number
	truth      bool
	keys       []string
	elems      []node
}

// parse reads valid JSON.
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

// get is the last member of that name.
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

func (n node) bytes() []byte {
	if n.kind != String {
		return nil
	}
	return []byte(n.text)
}

// inside is the raw text of a string between its quotes, or the raw value.
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

// refRequest is the slow twin of ScanRequest, for valid JSON objects.
func refRequest(b []byte) Request {
	n := parse(b)
	f := refMessages(b, n.get("messages"))
	f.Model = n.get("model").bytes()
	f.Stream = n.get("stream").truth
	f.HasTools = n.get("tools").kind == Array
	if f.HasTools {
		f.ToolCount = len(n.get("tools").elems)
	}
	f.Forced = n.get("tool_choice").get("function").get("name").bytes()
	if f.MaxTokens = n.get("max_completion_tokens").integer(); f.MaxTokens == 0 {
		f.MaxTokens = n.get("max_tokens").integer()
	}
	return f
}

func refMessages(b []byte, n node) Request {
	f := Request{MessagesKind: n.kind}
	if n.kind != Array {
		return f
	}
	known := []string{
		"role", "content", "name", "refusal", "audio", "function_call", "tool_calls", "tool_call_id",
		"reasoning_content", "reasoning", "reasoning_details",
	}
	roles := map[string]Role{
		"system": RoleSystem, "developer": RoleDeveloper, "user": RoleUser, "assistant": RoleAssistant,
		"tool": RoleTool, "function": RoleFunction,
	}
	for _, e := range n.elems {
		m := Message{Kind: e.kind, Start: e.start, End: e.end, Hash: xxh3.Hash(b[e.start:e.end])}
		for _, k := range e.keys {
			if !slices.Contains(known, k) {
				m.Fields |= FieldUnknown
			}
		}
		role := e.get("role")
		if m.RoleKind = role.kind; role.kind == String {
			m.Role = RoleOther
			if r, ok := roles[role.text]; ok {
				m.Role = r
			}
		}
		content := e.get("content")
		m.Content = content.kind
		m.ContentBytes = len(content.inside(b))
		if m.Role == RoleAssistant && content.kind == String {
			m.ContentHash = xxh3.HashString(content.text)
		}
		if content.kind == Array {
			m.PartCount = len(content.elems)
			for _, p := range content.elems {
				m.Parts |= refPart(p)
			}
		}
		calls := e.get("tool_calls")
		if m.ToolCalls = calls.kind; calls.kind == Array {
			for _, c := range calls.elems {
				m.Calls = append(m.Calls, refCall(b, c))
			}
		}
		if m.Role == RoleTool {
			m.Replies = []Reply{{ID: e.get("tool_call_id").bytes(), IDKind: e.get("tool_call_id").kind}}
		}
		for _, k := range []string{"reasoning_details", "reasoning", "reasoning_content"} {
			if r := e.get(k).kind; r > Null || r == Null && m.Reasoning == Absent {
				m.Reasoning = r
			}
		}
		f.Messages = append(f.Messages, m)
	}
	return f
}

func refPart(p node) Parts {
	if p.get("type").kind != String {
		return PartBad
	}
	switch p.get("type").text {
	case "text":
		return PartText
	case "image_url":
		return PartImage
	case "input_audio":
		return PartAudio
	case "file":
		return PartFile
	case "refusal":
		return PartRefusal
	}
	return PartOther
}

func refCall(b []byte, n node) Call {
	fn := n.get("function")
	args := fn.get("arguments")
	c := Call{
		Kind: n.kind, Start: n.start, End: n.end,
		ID: n.get("id").bytes(), IDKind: n.get("id").kind,
		Name: fn.get("name").bytes(), NameKind: fn.get("name").kind,
		TypeKind: n.get("type").kind, FuncKind: fn.kind, ArgsKind: args.kind,
	}
	if args.kind != Absent {
		c.ArgsBytes, c.ArgsHash = len(args.inside(b)), xxh3.Hash(args.inside(b))
	}
	if args.kind == String {
		c.Args = refArgs(args.text)
	}
	for _, k := range n.keys {
		if k != "id" && k != "type" && k != "function" && k != "index" {
			c.Fields |= FieldUnknown
		}
	}
	return c
}

// refArgs is the slow twin of checkArgs, on the unescaped text.
func refArgs(text string) Args {
	if strings.HasPrefix(text, "~") {
		return checkShapedArgs([]byte(text))
	}
	d := json.NewDecoder(strings.NewReader(text))
	verdict := ArgsUnknown
	for {
		var v json.RawMessage
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF) && verdict == ArgsUnknown:
			return ArgsEmpty
		case errors.Is(err, io.EOF):
			return verdict
		case errors.Is(err, io.ErrUnexpectedEOF) && verdict == ArgsUnknown:
			return ArgsTruncated
		case err != nil:
			return ArgsBad
		case verdict != ArgsUnknown:
			verdict = ArgsMultiple
		case v[0] == '{':
			verdict = ArgsObject
		default:
			verdict = ArgsNotObject
		}
		rest := text[d.InputOffset():]
		if strings.IndexByte(`{["`, v[0]) < 0 && rest != "" && strings.TrimLeft(rest[:1], " \n\t\r") != "" {
			return ArgsBad // 01 is no two numbers
		}
	}
}
