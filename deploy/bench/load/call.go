// Package load makes LLM calls as hooks publish them, for measurements: single calls, and those of a fleet of agents.
package load

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// A Call is one LLM call.
type Call struct {
	ID                string // of the exchange
	Labels            event.Labels
	Instance          string // process that makes the call
	URL               string
	Status            int
	Request, Response []byte
	ResponseType      string
	At                time.Time // start
	Duration          time.Duration
}

// Size returns the size of both bodies.
func (c *Call) Size() int { return len(c.Request) + len(c.Response) }

// A Workload yields calls.
type Workload struct {
	Name  string
	Calls func(yield func(*Call) bool) error
}

// An Object is a JSON object.
type Object = map[string]any

const openAI = "https://api.openai.com/v1/chat/completions"

// tools are the same in all calls of Chat, as are those of an agent.
var tools = []Object{
	{"type": "function", "function": Object{"name": "read_file", "description": "Read a file of the repository.", "parameters": Object{
		"type": "object", "properties": Object{"path": Object{"type": "string", "description": "Path from the root of the repository."}}, "required": []string{"path"},
	}}},
	{"type": "function", "function": Object{"name": "write_file", "description": "Replace a file of the repository.", "parameters": Object{
		"type": "object", "properties": Object{"path": Object{"type": "string"}, "content": Object{"type": "string"}}, "required": []string{"path", "content"},
	}}},
}

// toolsJSON ends every request of Chat.
var toolsJSON = Marshal(tools)

// Chat returns a call with a history that was answered.
func Chat(labels event.Labels, messages []json.RawMessage, answer json.RawMessage) *Call {
	var history []byte
	for i, m := range messages { // not by json.Marshal, which would check the histories again
		if i > 0 {
			history = append(history, ',')
		}
		history = append(history, m...)
	}
	return &Call{
		ID: NewID(), Labels: labels, Instance: "bench", URL: openAI, Status: 200, At: time.Now(), Duration: 900 * time.Millisecond,
		Request: chatRequest(history, toolsJSON), Response: ChatResponse(answer), ResponseType: "application/json",
	}
}

// chatRequest returns a request with the messages in history, which are separated by commas.
func chatRequest(history, tools []byte) []byte {
	const head, middle, end = `{"model":"gpt-4.1","messages":[`, `],"temperature":0.2`, `}`
	body := make([]byte, 0, len(head)+len(history)+len(middle)+len(tools)+len(end)+16)
	body = append(append(append(body, head...), history...), middle...)
	if len(tools) > 0 {
		body = append(append(body, `,"tools":`...), tools...)
	}
	return append(body, end...)
}

// ChatResponse returns the body of a response with an answer.
func ChatResponse(answer json.RawMessage) []byte {
	return Marshal(Object{
		"id": "chatcmpl-" + NewID(), "object": "chat.completion", "created": time.Now().Unix(), "model": "gpt-4.1-2025-04-14",
		"choices": []Object{{"index": 0, "message": answer, "finish_reason": finish(answer)}},
		"usage":   Object{"prompt_tokens": 2000, "completion_tokens": 90, "total_tokens": 2090},
	})
}

func finish(answer json.RawMessage) string {
	if strings.Contains(string(answer), `"tool_calls"`) {
		return "tool_calls"
	}
	return "stop"
}

// Message returns a message with a text.
func Message(role, content string) json.RawMessage {
	return Marshal(Object{"role": role, "content": content})
}

// Marshal returns the JSON of texts and numbers.
func Marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return b
}

// NewID returns a new id of an exchange.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("no randomness: " + err.Error())
	}
	return id.String()
}

// Events returns the two events that a hook publishes of c. seq counts the events of the instance.
func (c *Call) Events(seq *uint64) []*event.Event {
	return []*event.Event{c.requestEvent(seq), c.responseEvent(seq)}
}

// requestEvent returns the event that a hook publishes when it sends the request.
func (c *Call) requestEvent(seq *uint64) *event.Event {
	e := c.event(seq)
	e.Kind, e.Time, e.URL, e.Method, e.Body, e.ContentType = event.Request, c.At, c.URL, "POST", c.Request, "application/json"
	return e
}

// responseEvent returns the event that a hook publishes when the response has ended.
func (c *Call) responseEvent(seq *uint64) *event.Event {
	e := c.event(seq)
	e.Kind, e.Time, e.Status, e.Duration, e.Body, e.ContentType = event.Response, c.At.Add(c.Duration), c.Status, c.Duration, c.Response, c.ResponseType
	return e
}

func (c *Call) event(seq *uint64) *event.Event {
	*seq++
	return &event.Event{
		Exchange: c.ID, Labels: c.Labels, Capture: event.CaptureFull, Origin: event.OriginHook, Instance: c.Instance, Seq: *seq, SDK: "bench/1",
	}
}
