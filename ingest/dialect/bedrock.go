package dialect

import "github.com/llmtap/llmtap/ingest/sdk/go/wire"

var bedrock = Dialect{
	Name:     wire.Bedrock,
	SDK:      SDK{"AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_BEARER_TOKEN_BEDROCK", ""},
	Path:     func(_, model string) string { return "/model/" + model + "/converse" },
	System:   func(text string) (string, any) { return "system", []Object{{"text": text}} },
	Response: bedrockResponse,

	text: func(text string) Object { return Object{"text": text} },
	thought: func(text, signature string) Object {
		return Object{"reasoningContent": Object{"reasoningText": Object{"text": text, "signature": signature}}}
	},
	call: func(id any, name string, arguments any) Object {
		return Object{"toolUse": Object{"toolUseId": id, "name": name, "input": arguments}}
	},
	reply: func(id, text string) Object {
		return Object{"toolResult": Object{"toolUseId": id, "content": []Object{{"text": text}}}}
	},

	Answers:    []string{"/output/message"},
	Texts:      []string{"/delta/text"},
	Thoughts:   []string{"/delta/reasoningContent/text"},
	Signatures: []string{"/delta/reasoningContent/signature"},
}

func bedrockResponse(r *Response) Object {
	b := optional(Object{"output": Object{"message": r.message()}}, "stopReason", r.Finish)
	if t := r.Tokens; t != nil { // inputTokens excludes those read from the cache
		b["usage"] = Object{"inputTokens": max(t.Input-t.Cached, 0), "cacheReadInputTokens": t.Cached, "outputTokens": t.Output}
	}
	return b
}
