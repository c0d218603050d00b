package otlp

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// object is a JSON object of a body.
type object = map[string]any

// url returns a URL from which dialect, variant and provider follow as from that of a recorded call. At an unknown host,
// a path segment names the variant; without a host, the URL is a path.
func (c *call) url() string {
	path := ""
	host, _, _ := wire.SplitURL(c.base)
	if wire.ProviderOf(strings.ToLower(host)) == nil {
		path = segment(c.provider, c.dialect)
	}
	model := url.PathEscape(c.model)
	switch c.dialect {
	case wire.Anthropic:
		path += "/v1/messages"
	case wire.Gemini:
		if c.provider == "gcp.vertex_ai" {
			path = "/v1/publishers/google"
		} else {
			path = "/v1beta"
		}
		path += "/models/" + model + ":generateContent"
	case wire.Bedrock:
		path = "/model/" + model + "/converse"
	case wire.Cohere:
		path += "/v2/chat"
	case wire.OpenAIResponses:
		path += "/v1/responses"
	default:
		path += "/v1/chat/completions"
	}
	return c.base + path
}

// segment returns the path segment that names the provider's variant of a dialect.
func segment(provider string, dialect wire.Dialect) string {
	for i := range wire.Providers {
		if p := &wire.Providers[i]; p.Name == provider {
			for _, v := range p.Variants {
				if slices.Contains(dialect.Descriptor().Segments, v) {
					return "/" + string(v)
				}
			}
		}
	}
	return ""
}

// request returns a body with the data about the request, in the dialect of the call.
func (c *call) request() []byte {
	b := object{}
	if c.dialect != wire.Gemini && c.dialect != wire.Bedrock && c.model != "" {
		b["model"] = c.model // the others name it in the path
	}
	if c.stream && c.dialect != wire.Gemini && c.dialect != wire.Bedrock {
		b["stream"] = true
	}
	if len(c.input) > 0 {
		b[c.dialect.Descriptor().Messages] = c.history(b)
	}
	return encode(b)
}

// history returns the messages of the request in the dialect of the call, and sets the system prompt of b where the
// dialect keeps it apart.
func (c *call) history(b object) (list []object) {
	for i := range c.input {
		m := &c.input[i]
		system := m.role == "system" || m.role == "developer"
		switch c.dialect {
		case wire.Anthropic:
			if system {
				b["system"] = text(m)
				continue
			}
			list = append(list, object{"role": turn(m, "assistant"), "content": blocks(m)})
		case wire.Bedrock:
			if system {
				b["system"] = []object{{"text": text(m)}}
				continue
			}
			list = append(list, object{"role": turn(m, "assistant"), "content": converseBlocks(m)})
		case wire.Gemini:
			if system {
				b["systemInstruction"] = object{"parts": []object{{"text": text(m)}}}
				continue
			}
			list = append(list, object{"role": turn(m, "model"), "parts": geminiParts(m)})
		case wire.OpenAIResponses:
			list = append(list, items(m)...)
		default:
			list = append(list, chatMessage(m))
		}
	}
	return list
}

// response returns a body with the data about the answer, in the dialect of the call.
func (c *call) response() []byte {
	m := message{role: "assistant"}
	if len(c.output) > 0 {
		m = c.output[0]
	}
	switch b := (object{}); c.dialect {
	case wire.Anthropic:
		set(b, "id", c.responseID)
		set(b, "model", c.answeredBy)
		b["type"], b["role"], b["content"] = "message", "assistant", blocks(&m)
		set(b, "stop_reason", c.finish)
		if c.tokens { // input_tokens excludes those read from the cache here, and includes them in a span
			b["usage"] = object{"input_tokens": max(c.inputTokens-c.cachedTokens, 0), "cache_read_input_tokens": c.cachedTokens, "output_tokens": c.outputTokens}
		}
		return encode(b)
	case wire.Gemini:
		set(b, "responseId", c.responseID)
		set(b, "modelVersion", c.answeredBy)
		candidate := object{"index": 0, "content": object{"role": "model", "parts": geminiParts(&m)}}
		set(candidate, "finishReason", c.finish)
		b["candidates"] = []object{candidate}
		if c.tokens {
			b["usageMetadata"] = object{
				"promptTokenCount": c.inputTokens, "candidatesTokenCount": c.outputTokens, "cachedContentTokenCount": c.cachedTokens,
			}
		}
		return encode(b)
	case wire.Bedrock:
		b["output"] = object{"message": object{"role": "assistant", "content": converseBlocks(&m)}}
		set(b, "stopReason", c.finish)
		if c.tokens {
			b["usage"] = object{
				"inputTokens": max(c.inputTokens-c.cachedTokens, 0), "cacheReadInputTokens": c.cachedTokens, "outputTokens": c.outputTokens,
			}
		}
		return encode(b)
	case wire.Cohere:
		set(b, "id", c.responseID)
		set(b, "finish_reason", c.finish)
		b["message"] = chatMessage(&m)
		if c.tokens {
			b["usage"] = object{"tokens": object{"input_tokens": c.inputTokens, "output_tokens": c.outputTokens}, "cached_tokens": c.cachedTokens}
		}
		return encode(b)
	case wire.OpenAIResponses:
		set(b, "id", c.responseID)
		set(b, "model", c.answeredBy)
		output := []object{}
		for i := range c.output {
			output = append(output, items(&c.output[i])...)
		}
		b["object"], b["status"], b["output"] = "response", "completed", output
		if wire.AtTokenLimit(c.finish) {
			b["status"], b["incomplete_details"] = "incomplete", object{"reason": c.finish}
		}
		if c.tokens {
			b["usage"] = object{
				"input_tokens": c.inputTokens, "output_tokens": c.outputTokens, "input_tokens_details": object{"cached_tokens": c.cachedTokens},
			}
		}
		return encode(b)
	default:
		set(b, "id", c.responseID)
		set(b, "model", c.answeredBy)
		m.role, m.isReply = "assistant", false
		choice := object{"index": 0, "message": chatMessage(&m)}
		set(choice, "finish_reason", c.finish)
		b["object"], b["choices"] = "chat.completion", []object{choice}
		if c.tokens {
			b["usage"] = object{
				"prompt_tokens": c.inputTokens, "completion_tokens": c.outputTokens, "prompt_tokens_details": object{"cached_tokens": c.cachedTokens},
			}
		}
		return encode(b)
	}
}

func set(b object, key, v string) {
	if v != "" {
		b[key] = v
	}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: encode a body: " + err.Error()) // strings, numbers and decoded JSON only
	}
	return b
}

func text(m *message) string {
	if m.text == nil {
		return ""
	}
	return *m.text
}

// turn returns the role of m in dialects with two roles.
func turn(m *message, model string) string {
	if m.role == "assistant" || m.role == "model" {
		return model
	}
	return "user"
}

func chatMessage(m *message) object {
	b := object{"role": m.role}
	if m.text != nil {
		b["content"] = *m.text
	}
	if m.isReply {
		b["role"] = "tool"
		set(b, "tool_call_id", m.replyTo)
	}
	var calls []object
	for _, c := range m.calls {
		f := object{"name": c.name}
		set(f, "arguments", c.args)
		call := object{"type": "function", "function": f}
		set(call, "id", c.id)
		calls = append(calls, call)
	}
	if calls != nil {
		b["tool_calls"] = calls
	}
	return b
}

// arguments returns the arguments of a call as an object.
func arguments(c toolCall) any {
	var v object
	if json.Unmarshal([]byte(c.args), &v) != nil || v == nil {
		return object{}
	}
	return v
}

func blocks(m *message) []object {
	if m.isReply {
		return []object{{"type": "tool_result", "tool_use_id": m.replyTo, "content": text(m)}}
	}
	list := []object{}
	if m.text != nil {
		list = append(list, object{"type": "text", "text": *m.text})
	}
	for _, c := range m.calls {
		list = append(list, object{"type": "tool_use", "id": c.id, "name": c.name, "input": arguments(c)})
	}
	return list
}

func converseBlocks(m *message) []object {
	if m.isReply {
		return []object{{"toolResult": object{"toolUseId": m.replyTo, "content": []object{{"text": text(m)}}}}}
	}
	list := []object{}
	if m.text != nil {
		list = append(list, object{"text": *m.text})
	}
	for _, c := range m.calls {
		list = append(list, object{"toolUse": object{"toolUseId": c.id, "name": c.name, "input": arguments(c)}})
	}
	return list
}

func geminiParts(m *message) []object {
	if m.isReply {
		return []object{{"functionResponse": object{"id": m.replyTo, "response": object{"output": text(m)}}}}
	}
	list := []object{}
	if m.text != nil {
		list = append(list, object{"text": *m.text})
	}
	for _, c := range m.calls {
		list = append(list, object{"functionCall": object{"id": c.id, "name": c.name, "args": arguments(c)}})
	}
	return list
}

// items returns m as items of the Responses API.
func items(m *message) []object {
	if m.isReply {
		return []object{{"type": "function_call_output", "call_id": m.replyTo, "output": text(m)}}
	}
	var list []object
	if m.text != nil || len(m.calls) == 0 {
		part := "input_text"
		if turn(m, "assistant") == "assistant" {
			part = "output_text"
		}
		list = append(list, object{"type": "message", "role": m.role, "content": []object{{"type": part, "text": text(m)}}})
	}
	for _, c := range m.calls {
		list = append(list, object{"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.args})
	}
	return list
}
