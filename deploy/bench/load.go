package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/recorded"
)

// A call is one LLM call to send.
type call struct {
	id, conversation  string
	url               string
	status            int
	request, response []byte
	responseType      string
	at                time.Time
}

// size returns the size of both bodies.
func (c *call) size() int { return len(c.request) + len(c.response) }

// A workload yields calls.
type workload struct {
	name  string
	calls func(yield func(*call) bool) error
}

type object = map[string]any

// tools are the same in all calls, as are those of an agent.
var tools = []object{
	{"type": "function", "function": object{"name": "read_file", "description": "Read a file of the repository.", "parameters": object{
		"type": "object", "properties": object{"path": object{"type": "string", "description": "Path from the root of the repository."}}, "required": []string{"path"},
	}}},
	{"type": "function", "function": object{"name": "write_file", "description": "Replace a file of the repository.", "parameters": object{
		"type": "object", "properties": object{"path": object{"type": "string"}, "content": object{"type": "string"}}, "required": []string{"path", "content"},
	}}},
}

const prompt = `You are a careful engineer who works on a large repository. Read the files that a change concerns before you edit them.
Make the smallest change that solves the task, keep to the style of the file, and explain in one sentence what you changed and why.
Never invent a path: list the directory first. If a test fails, read its output to the end before you change anything.
`

// single returns calls that no other call repeats: a prompt and a message, about size bytes in all.
func single(text *corpus, name string, size, n int) workload {
	return workload{name, func(yield func(*call) bool) error {
		for i := range n {
			messages := []json.RawMessage{message("system", prompt), message("user", text.next(size-len(prompt)-1800))}
			c := chat(fmt.Sprintf("single-%s-%d", name, i), messages, message("assistant", text.next(400)))
			if !yield(c) {
				break
			}
		}
		return nil
	}}
}

// turns returns conversations in which an agent reads files: each turn repeats the history and adds a call, its reply of some
// kilobytes, and the next answer. Eight conversations are in progress at the same time.
func turns(text *corpus, name string, length, conversations int) workload {
	const atOnce = 8
	return workload{name, func(yield func(*call) bool) error {
		for first := 0; first < conversations; first += atOnce {
			histories := make([][]json.RawMessage, min(atOnce, conversations-first))
			for turn := range length {
				for i := range histories {
					h := &histories[i]
					if turn == 0 {
						*h = []json.RawMessage{message("system", prompt), message("user", text.next(800))}
					}
					id := fmt.Sprintf("call_%d_%d_%d", first, i, turn)
					answer := marshal(object{"role": "assistant", "content": text.next(200), "tool_calls": []object{
						{"id": id, "type": "function", "function": object{"name": "read_file", "arguments": `{"path":"` + id + `.go"}`}},
					}})
					if !yield(chat(fmt.Sprintf("%s-%d", name, first+i), *h, answer)) {
						return nil
					}
					*h = append(*h, answer, marshal(object{"role": "tool", "tool_call_id": id, "content": text.next(4500)}))
				}
			}
		}
		return nil
	}}
}

// replay returns recorded exchanges, in passes with conversations of their own.
func replay(file string, passes int) workload {
	return workload{"replay", func(yield func(*call) bool) error {
		for pass := range passes {
			if err := replayOnce(file, pass, yield); err != nil {
				return err
			}
		}
		return nil
	}}
}

func replayOnce(file string, pass int, yield func(*call) bool) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // used for reading only
	r, err := recorded.NewReader(f, recorded.Config{Service: "bench"})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		x, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if _, skipped := errors.AsType[*recorded.RecordError](err); skipped {
			continue
		}
		if err != nil {
			return err
		}
		c := &call{
			id: newID(), url: x.Request.URL, status: x.Response.Status, request: bytes.Clone(x.Request.Body), response: bytes.Clone(x.Response.Body),
			responseType: x.Response.ContentType, at: time.Now(),
		}
		if x.Request.Labels.Conversation != "" {
			c.conversation = fmt.Sprintf("%d-%s", pass, x.Request.Labels.Conversation)
		}
		if !yield(c) {
			return nil
		}
	}
}

// toolsJSON ends every request.
var toolsJSON = marshal(tools)

func chat(conversation string, messages []json.RawMessage, answer json.RawMessage) *call {
	const head, middle, end = `{"model":"gpt-4.1","messages":`, `,"temperature":0.2,"tools":`, `}`
	body := append([]byte(head), '[')
	for i, m := range messages { // not by json.Marshal, which would check the histories again
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, m...)
	}
	body = append(append(append(append(body, ']'), middle...), toolsJSON...), end...)
	return &call{
		id: newID(), conversation: conversation, url: "https://api.openai.com/v1/chat/completions", status: 200, at: time.Now(), responseType: "application/json",
		request: body,
		response: marshal(object{
			"id": "chatcmpl-" + newID(), "object": "chat.completion", "created": time.Now().Unix(), "model": "gpt-4.1-2025-04-14",
			"choices": []object{{"index": 0, "message": answer, "finish_reason": finish(answer)}},
			"usage":   object{"prompt_tokens": 2000, "completion_tokens": 90, "total_tokens": 2090},
		}),
	}
}

func finish(answer json.RawMessage) string {
	if strings.Contains(string(answer), `"tool_calls"`) {
		return "tool_calls"
	}
	return "stop"
}

func message(role, content string) json.RawMessage {
	return marshal(object{"role": role, "content": content})
}

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error()) // texts and numbers only
	}
	return b
}

func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("no randomness: " + err.Error())
	}
	return id.String()
}

// events returns the two events that a hook publishes of c. seq counts the events of the process.
func (c *call) events(seq *uint64) []*event.Event {
	base := event.Event{
		Exchange: c.id, Capture: event.CaptureFull, Origin: event.OriginHook, Instance: "bench", SDK: "bench/1",
		Labels: event.Labels{Service: "coder", ServiceVersion: "1.4.2", Environment: "bench", Agent: "coder", Stage: "edit", Conversation: c.conversation},
	}
	q, s := base, base
	q.Kind, q.Time, q.URL, q.Method, q.Body, q.ContentType = event.Request, c.at, c.url, "POST", c.request, "application/json"
	s.Kind, s.Time, s.Status, s.Duration, s.Body, s.ContentType = event.Response, c.at.Add(900*time.Millisecond), c.status, 900*time.Millisecond, c.response, c.responseType
	*seq += 2
	q.Seq, s.Seq = *seq-1, *seq
	return []*event.Event{&q, &s}
}
