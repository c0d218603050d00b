package facts

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// refAnthropic is the reference implementation of ScanRequest for valid JSON objects.
func refAnthropic(b []byte) Request {
	n := parse(b)
	f := refAnthropicMessages(b, n.get("messages"))
	f.Model = n.get("model").bytes()
	f.Stream = n.get("stream").truth
	f.MaxTokens = n.get("max_tokens").integer()
	f.System = n.get("system").kind
	f.HasTools = n.get("tools").kind == Array
	for _, t := range n.get("tools").elems {
		if f.HasTools {
			f.ToolCount++
		}
		if t.kind != Object || !f.HasTools {
			continue
		}
		if name := t.get("name"); name.kind == String {
			f.Tools = append(f.Tools, []byte(name.text))
		} else {
			f.OpenTools = true
		}
		if typ := t.get("type").text; t.get("type").kind == String && typ != "" && typ != "custom" {
			f.OpenTools = true
		}
	}
	f.OpenTools = f.OpenTools || n.get("mcp_servers").kind == Array
	for i, k := range n.keys { // duplicates count, too
		if k == "thread" {
			id := n.elems[i].get("previous_message_id")
			f.Stored = f.Stored || id.kind == String && id.text != ""
		}
	}
	f.Threaded = n.get("thread").kind == Object
	f.PreviousResponse = n.get("thread").get("previous_message_id").bytes()
	f.Compacts = n.get("compaction").kind == Object
	choice := n.get("tool_choice")
	f.ToolChoice = choice.kind
	if choice.get("type").kind == String && choice.get("type").text == "tool" {
		f.Forced = choice.get("name").bytes()
	}
	f.Forces = choice.get("type").kind == String && (choice.get("type").text == "tool" || choice.get("type").text == "any")
	f.Container = n.get("container").kind
	f.Adaptive = n.get("thinking").get("type").text == "adaptive"
	switch typ := n.get("thinking").get("type"); {
	case typ.kind != String:
	case typ.text == "enabled" || typ.text == "adaptive":
		f.Thinking = ThinkingOn
	case typ.text == "disabled":
		f.Thinking = ThinkingOff
	}
	return f
}

func refSandboxed(block node) bool {
	typ := block.get("caller").get("type")
	return typ.kind == String && strings.HasPrefix(typ.text, "code_execution")
}

var refAnthropicParts = map[string]Parts{
	"text": PartText, "image": PartImage, "document": PartFile, "thinking": PartReasoning, "redacted_thinking": PartReasoning,
	"tool_use": PartCall, "tool_result": PartReply,
}

// refAnthropicLegal are the keys of block types with a schema.
var refAnthropicLegal = map[string]string{
	"text": "text citations", "image": "source transformations", "document": "source context title citations",
	"thinking": "thinking signature", "redacted_thinking": "data", "tool_use": "id name input caller toolset_name",
	"tool_result": "tool_use_id content is_error toolset_name",
}

type refForeign struct {
	key  string
	null bool
}

func refAnthropicForeign(n node) (all []refForeign) {
	legal, ok := refAnthropicLegal[n.get("type").text]
	if !ok || n.get("type").kind != String {
		return nil
	}
	for i, k := range n.keys {
		if k != "type" && k != "cache_control" && !slices.Contains(strings.Fields(legal), k) {
			v := n.elems[i]
			all = append(all, refForeign{k, v.kind == Null || v.kind == Bool && !v.truth})
		}
	}
	return all
}

func refAnthropicPart(b []byte, n node) Parts {
	if n.get("type").kind != String {
		return PartBad
	}
	part, ok := refAnthropicParts[n.get("type").text]
	if !ok {
		return PartOther
	}
	if text := n.get("text"); part == PartText && text.kind == String && textBytes(text.inside(b)) == 0 {
		part |= PartBlank
	}
	return part
}

func refAnthropicSize(b []byte, n node) int {
	if n.kind == String {
		return textBytes(n.inside(b))
	}
	return n.end - n.start
}

func refAnthropicMessages(b []byte, n node) Request {
	f := Request{MessagesKind: n.kind}
	if n.kind != Array {
		return f
	}
	for _, e := range n.elems {
		m := Message{Kind: e.kind, Start: e.start, End: e.end, Hash: xxh3.Hash(b[e.start:e.end])}
		if e.kind != Object {
			f.Messages = append(f.Messages, m)
			continue
		}
		role := e.get("role")
		m.RoleName, m.RoleKind = role.bytes(), role.kind
		m.Role = roleOf(role.bytes(), role.kind)
		var foreign []refForeign
		for i, k := range e.keys {
			v := e.elems[i]
			switch k {
			case "role", "clear_at", "output_config":
			case "cache_control":
				m.Fields |= FieldCacheControl
			case "content": // duplicates count, too
				var uses, open []string
				for _, p := range v.elems {
					if v.kind != Array {
						break
					}
					if slices.Contains(p.keys, "cache_control") {
						m.Fields |= FieldCacheControl
					}
					if inner := p.get("content"); inner.kind == Array && p.get("type").text == "tool_result" {
						for _, q := range inner.elems {
							foreign = append(foreign, refAnthropicForeign(q)...)
						}
					}
					foreign = append(foreign, refAnthropicForeign(p)...)
					switch typ := p.get("type").text; {
					case typ == "server_tool_use", typ == "mcp_tool_use":
						m.Fields |= FieldServerUse
						uses = append(uses, p.get("id").text)
						if !refSandboxed(p) {
							open = append(open, p.get("id").text)
						}
					case strings.HasSuffix(typ, "_tool_result"):
						id := p.get("tool_use_id").text
						if !slices.Contains(uses, id) {
							m.Fields |= FieldServerOrphan
						}
						if i := slices.Index(open, id); i >= 0 && p.get("tool_use_id").kind == String {
							open = slices.Delete(open, i, i+1)
						}
					case typ == "thinking" && p.get("signature").kind != String:
						m.Fields |= FieldUnsigned
					case typ == "tool_use" && refSandboxed(p):
						m.Fields |= FieldSandboxCall
					}
					f.OpenTools = f.OpenTools || p.get("type").text == "tool_addition" || p.get("type").text == "compaction"
					f.Stored = f.Stored || p.get("type").text == "compaction"
				}
				if len(open) > 0 {
					m.Fields |= FieldServerOpen
				}
			default:
				foreign = append(foreign, refForeign{k, v.kind == Null || v.kind == Bool && !v.truth})
			}
		}
		for i, k := range foreign {
			if i == 0 {
				m.OtherField, m.NullFields = []byte(k.key), FieldUnknown
			}
			m.Fields |= FieldUnknown
			if !k.null {
				m.NullFields = 0
			}
		}
		refAnthropicContent(b, e.get("content"), &m)
		f.Messages = append(f.Messages, m)
	}
	return f
}

func refAnthropicContent(b []byte, n node, m *Message) {
	m.Content = n.kind
	m.ContentBytes = refAnthropicSize(b, n)
	var text *string
	add := func(s node) {
		if s.kind == String {
			joined := s.text
			if text != nil {
				joined = *text + s.text
			}
			text = &joined
		}
	}
	if n.kind != Array {
		add(n)
	}
	for _, p := range n.elems {
		if n.kind != Array {
			break
		}
		part := refAnthropicPart(b, p)
		before := m.Parts
		m.Parts |= part
		if m.PartCount++; m.PartCount == 1 {
			m.FirstPart = part
		}
		var sealed node
		switch p.get("type").text {
		case "text":
			add(p.get("text"))
		case "tool_use":
			input := p.get("input")
			c := Call{
				Kind: Object, FuncKind: Object, ID: p.get("id").bytes(), IDKind: p.get("id").kind, Name: p.get("name").bytes(),
				NameKind: p.get("name").kind, ArgsKind: input.kind, Start: p.start, End: p.end,
			}
			if input.kind != Absent {
				c.ArgsBytes, c.ArgsHash = len(input.inside(b)), xxh3.Hash(input.inside(b))
			}
			switch input.kind {
			case Object:
				c.Args = ArgsObject
			case String:
				c.Args = refArgs(input.text)
			default:
			}
			m.Calls = append(m.Calls, c)
		case "tool_result":
			content := p.get("content")
			r := Reply{
				ID: p.get("tool_use_id").bytes(), IDKind: p.get("tool_use_id").kind, Content: content.kind,
				ContentBytes: refAnthropicSize(b, content), IsError: p.get("is_error").truth, After: before, Start: p.start, End: p.end,
			}
			for _, q := range content.elems {
				if content.kind == Array {
					r.Parts |= refAnthropicPart(b, q)
					r.PartCount++
				}
			}
			m.Replies = append(m.Replies, r)
		case "thinking":
			sealed = p.get("signature")
			m.Reasoning = firstReasoning(m.Reasoning, p.get("thinking").kind)
		case "redacted_thinking":
			sealed = p.get("data")
			m.Reasoning = firstReasoning(m.Reasoning, sealed.kind)
		}
		if sealed.kind == String && textBytes(sealed.inside(b)) > 0 && m.Role == RoleAssistant {
			m.Signed = bits.RotateLeft64(m.Signed, 1) ^ xxh3.HashString(sealed.text)
			if t := p.get("thinking"); p.get("type").text == "thinking" && t.kind == String && textBytes(t.inside(b)) > 0 {
				m.Thought = bits.RotateLeft64(m.Thought, 1) ^ xxh3.HashString(t.text)
			}
		}
	}
	if text != nil && m.Role == RoleAssistant {
		m.ContentHash = xxh3.HashString(*text)
	}
}

// A refAnthropicAnswer is a recorded answer decoded with encoding/json.
type refAnthropicAnswer struct {
	ID, Model, Finish string
	Text              *string
	Calls             []ResponseCall
	Signed, Thought   uint64
	Usage             map[string]int64
}

type refAnthropicBlock struct {
	Type, Text, ID, Name, Signature, Data, Thinking string
	Input                                           json.RawMessage
}

type refAnthropicMessage struct {
	ID, Model  string
	Content    []refAnthropicBlock
	StopReason string `json:"stop_reason"`
	Usage      map[string]any
}

type refAnthropicEvent struct {
	Type  string
	Index int
	Delta struct {
		Type, Text, Signature, Thinking string
		PartialJSON                     string `json:"partial_json"`
		StopReason                      string `json:"stop_reason"`
	}
	Message refAnthropicMessage
	Block   refAnthropicBlock `json:"content_block"`
	Usage   map[string]any
}

func (a *refAnthropicAnswer) use(usage map[string]any) {
	if a.Usage == nil {
		a.Usage = map[string]int64{}
	}
	for k, v := range usage {
		if n, ok := v.(float64); ok {
			a.Usage[k] = int64(n)
		}
	}
}

// readAnthropicAnswer decodes a message, or the events of a stream.
func readAnthropicAnswer(tb testing.TB, body []byte) (a refAnthropicAnswer) {
	tb.Helper()
	var blocks []refAnthropicBlock
	read := func(data []byte, v any) {
		must.Do(tb, json.Unmarshal(data, v), string(data))
	}
	if body[0] == '{' {
		var m refAnthropicMessage
		read(body, &m)
		a.ID, a.Model, a.Finish, blocks = m.ID, m.Model, m.StopReason, m.Content
		a.use(m.Usage)
	}
	for line := range bytes.Lines(body) {
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		var e refAnthropicEvent
		read(data, &e)
		switch e.Type {
		case "message_start":
			a.ID, a.Model = e.Message.ID, e.Message.Model
			a.use(e.Message.Usage)
		case "content_block_start":
			e.Block.Input = nil
			blocks = append(blocks, e.Block)
		case "content_block_delta":
			b := &blocks[e.Index]
			b.Text += e.Delta.Text
			b.Signature += e.Delta.Signature
			b.Thinking += e.Delta.Thinking
			b.Input = append(b.Input, e.Delta.PartialJSON...)
		case "message_delta":
			a.Finish = e.Delta.StopReason
			a.use(e.Usage)
		}
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			joined := b.Text
			if a.Text != nil {
				joined = *a.Text + b.Text
			}
			a.Text = &joined
		case "tool_use":
			if len(b.Input) == 0 {
				b.Input = []byte("{}")
			}
			a.Calls = append(a.Calls, ResponseCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input), ArgsKind: Object, Args: ArgsObject})
		case "thinking", "redacted_thinking":
			if sealed := b.Signature + b.Data; sealed != "" {
				a.Signed = bits.RotateLeft64(a.Signed, 1) ^ xxh3.HashString(sealed)
				if b.Thinking != "" {
					a.Thought = bits.RotateLeft64(a.Thought, 1) ^ xxh3.HashString(b.Thinking)
				}
			}
		}
	}
	return a
}
