package cause

import "bytes"

// isTraffic reports whether a member is one of a request, an answer or a part of them. A body has such a member or states an
// error.
func isTraffic(name []byte, v value, text []byte) bool {
	switch string(name) {
	case "messages", "contents", "choices", "candidates", "tool_calls", "toolCalls", "tools", "functions", "functionDeclarations", "function_declarations":
		return v.kind == blockValue || v.kind == listValue && !isListOfTexts(text, v.at)
	case "input", "instructions", "system", "prompt", "inputs", "chat_history", "documents":
		return v.kind != plainValue && v.kind != lineValue
	case "usage", "usageMetadata", "usage_metadata", "json_data", "generationConfig", "generation_config", "inferenceConfig", "toolConfig",
		"safetySettings", "systemInstruction", "system_instruction", "functionCall", "functionResponse", "function_call", "function_response",
		"toolUse", "toolResult", "tool_use", "tool_result", "inlineData", "inline_data", "image_url", "input_schema", "inputSchema", "properties", "parameters",
		"response_format", "content_filters", "content_filter_results", "prompt_filter_results", "logprobs", "parts", "postData", "prompt_tokens_details", "input_tokens_details", "output", "additionalModelRequestFields":
		return v.kind == listValue || v.kind == objectValue || v.kind == blockValue
	case "delta", "arguments", "args", "thinking", "embedding", "stop_reason", "finish_reason", "finishReason", "stopReason", "finish_details",
		"prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "inputTokens", "promptTokenCount", "promptTokensDetails",
		"tool_use_id", "toolUseId", "contentBlockIndex", "content_block", "thoughtSignature", "max_tokens", "max_completion_tokens", "max_output_tokens", "tool_choice",
		"obfuscation", "done_reason", "eval_count", "metrics", "inputText", "inputTextTokenCount", "outputText", "completionReason", "embeddings", "texts",
		"textGenerationConfig", "embeddingTypes", "created_at", "createTime", "top_p", "topP", "frequency_penalty", "presence_penalty",
		"contentPolicyUnits":
		return v.kind != lineValue
	case "role":
		return v.kind == plainValue || v.kind == stringValue
	case "type", "object":
		return v.kind == stringValue && isTrafficType(text[v.at:])
	}
	return false
}

// isTrafficType reports whether the type at the start of text, in quotes, is that of a request, an answer or a part of them.
func isTrafficType(text []byte) bool {
	n := opening(text, 0)
	text = text[n:]
	for _, t := range [...]string{"chat.completion", "text_completion", "response", "message_", "message-", "content_block", "content-", "text", "ping", "function", "tool_use", "tool_result", "tool-", "citation-", "image", "input_", "output_", "thinking", "reasoning", "summary_text", "list", "embedding", "stream-", "message\"", "message'"} {
		if len(text) >= len(t) && string(text[:len(t)]) == t {
			return true
		}
	}
	return false
}

// isListOfTexts reports whether the list at text[i] starts with a string, as lists of error messages do.
func isListOfTexts(text []byte, i int) bool {
	for i++; i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\r' || text[i] == '\t'); i++ {
	}
	return opening(text[:min(len(text), i+16)], min(i, len(text))) > 0
}

// memberSet summarises the members of brackets.
type memberSet struct {
	traffic bool // one is of a request or an answer
	stated  bool // one states an error
	message bool // one is a message, which is a question in some requests
	asked   bool // one is of a request whose question is a message
	coded   bool // one is of an error or a log
	text    bool // one is a text, as the parts of messages have
	title   bool // one is a title, as errors and the schemas of requests have
	schema  bool // one is of a schema
}

func (m *memberSet) add(name []byte, v value, text []byte) {
	switch string(name) {
	case "chat_history", "preamble", "connectors", "model", "role":
		m.asked = true
	case "text":
		m.text = m.text || v.kind == stringValue
	case "properties", "additionalProperties", "$defs":
		m.schema = true
	case "code", "type", "status", "param", "error_type", "level", "severity", "status_code", "object":
		m.coded = true
	}
	switch {
	case !isStatement(name, v, text):
		m.traffic = m.traffic || isTraffic(name, v, text)
	case string(name) == "message":
		m.message = true
	case string(name) == "title":
		m.title = true
	default:
		m.stated = true
	}
}

// areTraffic reports whether the members are those of a request or an answer, or of a part of them, and none states an error.
func (m *memberSet) areTraffic() bool {
	if m.stated || m.title && !m.schema {
		return false
	}
	if m.message {
		return m.asked && !m.coded
	}
	return m.traffic || m.schema || m.text && !m.coded
}

// isEcho reports whether a member repeats a part of the request, in an error too.
func isEcho(name []byte, v value, text []byte) bool {
	if v.kind == plainValue || v.kind == lineValue {
		return false
	}
	switch string(name) {
	case "received", "got", "actual", "value":
		return v.kind != stringValue && v.kind != blockValue
	case "input", "input_value", "ctx":
		return v.kind != stringValue || !isWordValue(text, v.at)
	case "messages", "contents", "tools", "functions", "functionDeclarations", "function_declarations":
		return v.kind == blockValue || v.kind == listValue && !isListOfTexts(text, v.at)
	case "content":
		return v.kind != objectValue
	case "failed_generation", "arguments", "prompt", "instructions", "systemInstruction", "system_instruction", "input_schema", "inputSchema",
		"headers", "Headers", "request_headers", "response_headers", "return_value", "json_data", "safetySettings", "chat_history":
		return true
	case "system", "parameters", "properties", "generationConfig":
		return v.kind == objectValue || v.kind == listValue || v.kind == blockValue
	}
	return false
}

// isWordValue reports whether the string at text[i] is a single word.
func isWordValue(text []byte, i int) bool {
	end, ok := endOfString(text[:min(len(text), i+maxName)], i)
	return ok && bytes.IndexByte(text[i:end], ' ') < 0
}

// isError reports whether a member of a request or an answer is an error.
func isError(name []byte, v value, text []byte) bool {
	switch string(name) {
	case "error", "errors", "promptFeedback", "prompt_feedback", "base_resp", "fault", "exception", "error_message", "errorMessage":
		return v.kind == listValue || v.kind == lineValue || v.kind == blockValue || v.kind == objectValue || v.kind == stringValue && !isEmptyString(text, v.at)
	}
	return false
}

// isStatement reports whether a member states an error in words.
func isStatement(name []byte, v value, text []byte) bool {
	switch string(name) {
	case "message", "msg", "detail", "details", "reason", "title", "error_description", "error_msg", "Message", "error":
		return v.kind == stringValue && !isEmptyString(text, v.at) || v.kind == lineValue || v.kind != plainValue && string(name) == "detail"
	case "messages":
		return v.kind == listValue && isListOfTexts(text, v.at)
	}
	return isError(name, v, text)
}

func isEmptyString(text []byte, i int) bool {
	n := opening(text, i)
	return len(text) >= i+2*n && bytes.Equal(text[i:i+n], text[i+n:i+2*n])
}

// isOption reports whether a member is an option of a client, a header or the name of an event of an answer, which is no statement: a
// timeout of 5 seconds did not elapse.
func isOption(name []byte, v value, text []byte) bool {
	switch {
	case string(name) == "event":
		return v.kind == plainValue && isTrafficType(text[v.at:])
	case bytes.HasPrefix(name, []byte("x-")), bytes.Contains(name, []byte("-ratelimit-")), string(name) == "retry-after":
		return v.kind == plainValue || v.kind == stringValue
	case string(name) == "timeout", string(name) == "request_timeout", string(name) == "max_retries":
		return v.kind == objectValue || v.kind == plainValue && v.at < len(text) && (isDigit(text[v.at]) || text[v.at] == 'N')
	}
	return false
}
