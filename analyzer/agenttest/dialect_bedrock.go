package agenttest

import (
	"math/rand/v2"
	"net/url"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

var bedrock = Dialect{
	Name: "bedrock", Wire: wire.Bedrock, HasIDs: true, model: "anthropic.claude-3-5-haiku-20241022-v1:0",
	url: func(r *request) string {
		method := "converse"
		if r.stream {
			method = "converse-stream"
		}
		return "https://bedrock-runtime.us-east-1.amazonaws.com/model/" + url.PathEscape(r.model) + "/" + method
	},
	body:   bedrockBody,
	answer: bedrockAnswer,
	callID: func(rnd *rand.Rand) string { return "tooluse_" + random(rnd, alphanumeric, 22) },
	refusals: map[defect]string{
		orphan:    "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.",
		missing:   "Expected toolResult blocks at messages.2.content for the following Ids: tooluse_1",
		duplicate: "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous turn.",
	},
	refusal: func(text string) obj { return obj{"message": text} },
}

func bedrockBody(r *request) obj {
	list := []obj{}
	for i := range r.messages {
		m := &r.messages[i]
		o := m.fill(obj{"role": m.Role, "content": bedrockBlocks(m)})
		if m.Role == "tool" {
			o["role"] = "user"
		}
		list = append(list, o)
	}
	b := obj{"messages": list, "inferenceConfig": obj{"maxTokens": 4096}}
	if r.system != "" {
		b["system"] = []obj{{"text": r.system}}
	}
	if len(r.tools) > 0 {
		config := obj{"tools": tools(r, func(name string) obj {
			return obj{"toolSpec": obj{"name": name, "inputSchema": obj{"json": schema}}}
		})}
		if r.force != "" {
			config["toolChoice"] = obj{"tool": obj{"name": r.force}}
		}
		b["toolConfig"] = config
	}
	return b
}

func bedrockBlocks(m *Message) []obj {
	list := []obj{}
	for _, reply := range m.Replies {
		o := obj{"toolUseId": reply.ID, "content": []obj{{"text": reply.Text}}}
		if reply.NoID {
			delete(o, "toolUseId")
		}
		list = append(list, obj{"toolResult": o})
	}
	if m.Text != "" || m.Role != "tool" && len(m.Calls) == 0 {
		list = append(list, obj{"text": m.Text})
	}
	for range m.Files {
		list = append(list, obj{"image": obj{"format": "png", "source": obj{"bytes": "iVBORw0KGgo="}}})
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		o := obj{"toolUseId": c.ID, "name": c.Name, "input": c.value()}
		if c.OtherKind {
			o["input"] = c.text()
		}
		if c.ID == "" {
			delete(o, "toolUseId")
		}
		list = append(list, obj{"toolUse": o})
	}
	if m.Cache {
		list = append(list, obj{"cachePoint": obj{"type": "default"}})
	}
	return list
}

func bedrockAnswer(r *request, m *Message, e ending) (string, []byte) {
	stop := "end_turn"
	switch {
	case e == lengthCut:
		stop = "max_tokens"
	case len(m.Calls) > 0:
		stop = "tool_use"
	}
	parts, usage := bedrockBlocks(m), obj{"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}
	if !r.stream {
		return "application/json", marshal(obj{
			"output": obj{"message": obj{"role": "assistant", "content": parts}}, "stopReason": stop, "usage": usage, "metrics": obj{"latencyMs": 500},
		})
	}
	var b []byte
	send := func(name string, data obj) {
		b = eventstream.Append(b, eventstream.Message{Type: []byte("event"), EventType: []byte(name), ContentType: []byte("application/json"), Payload: marshal(data)})
	}
	send("messageStart", obj{"role": "assistant"})
	for i, part := range parts {
		if call, ok := part["toolUse"].(obj); ok {
			send("contentBlockStart", obj{"contentBlockIndex": i, "start": obj{"toolUse": obj{"toolUseId": call["toolUseId"], "name": call["name"]}}})
			for _, p := range pieces(string(marshal(call["input"])), 20) {
				send("contentBlockDelta", obj{"contentBlockIndex": i, "delta": obj{"toolUse": obj{"input": p}}})
			}
		} else {
			for _, p := range pieces(m.Text, 40) {
				send("contentBlockDelta", obj{"contentBlockIndex": i, "delta": obj{"text": p}})
			}
		}
		send("contentBlockStop", obj{"contentBlockIndex": i})
	}
	if e != streamCut {
		send("messageStop", obj{"stopReason": stop})
		send("metadata", obj{"usage": usage, "metrics": obj{"latencyMs": 500}})
	}
	return "application/vnd.amazon.eventstream", b
}
