package dialect

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

var cohere = Dialect{
	Name:     wire.Cohere,
	SDK:      SDK{"CO_API_URL", "CO_API_KEY", ""},
	Path:     func(_, _ string) string { return "/v2/chat" },
	Response: cohereResponse,
	message:  func(m *Message, _ bool) []Object { return chatMessage(m, false) },
	said: func(text string) Object {
		return Object{"role": "assistant", "content": []Object{{"type": "text", "text": text}}}
	},

	Answers:  []string{"/message"},
	Texts:    []string{"/delta/message/content/text"},
	Thoughts: []string{"/delta/message/tool_plan"},
}

func cohereResponse(r *Response) Object {
	b := r.head("1")
	delete(b, "model")
	b["message"] = r.message()
	if t := r.Tokens; t != nil {
		b["usage"] = Object{"tokens": Object{"input_tokens": t.Input, "output_tokens": t.Output}, "cached_tokens": t.Cached}
	}
	return optional(b, "finish_reason", r.Finish)
}
