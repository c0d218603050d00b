package agenttest

import (
	"fmt"
	"math/rand/v2"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// The newer models give calls an id.
var gemini = Dialect{
	Name: "gemini+id", Wire: wire.Gemini, HasIDs: true, model: "gemini-2.5-flash", thinker: "gemini-3-pro-preview",
	url: geminiURL, body: geminiBody, answer: geminiAnswer,
	callID:   func(rnd *rand.Rand) string { return fmt.Sprint("call_", 10_000+rnd.IntN(9_000_000)) },
	refusals: geminiRefusals, refusal: geminiError,
}

var geminiNoIDs = Dialect{
	Name: "gemini", Wire: wire.Gemini, model: "gemini-2.5-flash", thinker: "gemini-3-pro-preview",
	url: geminiURL, body: geminiBody, answer: geminiAnswer,
	callID:   func(*rand.Rand) string { return "" },
	refusals: geminiRefusals, refusal: geminiError,
}

var geminiRefusals = map[defect]string{
	orphan:    "Please ensure that function response turn comes immediately after a function call turn.",
	missing:   "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
	duplicate: "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
}

func geminiError(text string) obj {
	return obj{"error": obj{"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}
}

func geminiURL(r *request) string {
	method := "generateContent"
	if r.stream {
		method = "streamGenerateContent"
	}
	return "https://generativelanguage.googleapis.com/v1beta/models/" + r.model + ":" + method
}

func geminiBody(r *request) obj {
	list := []obj{}
	for i := range r.messages {
		m := &r.messages[i]
		role := "user"
		if m.Role == "assistant" {
			role = "model"
		}
		list = append(list, m.fill(obj{"role": role, "parts": geminiParts(m)}))
	}
	b := obj{"contents": list}
	if r.system != "" {
		b["systemInstruction"] = obj{"parts": []obj{{"text": r.system}}}
	}
	if len(r.tools) > 0 {
		b["tools"] = []obj{{"functionDeclarations": tools(r, func(name string) obj { return obj{"name": name, "parameters": schema} })}}
	}
	if r.force != "" {
		b["toolConfig"] = obj{"functionCallingConfig": obj{"mode": "ANY", "allowedFunctionNames": []string{r.force}}}
	}
	return b
}

func geminiParts(m *Message) []obj {
	list := []obj{}
	for _, reply := range m.Replies {
		f := obj{"name": reply.Name, "response": obj{"result": reply.Text}}
		if reply.ID != "" {
			f["id"] = reply.ID
		}
		list = append(list, obj{"functionResponse": f})
	}
	for _, id := range m.Server {
		if !m.NoUse {
			list = append(list, obj{"toolCall": obj{"toolType": "GOOGLE_SEARCH_WEB", "id": id, "args": obj{"queries": []string{id}}}})
		}
		if !m.Paused {
			list = append(list, obj{"toolResponse": obj{"toolType": "GOOGLE_SEARCH_WEB", "id": id, "response": obj{}}})
		}
	}
	if m.Text != "" || m.Role != "tool" && len(m.Calls) == 0 {
		list = append(list, obj{"text": m.Text})
	}
	for range m.Files {
		list = append(list, obj{"inlineData": obj{"mimeType": "image/png", "data": "iVBORw0KGgo="}})
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		f := obj{"name": c.Name, "args": c.value()}
		if c.OtherKind {
			f["args"] = c.text()
		}
		if c.ID != "" {
			f["id"] = c.ID
		}
		part := obj{"functionCall": f}
		if c.Signature != "" {
			part["thoughtSignature"] = c.Signature
		}
		list = append(list, part)
	}
	return list
}

func geminiAnswer(r *request, m *Message, e ending) (string, []byte) {
	chunk := func(parts []obj, finish string) obj {
		candidate := obj{"content": obj{"role": "model", "parts": parts}, "index": 0}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		return obj{
			"candidates": []obj{candidate}, "modelVersion": r.model, "responseId": r.id,
			"usageMetadata": obj{"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
		}
	}
	parts, finish := geminiParts(m), "STOP"
	if e == lengthCut {
		finish = "MAX_TOKENS"
	}
	if !r.stream {
		return "application/json", marshal(chunk(parts, finish))
	}
	var b sse
	for _, part := range parts {
		if _, isText := part["text"]; isText {
			for _, p := range pieces(m.Text, 120) {
				b.event("", chunk([]obj{{"text": p}}, ""))
			}
			continue
		}
		b.event("", chunk([]obj{part}, ""))
	}
	if e != streamCut {
		b.event("", chunk([]obj{{"text": ""}}, finish))
	}
	return "text/event-stream", []byte(b.String())
}
