package agenttest

import (
	"maps"
	"math/rand/v2"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

var responses = Dialect{
	Name: "responses", Wire: wire.OpenAIResponses, HasIDs: true, model: "gpt-4.1", thinker: "gpt-5",
	url:    func(*request) string { return "https://api.openai.com/v1/responses" },
	body:   responsesBody,
	answer: responsesAnswer,
	callID: func(rnd *rand.Rand) string { return "call_" + random(rnd, alphanumeric, 24) },
	refusals: map[defect]string{
		orphan:  "No tool call found for function call output with call_id call_1.",
		missing: "No tool output found for function call call_1.",
	},
	refusal: openAIError,
}

func responsesBody(r *request) obj {
	list := []obj{}
	for i := range r.messages {
		list = append(list, items(&r.messages[i], false)...)
	}
	b := obj{"model": r.model, "input": list}
	if r.previous != "" {
		b["previous_response_id"] = "resp_" + r.previous
	}
	if r.system != "" {
		b["instructions"] = r.system
	}
	if r.stream {
		b["stream"] = true
	}
	if r.thinks {
		b["store"], b["include"] = false, []string{"reasoning.encrypted_content"}
	}
	if len(r.tools) > 0 {
		b["tools"] = tools(r, func(name string) obj { return obj{"type": "function", "name": name, "parameters": schema} })
	}
	if r.force != "" {
		b["tool_choice"] = obj{"type": "function", "name": r.force}
	}
	return b
}

// items returns the items of a message, of a request or of an answer.
func items(m *Message, answer bool) (list []obj) {
	for _, reply := range m.Replies {
		o := m.fill(obj{"type": "function_call_output", "call_id": reply.ID, "output": reply.Text})
		if reply.Tool != "" {
			o = m.fill(otherOutput(&reply))
		}
		if reply.NoID {
			delete(o, "call_id")
		}
		list = append(list, o)
	}
	if m.Role == "tool" {
		return list
	}
	if m.Thinking != "" {
		list = append(list, obj{"type": "reasoning", "id": m.ItemIDs[0], "summary": []obj{}, "encrypted_content": m.Signature})
	}
	switch {
	case len(m.Files) > 0:
		parts := []obj{{"type": "input_text", "text": m.Text}}
		for range m.Files {
			parts = append(parts, obj{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="})
		}
		list = append(list, m.fill(obj{"type": "message", "role": m.Role, "content": parts}))
	case m.Role != "assistant" && m.Content == blocks:
		list = append(list, m.fill(obj{"role": m.Role, "content": []obj{{"type": "input_text", "text": m.Text}}}))
	case m.Role != "assistant":
		list = append(list, m.fill(obj{"role": m.Role, "content": m.Text}))
	case m.Text != "":
		o := obj{"type": "message", "role": "assistant", "content": []obj{{"type": "output_text", "text": m.Text, "annotations": []obj{}}}}
		if m.ItemIDs[1] != "" {
			o["id"], o["status"] = m.ItemIDs[1], "completed"
		}
		list = append(list, m.fill(o))
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		o := m.fill(obj{"type": "function_call", "call_id": c.ID, "name": c.Name, "arguments": c.text()})
		if c.Tool != "" {
			list = append(list, obj{"type": "web_search_call", "id": "ws_" + c.ID, "status": "completed", "action": obj{"type": "search", "query": c.Name}})
			o = m.fill(otherCall(c))
		}
		if c.ItemID != "" {
			o["id"], o["status"] = c.ItemID, "completed"
		}
		if c.OtherKind {
			o["arguments"] = c.value()
		}
		if c.ID == "" {
			delete(o, "call_id")
		}
		list = append(list, o)
	}
	if answer {
		for _, o := range list {
			o["status"] = "completed"
		}
	}
	return list
}

// otherTools are the kinds of tools, besides functions, that the agent runs.
var otherTools = []string{"shell", "local_shell", "apply_patch", "computer", "tool_search"}

// otherCall returns the call of a tool that is not a function.
func otherCall(c *Call) obj {
	o := obj{"type": c.Tool + "_call", "call_id": c.ID}
	does := obj{"type": c.Name, "args": c.value()}
	switch c.Tool {
	case "tool_search":
		o["arguments"], o["execution"] = does, "client"
	case "apply_patch":
		o["operation"] = does
	case "shell":
		o["action"], o["environment"] = does, obj{"type": "local"}
	default:
		o["action"] = does
	}
	return o
}

func otherOutput(r *Reply) obj {
	o := obj{"type": r.Tool + "_call_output", "call_id": r.ID}
	switch r.Tool {
	case "tool_search":
		o["type"], o["execution"], o["tools"] = "tool_search_output", "client", []obj{{"type": "function", "name": "found", "parameters": schema}}
	case "apply_patch":
		o["status"] = "completed"
	case "shell":
		o["output"] = []obj{{"stdout": r.Text, "stderr": "", "outcome": obj{"type": "exit", "exit_code": 0}}}
	case "computer":
		o["output"] = obj{"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}
	default:
		o["output"] = r.Text
	}
	return o
}

func responsesAnswer(r *request, m *Message, e ending) (string, []byte) {
	output := items(m, true)
	done := obj{"id": "resp_" + r.id, "object": "response", "model": r.model, "status": "completed", "output": output, "usage": obj{"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}}
	last := "response.completed"
	if e == lengthCut {
		done["status"], done["incomplete_details"] = "incomplete", obj{"reason": "max_output_tokens"}
		output[len(output)-1]["status"] = "incomplete"
		last = "response.incomplete"
	}
	if !r.stream {
		return "application/json", marshal(done)
	}
	var b sse
	n := 0
	send := func(name string, data obj) {
		data["type"], data["sequence_number"] = name, n
		n++
		b.event(name, data)
	}
	send("response.created", obj{"response": obj{"id": "resp_" + r.id, "object": "response", "model": r.model, "status": "in_progress", "output": []obj{}}})
	for i, o := range output {
		began := maps.Clone(o)
		began["status"] = "in_progress"
		id, of := o["id"], func(k string, v any) obj { return obj{"item_id": o["id"], "output_index": i, k: v} }
		switch o["type"] {
		case "function_call":
			began["arguments"] = ""
			send("response.output_item.added", obj{"output_index": i, "item": began})
			text := o["arguments"].(string)
			for _, p := range pieces(text, 20) {
				send("response.function_call_arguments.delta", of("delta", p))
			}
			if e == streamCut && i == len(output)-1 {
				break
			}
			send("response.function_call_arguments.done", of("arguments", text))
		case "message":
			began["content"] = []obj{}
			send("response.output_item.added", obj{"output_index": i, "item": began})
			send("response.content_part.added", obj{"item_id": id, "output_index": i, "content_index": 0, "part": obj{"type": "output_text", "text": "", "annotations": []obj{}}})
			for _, p := range pieces(m.Text, 40) {
				send("response.output_text.delta", obj{"item_id": id, "output_index": i, "content_index": 0, "delta": p})
			}
			send("response.output_text.done", obj{"item_id": id, "output_index": i, "content_index": 0, "text": m.Text})
		default:
			send("response.output_item.added", obj{"output_index": i, "item": began})
		}
		if e == streamCut && i == len(output)-1 {
			return "text/event-stream", []byte(b.String())
		}
		send("response.output_item.done", obj{"output_index": i, "item": o})
	}
	send(last, obj{"response": done})
	return "text/event-stream", []byte(b.String())
}
