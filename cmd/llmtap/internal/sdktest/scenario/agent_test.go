package scenario

import (
	"encoding/json"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// Building blocks of agents without bugs: the bugs are in the loops.

// A msg is a message of a history, as the SDK sends it.
type msg = openai.ChatCompletionMessageParamUnion

type call = openai.ChatCompletionMessageToolCallUnion

func start(task string) []msg {
	return []msg{openai.SystemMessage("You are a careful assistant."), openai.UserMessage(task)}
}

func user(text string) msg { return openai.UserMessage(text) }

// run runs the tool of c.
func run(c call) string {
	return fmt.Sprintf("%s did %s for %s", c.Function.Name, c.Function.Arguments, c.ID)
}

// reply returns the tool message for c.
func reply(c call) msg { return openai.ToolMessage(run(c), c.ID) }

// replies returns the tool messages for all calls of m.
func replies(m openai.ChatCompletionMessage) (list []msg) {
	for _, c := range m.ToolCalls {
		list = append(list, reply(c))
	}
	return list
}

// turn returns m and the replies to all its calls.
func turn(m openai.ChatCompletionMessage) []msg { return append([]msg{m.ToParam()}, replies(m)...) }

// row is a message in a database or a framework.
type row = map[string]any

// raw returns a message that is sent unchanged.
func raw(v any) msg {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return param.Override[msg](json.RawMessage(b))
}

// load returns a message as a row, as code that stores JSON does.
func load(m any) row {
	b, err := json.Marshal(m)
	if r, ok := m.(interface{ RawJSON() string }); ok && r.RawJSON() != "" {
		b = []byte(r.RawJSON())
	}
	var v row
	if err != nil || json.Unmarshal(b, &v) != nil {
		panic("BUG: no message")
	}
	return v
}

// assistant returns an assistant message with these calls.
func assistant(calls ...call) msg {
	m := row{"role": "assistant", "content": ""}
	var list []any
	for _, c := range calls {
		list = append(list, row{"id": c.ID, "type": "function", "function": row{"name": c.Function.Name, "arguments": c.Function.Arguments}})
	}
	m["tool_calls"] = list
	return raw(m)
}

// assemble joins the chunks of a stream as the SDK does.
func assemble(chunks []openai.ChatCompletionChunk) openai.ChatCompletionMessage {
	var acc openai.ChatCompletionAccumulator
	for _, c := range chunks {
		acc.AddChunk(c)
	}
	if len(acc.Choices) == 0 {
		return openai.ChatCompletionMessage{}
	}
	return acc.Choices[0].Message
}

// Answers of models.

// calls returns an answer that calls these tools.
func calls(names ...string) provider.Answer {
	var s provider.Answer
	for i, name := range names {
		s.Calls = append(s.Calls, provider.Call{Name: name, Arguments: fmt.Sprintf(`{"path":"file_%d.go"}`, i+1)})
	}
	return s
}

// text returns an answer without calls.
func text(s string) provider.Answer { return provider.Answer{Text: s} }

// times returns the same answer n times.
func times(n int, s provider.Answer) (list []provider.Answer) {
	for range n {
		list = append(list, s)
	}
	return list
}
