package reduce

import (
	"slices"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Makes reports whether an answer, or a message of the model in the last request, makes the call of f. A fault without a call
// needs no answer.
func (c *Case) Makes(f *Fault) bool {
	return f.ToolCallID == "" || c.answers(f.ToolCallID) || slices.ContainsFunc(c.said(), func(m any) bool { return slices.Contains(callIDs(m), f.ToolCallID) })
}

// Answers returns the answers that an agent needs to send the last request, in order. If no answer is stored that makes the call of
// f, or none at all, they are the messages of the model in that request.
func (c *Case) Answers(f *Fault) (all [][]any) {
	for i := range c.Steps {
		if a := c.Steps[i].Answer; len(a) > 0 && i < len(c.Steps)-1 {
			all = append(all, a)
		}
	}
	if len(all) > 0 && (f.ToolCallID == "" || c.answers(f.ToolCallID)) {
		return all
	}
	all = nil
	for _, m := range c.said() {
		all = append(all, []any{m})
	}
	return all
}

// said returns the messages of the model in the last request.
func (c *Case) said() (all []any) {
	for _, message := range c.history(&c.Steps[len(c.Steps)-1]) {
		m, _ := message.(map[string]any)
		switch role := text(m["role"]); {
		case role == "assistant", role == "model", role == "" && text(m["type"]) == "function_call":
			all = append(all, m)
		}
	}
	return all
}

// Said returns the messages of an answer with a text.
func Said(d wire.Dialect, words string) []any {
	type object = map[string]any
	switch d {
	case wire.OpenAIResponses:
		part := object{"type": "output_text", "text": words, "annotations": []any{}}
		return []any{object{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{part}}}
	case wire.Anthropic:
		return []any{object{"role": "assistant", "content": []any{object{"type": "text", "text": words}}}}
	case wire.Gemini:
		return []any{object{"role": "model", "parts": []any{object{"text": words}}}}
	case wire.Bedrock:
		return []any{object{"role": "assistant", "content": []any{object{"text": words}}}}
	case wire.Cohere:
		return []any{object{"role": "assistant", "content": []any{object{"type": "text", "text": words}}}}
	default:
		return []any{object{"role": "assistant", "content": words}}
	}
}

// Chunk returns the only chunk of a streamed chat completion with this message.
func Chunk(messages []any) []byte {
	type object = map[string]any
	body, err := Decode[object](Response(wire.OpenAIChat, messages))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	body["object"] = "chat.completion.chunk"
	choice := body["choices"].([]any)[0].(object)
	message, _ := choice["message"].(object)
	if calls, ok := message["tool_calls"].([]any); ok {
		for i, c := range calls {
			if call, ok := c.(object); ok {
				call["index"] = i
			}
		}
	}
	delete(choice, "message")
	choice["delta"] = message
	return Encode(body)
}
