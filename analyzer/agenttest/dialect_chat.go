package agenttest

import (
	"cmp"
	"math/rand/v2"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var openAI = Dialect{
	Name: "openai", Wire: wire.OpenAIChat, HasIDs: true, model: "gpt-4o",
	url:    func(r *request) string { return "https://" + cmp.Or(r.host, "api.openai.com/v1") + "/chat/completions" },
	body:   chatBody,
	answer: chatAnswer,
	callID: func(rnd *rand.Rand) string { return "call_" + random(rnd, alphanumeric, 24) },
	refusals: map[defect]string{
		orphan:    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
		missing:   "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
		duplicate: "Duplicate value for 'tool_call_id' in messages.",
	},
	refusal: openAIError,
}

var deepSeek = Dialect{
	Name: "deepseek", Wire: wire.OpenAIChat, HasIDs: true, model: "deepseek-chat", thinker: "deepseek-reasoner",
	url:    func(r *request) string { return "https://" + cmp.Or(r.host, "api.deepseek.com") + "/chat/completions" },
	body:   chatBody,
	answer: chatAnswer,
	callID: func(rnd *rand.Rand) string { return "call_00_" + random(rnd, alphanumeric, 24) },
	refusals: map[defect]string{
		orphan:  "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
		missing: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)",
	},
	refusal: openAIError,
}

func openAIError(text string) obj {
	return obj{"error": obj{"message": text, "type": "invalid_request_error", "param": nil, "code": nil}}
}

func chatBody(r *request) obj {
	list := []obj{}
	if r.system != "" {
		// The code that writes the other messages writes this one.
		list = append(list, r.messages[0].fill(obj{"role": "system", "content": r.system}))
	}
	for i := range r.messages {
		list = append(list, chatMessages(r, &r.messages[i])...)
	}
	b := obj{"model": r.model, "messages": list}
	if r.stream {
		b["stream"], b["stream_options"] = true, obj{"include_usage": true}
	}
	if len(r.tools) > 0 {
		b["tools"] = tools(r, func(name string) obj {
			return obj{"type": "function", "function": obj{"name": name, "parameters": schema}}
		})
	}
	if r.force != "" {
		b["tool_choice"] = obj{"type": "function", "function": obj{"name": r.force}}
	}
	return b
}

func chatMessages(r *request, m *Message) (list []obj) {
	if m.Role == "tool" {
		for _, reply := range m.Replies {
			o := m.fill(obj{"role": "tool", "content": reply.Text, "tool_call_id": reply.ID})
			if reply.NoID {
				delete(o, "tool_call_id")
			}
			list = append(list, o)
		}
		return list
	}
	o := m.fill(obj{"role": m.Role, "content": m.Text})
	switch {
	case len(m.Files) > 0:
		parts := []obj{{"type": "text", "text": m.Text}}
		for range m.Files {
			parts = append(parts, obj{"type": "image_url", "image_url": obj{"url": "data:image/png;base64,iVBORw0KGgo="}})
		}
		o["content"] = parts
	case m.Content == blocks:
		o["content"] = []obj{{"type": "text", "text": m.Text}}
	case m.Text != "" || len(m.Calls) == 0:
	case m.Content == absent:
		delete(o, "content")
	case m.Content == null || r.chatNull:
		o["content"] = nil
	}
	if m.Thinking != "" || m.Blank {
		o["reasoning_content"] = m.Thinking
	}
	if calls := chatCalls(m.Calls); calls != nil {
		o["tool_calls"] = calls
	}
	return []obj{o}
}

func chatCalls(calls []Call) (list []obj) {
	for i := range calls {
		c := &calls[i]
		f := obj{"name": c.Name, "arguments": c.text()}
		if c.OtherKind {
			f["arguments"] = c.value()
		}
		o := obj{"id": c.ID, "type": "function", "function": f}
		if c.ID == "" {
			delete(o, "id")
		}
		list = append(list, o)
	}
	return list
}

func chatAnswer(r *request, m *Message, e ending) (string, []byte) {
	finish := "stop"
	switch {
	case e == lengthCut:
		finish = "length"
	case len(m.Calls) > 0:
		finish = "tool_calls"
	}
	if r.stream {
		return "text/event-stream", chatStream(r, m, finish, e)
	}
	said := obj{"role": "assistant", "content": m.Text}
	if m.Text == "" {
		said["content"] = nil
	}
	if m.Thinking != "" || m.Blank {
		said["reasoning_content"] = m.Thinking
	}
	if calls := chatCalls(m.Calls); calls != nil {
		said["tool_calls"] = calls
	}
	return "application/json", marshal(obj{
		"id": "chatcmpl-" + r.id, "object": "chat.completion", "model": r.model,
		"choices": []obj{{"index": 0, "message": said, "finish_reason": finish}},
		"usage":   obj{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
	})
}

func chatStream(r *request, m *Message, finish string, e ending) []byte {
	var b sse
	chunk := func(delta obj, finish any) {
		b.event("", obj{"id": "chatcmpl-" + r.id, "object": "chat.completion.chunk", "model": r.model, "choices": []obj{{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	chunk(obj{"role": "assistant", "content": ""}, nil)
	if m.Thinking != "" || m.Blank {
		for _, p := range pieces(m.Thinking, 40) {
			chunk(obj{"reasoning_content": p}, nil)
		}
	}
	if m.Text != "" {
		for _, p := range pieces(m.Text, 40) {
			chunk(obj{"content": p}, nil)
		}
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		chunk(obj{"tool_calls": []obj{{"index": i, "id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": ""}}}}, nil)
		for _, p := range pieces(c.text(), 20) {
			chunk(obj{"tool_calls": []obj{{"index": i, "function": obj{"arguments": p}}}}, nil)
		}
	}
	if e != streamCut {
		chunk(obj{}, finish)
		b.event("", obj{"id": "chatcmpl-" + r.id, "object": "chat.completion.chunk", "model": r.model, "choices": []obj{}, "usage": obj{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}})
		b.WriteString("data: [DONE]\n\n")
	}
	return []byte(b.String())
}
