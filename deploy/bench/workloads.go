package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/ingest/recorded"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const prompt = `You are a careful engineer who works on a large repository. Read the files that a change concerns before you edit them.
Make the smallest change that solves the task, keep to the style of the file, and explain in one sentence what you changed and why.
Never invent a path: list the directory first. If a test fails, read its output to the end before you change anything.
`

// coder returns the labels of the calls of a conversation.
func coder(conversation string) event.Labels {
	return event.Labels{Service: "coder", ServiceVersion: "1.4.2", Environment: "bench", Agent: "coder", Stage: "edit", Conversation: conversation}
}

// single returns calls that no other call repeats: a prompt and a message, about size bytes in all.
func single(text *corpus, name string, size, n int) load.Workload {
	return load.Workload{Name: name, Calls: func(yield func(*load.Call) bool) error {
		for i := range n {
			messages := []json.RawMessage{load.Message("system", prompt), load.Message("user", text.next(size-len(prompt)-1800))}
			c := load.Chat(coder(fmt.Sprintf("single-%s-%d", name, i)), messages, load.Message("assistant", text.next(400)))
			if !yield(c) {
				break
			}
		}
		return nil
	}}
}

// turns returns conversations in which an agent reads files: each turn repeats the history and adds a call, its reply of some
// kilobytes, and the next answer. Eight conversations are in progress at the same time.
func turns(text *corpus, name string, length, conversations int) load.Workload {
	const atOnce = 8
	return load.Workload{Name: name, Calls: func(yield func(*load.Call) bool) error {
		for first := 0; first < conversations; first += atOnce {
			histories := make([][]json.RawMessage, min(atOnce, conversations-first))
			for turn := range length {
				for i := range histories {
					h := &histories[i]
					if turn == 0 {
						*h = []json.RawMessage{load.Message("system", prompt), load.Message("user", text.next(800))}
					}
					id := fmt.Sprintf("call_%d_%d_%d", first, i, turn)
					answer := load.Marshal(load.Object{"role": "assistant", "content": text.next(200), "tool_calls": []load.Object{
						{"id": id, "type": "function", "function": load.Object{"name": "read_file", "arguments": `{"path":"` + id + `.go"}`}},
					}})
					if !yield(load.Chat(coder(fmt.Sprintf("%s-%d", name, first+i)), *h, answer)) {
						return nil
					}
					*h = append(*h, answer, load.Marshal(load.Object{"role": "tool", "tool_call_id": id, "content": text.next(4500)}))
				}
			}
		}
		return nil
	}}
}

// replay returns recorded exchanges, in passes with conversations of their own.
func replay(file string, passes int) load.Workload {
	return load.Workload{Name: "replay", Calls: func(yield func(*load.Call) bool) error {
		for pass := range passes {
			if err := replayOnce(file, pass, yield); err != nil {
				return err
			}
		}
		return nil
	}}
}

func replayOnce(file string, pass int, yield func(*load.Call) bool) error {
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
		c := &load.Call{
			ID: load.NewID(), Labels: coder(""), Instance: "bench", URL: x.Request.URL, Status: x.Response.Status, Request: bytes.Clone(x.Request.Body),
			Response: bytes.Clone(x.Response.Body), ResponseType: x.Response.ContentType, At: time.Now(), Duration: 900 * time.Millisecond,
		}
		if x.Request.Labels.Conversation != "" {
			c.Labels.Conversation = fmt.Sprintf("%d-%s", pass, x.Request.Labels.Conversation)
		}
		if !yield(c) {
			return nil
		}
	}
}

// fleet returns n calls of a fleet of agents.
func fleet(name string, n int) load.Workload {
	return load.Workload{Name: name, Calls: func(yield func(*load.Call) bool) error {
		f := load.NewFleet(load.FleetConfig{Seed: 1, Shape: load.Mix, Services: 20, Environment: "bench"})
		f.Agents(200)
		for left := n; left > 0; {
			if c, _ := f.Next(); c == nil {
				continue
			} else if left--; !yield(c) {
				return nil
			}
		}
		return nil
	}}
}
