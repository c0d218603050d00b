package dialect

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

var responses = Dialect{
	Name:     wire.OpenAIResponses,
	SDK:      SDK{"OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"},
	Path:     func(_, _ string) string { return "/v1/responses" },
	Response: responsesResponse,
	message:  responsesItems,
	said: func(text string) Object {
		part := Object{"type": "output_text", "text": text, "annotations": []any{}}
		return Object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{part}}
	},
	Items: "/output",
}

func responsesItems(m *Message, _ bool) (items []Object) {
	if m.IsReply {
		return []Object{{"type": "function_call_output", "call_id": m.ReplyTo, "output": m.Said()}}
	}
	if m.Text != nil || len(m.Calls) == 0 {
		part := "input_text"
		if m.model() {
			part = "output_text"
		}
		items = append(items, Object{"type": "message", "role": m.Role, "content": []Object{{"type": part, "text": m.Said()}}})
	}
	for _, c := range m.Calls {
		items = append(items, Object{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.Args})
	}
	return items
}

func responsesResponse(r *Response) Object {
	b := r.head("resp_1")
	if r.Example {
		b["created_at"] = 1
	}
	b["object"], b["status"], b["output"] = "response", "completed", r.Messages
	if wire.AtTokenLimit(r.Finish) {
		b["status"], b["incomplete_details"] = "incomplete", Object{"reason": r.Finish}
	}
	if t := r.Tokens; t != nil {
		b["usage"] = Object{"input_tokens": t.Input, "output_tokens": t.Output, "input_tokens_details": Object{"cached_tokens": t.Cached}}
	}
	return b
}
