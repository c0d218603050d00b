package dialect

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

var gemini = Dialect{
	Name: wire.Gemini,
	SDK:  SDK{"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", ""},
	Path: func(provider, model string) string {
		if provider == "gcp.vertex_ai" {
			return "/v1/publishers/google/models/" + model + ":generateContent"
		}
		return "/v1beta/models/" + model + ":generateContent"
	},
	System:   func(text string) (string, any) { return "systemInstruction", Object{"parts": []Object{{"text": text}}} },
	Response: geminiResponse,
	Chunk:    func(Object) {}, // an event is a response

	text:    func(text string) Object { return Object{"text": text} },
	thought: func(text, _ string) Object { return Object{"text": text, "thought": true} },
	call: func(id any, name string, arguments any) Object {
		c := Object{"name": name, "args": arguments}
		if id != nil {
			c["id"] = id
		}
		return Object{"functionCall": c}
	},
	reply: func(id, text string) Object {
		return Object{"functionResponse": Object{"id": id, "response": Object{"output": text}}}
	},

	Answers:   []string{"/candidates/0/content"},
	Fragments: []string{"/candidates/0/content"},
}

func geminiResponse(r *Response) Object {
	b := optional(Object{}, "responseId", r.ID, "modelVersion", r.Model)
	b["candidates"] = []any{optional(Object{"index": 0, "content": r.message()}, "finishReason", r.Finish)}
	if t := r.Tokens; t != nil {
		b["usageMetadata"] = Object{"promptTokenCount": t.Input, "candidatesTokenCount": t.Output, "cachedContentTokenCount": t.Cached}
	}
	return b
}
