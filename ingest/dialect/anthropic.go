package dialect

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

var anthropic = Dialect{
	Name:     wire.Anthropic,
	SDK:      SDK{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", ""},
	Path:     func(_, _ string) string { return "/v1/messages" },
	System:   func(text string) (string, any) { return "system", text },
	Response: anthropicResponse,

	text: func(text string) Object { return Object{"type": "text", "text": text} },
	thought: func(text, signature string) Object {
		return Object{"type": "thinking", "thinking": text, "signature": signature}
	},
	call: func(id any, name string, arguments any) Object {
		return Object{"type": "tool_use", "id": id, "name": name, "input": arguments}
	},
	reply: func(id, text string) Object { return Object{"type": "tool_result", "tool_use_id": id, "content": text} },

	Texts:      []string{"/content_block/text", "/delta/text"},
	Thoughts:   []string{"/content_block/thinking", "/delta/thinking"},
	Signatures: []string{"/delta/signature"},
}

func anthropicResponse(r *Response) Object {
	b := optional(r.head("msg_1"), "stop_reason", r.Finish)
	message, _ := r.message().(Object)
	b["type"], b["role"], b["content"] = "message", "assistant", message["content"]
	switch t := r.Tokens; {
	case r.Example:
		b["usage"] = Object{"input_tokens": 1, "output_tokens": 1}
	case t != nil: // input_tokens excludes those read from the cache
		b["usage"] = Object{"input_tokens": max(t.Input-t.Cached, 0), "cache_read_input_tokens": t.Cached, "output_tokens": t.Output}
	}
	return b
}
