package collectortest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Exchange returns turn i%10 of conversation i/10: a request of about size bytes whose history ends in a tool reply, and its
// response.
func Exchange(i, size int) []*event.Event {
	type m = map[string]any
	messages := []m{{"role": "system", "content": strings.Repeat("You are a careful coding agent. ", 30)}}
	text := strings.Repeat("\tif err := run(ctx, \"a\\n\"); err != nil {\n\t\treturn err\n\t}\n", 20)
	for k, left := 0, size-1000; left > 0; k++ {
		id := fmt.Sprintf("call_%d_%d", i/10, k)
		messages = append(messages,
			m{"role": "assistant", "content": nil, "tool_calls": []m{{"id": id, "type": "function", "function": m{"name": "read_file", "arguments": `{"path":"a.go"}`}}}},
			m{"role": "tool", "tool_call_id": id, "content": text[:min(len(text), max(1, left))]})
		left -= len(text) + 300
	}
	request, _ := json.Marshal(m{"model": "gpt-4.1", "messages": messages})
	response := `{"id":"chatcmpl-1","model":"gpt-4.1","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"done with step ` +
		fmt.Sprint(i) + `"}}],"usage":{"prompt_tokens":2000,"completion_tokens":20}}`
	id, _ := uuid.NewV7()
	at := time.Unix(1_790_000_000, 0).Add(time.Duration(i) * time.Millisecond)
	base := event.Event{
		Exchange: id.String(), Time: at, Capture: event.CaptureFull, Origin: event.OriginHook, Instance: "bench", ContentType: "application/json",
		Labels: event.Labels{Service: "bench", ServiceVersion: "1.0.0", Stage: "planner", Conversation: fmt.Sprintf("conv-%d", i/10)},
	}
	q, s := base, base
	q.Kind, q.URL, q.Method, q.Body, q.Seq = event.Request, "https://api.openai.com/v1/chat/completions", "POST", request, uint64(2*i+1)
	s.Kind, s.Status, s.Duration, s.Body, s.Seq = event.Response, 200, 900*time.Millisecond, []byte(response), uint64(2*i+2)
	return []*event.Event{&q, &s}
}
