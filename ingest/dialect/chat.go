package dialect

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

var chat = Dialect{
	Name:      wire.OpenAIChat,
	SDK:       SDK{"OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"},
	Path:      func(_, _ string) string { return "/v1/chat/completions" },
	Response:  chatResponse,
	Chunk:     chatChunk,
	message:   chatMessage,
	Answers:   []string{"/choices/0/message", "/message"}, // the second is Ollama's
	Fragments: []string{"/choices/0/delta", "/message"},
}

func chatMessage(m *Message, answer bool) []Object {
	role, reply := m.Role, m.IsReply
	if answer {
		role, reply = "assistant", false
	}
	b := Object{"role": role}
	if m.Text != nil {
		b["content"] = *m.Text
	}
	if reply {
		b["role"] = "tool"
		optional(b, "tool_call_id", m.ReplyTo)
	}
	var calls []Object
	for _, c := range m.Calls {
		f := optional(Object{"name": c.Name}, "arguments", c.Args)
		calls = append(calls, optional(Object{"type": "function", "function": f}, "id", c.ID))
	}
	if calls != nil {
		b["tool_calls"] = calls
	}
	return []Object{b}
}

func chatResponse(r *Response) Object {
	b := r.head("chatcmpl-1")
	if r.Example {
		b["created"] = 1
	}
	b["object"] = "chat.completion"
	b["choices"] = []any{optional(Object{"index": 0, "message": r.message()}, "finish_reason", r.Finish)}
	if t := r.Tokens; t != nil {
		b["usage"] = Object{
			"prompt_tokens": t.Input, "completion_tokens": t.Output, "prompt_tokens_details": Object{"cached_tokens": t.Cached},
		}
	}
	return b
}

func chatChunk(b Object) {
	b["object"] = "chat.completion.chunk"
	choice := b["choices"].([]any)[0].(Object)
	message, _ := choice["message"].(Object)
	if calls, ok := message["tool_calls"].([]any); ok {
		for i, c := range calls {
			if call, ok := c.(Object); ok {
				call["index"] = i
			}
		}
	}
	delete(choice, "message")
	choice["delta"] = message
}
