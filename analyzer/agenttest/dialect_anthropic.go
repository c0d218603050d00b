package agenttest

import (
	"maps"
	"math/rand/v2"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var anthropic = Dialect{
	Name: "anthropic", Wire: wire.Anthropic, HasIDs: true, model: "claude-sonnet-4-5", thinker: "claude-sonnet-4-5",
	url:    func(*request) string { return "https://api.anthropic.com/v1/messages" },
	body:   anthropicBody,
	answer: anthropicAnswer,
	callID: func(rnd *rand.Rand) string { return "toolu_01" + random(rnd, alphanumeric, 22) },
	refusals: map[defect]string{
		orphan:    "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_01. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
		missing:   "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
		duplicate: "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_01",
	},
	refusal: func(text string) obj {
		return obj{"type": "error", "error": obj{"type": "invalid_request_error", "message": text}, "request_id": "req_1"}
	},
}

func anthropicBody(r *request) obj {
	list := []obj{}
	for i := range r.messages {
		m := &r.messages[i]
		o := m.fill(obj{"role": m.Role, "content": anthropicBlocks(m)})
		if m.Role == "tool" {
			o["role"] = "user"
		}
		if m.Content != blocks && len(m.Calls) == 0 && len(m.Replies) == 0 && len(m.Files) == 0 && len(m.Server) == 0 && m.Thinking == "" && !m.Cache {
			o["content"] = m.Text
		}
		list = append(list, o)
	}
	b := obj{"model": r.model, "max_tokens": 4096, "messages": list}
	if r.system != "" {
		b["system"] = r.system
	}
	if r.stream {
		b["stream"] = true
	}
	if r.thinks && r.force == "" { // Claude does not think if it is forced to call a tool
		b["thinking"] = obj{"type": "enabled", "budget_tokens": 2048}
	}
	if len(r.tools) > 0 {
		b["tools"] = tools(r, func(name string) obj { return obj{"name": name, "input_schema": schema} })
	}
	if r.force != "" {
		b["tool_choice"] = obj{"type": "tool", "name": r.force}
	}
	return b
}

func anthropicBlocks(m *Message) []obj {
	list := []obj{}
	for _, reply := range m.Replies {
		o := obj{"type": "tool_result", "tool_use_id": reply.ID, "content": reply.Text}
		if reply.NoID {
			delete(o, "tool_use_id")
		}
		list = append(list, o)
	}
	if m.Thinking != "" {
		thought := obj{"type": "thinking", "thinking": m.Thinking, "signature": m.Signature}
		if m.Signature == "" {
			delete(thought, "signature")
		}
		list = append(list, thought)
	}
	for _, id := range m.Server {
		if !m.NoUse {
			list = append(list, obj{"type": "server_tool_use", "id": "srvtoolu_" + id, "name": "web_search", "input": obj{"query": id}})
		}
		if !m.Paused {
			list = append(list, obj{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_" + id, "content": []obj{}})
		}
	}
	if m.Text != "" {
		list = append(list, obj{"type": "text", "text": m.Text})
	}
	for range m.Files {
		list = append(list, obj{"type": "image", "source": obj{"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}})
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		o := obj{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.value()}
		if c.OtherKind {
			o["input"] = c.text()
		}
		if c.ID == "" {
			delete(o, "id")
		}
		list = append(list, o)
	}
	if m.Cache && len(list) > 0 {
		list[len(list)-1]["cache_control"] = obj{"type": "ephemeral"}
	}
	return list
}

func anthropicAnswer(r *request, m *Message, e ending) (string, []byte) {
	stop := "end_turn"
	switch {
	case e == lengthCut:
		stop = "max_tokens"
	case len(m.Calls) > 0:
		stop = "tool_use"
	}
	parts := anthropicBlocks(m)
	if !r.stream {
		return "application/json", marshal(obj{
			"id": "msg_" + r.id, "type": "message", "role": "assistant", "model": r.model, "content": parts,
			"stop_reason": stop, "stop_sequence": nil, "usage": obj{"input_tokens": 100, "output_tokens": 20},
		})
	}
	var b sse
	send := func(name string, data obj) {
		data["type"] = name
		b.event(name, data)
	}
	send("message_start", obj{"message": obj{"id": "msg_" + r.id, "type": "message", "role": "assistant", "model": r.model, "content": []obj{}, "stop_reason": nil, "usage": obj{"input_tokens": 100, "output_tokens": 1}}})
	for i, part := range parts {
		began, delta := maps.Clone(part), func(kind, member, text string) {
			for _, p := range pieces(text, 40) {
				send("content_block_delta", obj{"index": i, "delta": obj{"type": kind, member: p}})
			}
		}
		switch part["type"] {
		case "text":
			began["text"] = ""
		case "thinking":
			began["thinking"], began["signature"] = "", ""
		case "tool_use":
			began["id"], began["name"], began["input"] = part["id"], part["name"], obj{}
		}
		send("content_block_start", obj{"index": i, "content_block": began})
		switch part["type"] {
		case "text":
			delta("text_delta", "text", m.Text)
		case "thinking":
			delta("thinking_delta", "thinking", m.Thinking)
			delta("signature_delta", "signature", m.Signature)
		case "tool_use":
			delta("input_json_delta", "partial_json", string(marshal(part["input"])))
		}
		send("content_block_stop", obj{"index": i})
	}
	if e != streamCut {
		send("message_delta", obj{"delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": 20}})
		send("message_stop", obj{})
	}
	return "text/event-stream", []byte(b.String())
}
