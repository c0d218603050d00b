package dialect

import (
	"encoding/json"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var interactions = Dialect{
	Name:     wire.Interactions,
	SDK:      SDK{"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", ""},
	Path:     func(_, _ string) string { return "/v1beta/interactions" },
	System:   func(text string) (string, any) { return "system_instruction", text },
	Response: interaction,
	message:  steps,
	Items:    "/steps",
}

func steps(m *Message, answer bool) (all []Object) {
	if m.IsReply {
		return []Object{{"type": "function_result", "call_id": m.ReplyTo, "result": m.Said()}}
	}
	if m.Text != nil || len(m.Calls) == 0 {
		typ := "user_input"
		if answer || m.model() {
			typ = "model_output"
		}
		all = append(all, Object{"type": typ, "content": []Object{{"type": "text", "text": m.Said()}}})
	}
	for _, c := range m.Calls {
		var v Object
		if json.Unmarshal([]byte(c.Args), &v) != nil || v == nil {
			v = Object{}
		}
		all = append(all, Object{"type": "function_call", "id": c.ID, "name": c.Name, "arguments": v})
	}
	return all
}

func interaction(r *Response) Object {
	b := optional(r.head("v1_1"), "status", r.Finish)
	if r.Finish == "" {
		b["status"] = "completed"
	}
	b["object"], b["steps"] = "interaction", r.Messages
	if t := r.Tokens; t != nil {
		b["usage"] = Object{"total_input_tokens": t.Input, "total_output_tokens": t.Output, "total_cached_tokens": t.Cached}
	}
	return b
}
