package otlp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// A message is a message of a request or an answer. A reply to a tool call is a message of its own.
type message struct {
	role    string
	text    *string // nil if it was not captured
	calls   []toolCall
	replyTo string // tool call id; "" if the message is no reply
	isReply bool
}

// A toolCall is a call in a message. Its arguments are JSON, or "" if they were not captured.
type toolCall struct{ id, name, args string }

// Limits of what is read from one span.
const (
	maxMessages = 4096
	maxParts    = 4096
)

// messagesOf returns the messages of a request and of its answer. Instrumentations write them in one of several places.
func messagesOf(a attrs, events []spanEvent) (input, output []message) {
	sources := []func() (in, out []message){
		func() (in, out []message) {
			in = append(systemOf(a["gen_ai.system_instructions"]), listOf(a["gen_ai.input.messages"])...)
			return in, listOf(a["gen_ai.output.messages"])
		},
		func() (in, out []message) { return indexed(a, "gen_ai.prompt."), indexed(a, "gen_ai.completion.") },
		func() (in, out []message) { return indexed(a, "llm.prompts."), indexed(a, "llm.completions.") },
		func() (in, out []message) {
			return indexed(a, "llm.input_messages."), indexed(a, "llm.output_messages.")
		},
		func() (in, out []message) { return listOf(a["ai.prompt.messages"]), vercelAnswer(a) },
		func() (in, out []message) { return eventMessages(events) },
	}
	for _, source := range sources {
		in, out := source()
		if len(input) == 0 {
			input = in
		}
		if len(output) == 0 {
			output = out
		}
	}
	return input[:min(len(input), maxMessages)], output[:min(len(output), maxMessages)]
}

// value returns an attribute as JSON decodes it. Structured values are sent as JSON in a string, or as arrays and maps.
func value(v pcommon.Value) any {
	if v == (pcommon.Value{}) {
		return nil
	}
	if v.Type() != pcommon.ValueTypeStr {
		return v.AsRaw()
	}
	var decoded any
	if json.Unmarshal([]byte(v.Str()), &decoded) != nil {
		return v.Str()
	}
	return decoded
}

// listOf returns the messages in a list of messages of the semantic conventions, of OpenAI or of the Vercel AI SDK.
func listOf(v pcommon.Value) (list []message) {
	elements, _ := value(v).([]any)
	for _, e := range elements[:min(len(elements), maxMessages)] {
		if m, ok := e.(map[string]any); ok {
			list = append(list, messageOf(m, "")...)
		}
	}
	return list
}

// systemOf returns the message with the system instructions, which the semantic conventions keep apart.
func systemOf(v pcommon.Value) []message {
	switch parts := value(v).(type) {
	case []any:
		return messageOf(map[string]any{"parts": parts}, "system")
	case string:
		return []message{{role: "system", text: &parts}}
	}
	return nil
}

// messageOf returns the messages in m: one, and one for each reply to a tool call.
func messageOf(m map[string]any, role string) (list []message) {
	one := message{role: cmp.Or(word(m["role"]), role)}
	if id := word(m["tool_call_id"]); id != "" || one.role == "tool" {
		one.replyTo, one.isReply = id, true
	}
	parts, ok := m["parts"].([]any)
	if !ok {
		parts, _ = m["content"].([]any)
	}
	if s, ok := m["content"].(string); ok {
		one.text = &s
	}
	for _, p := range parts[:min(len(parts), maxParts)] {
		part, ok := p.(map[string]any)
		if !ok {
			continue
		}
		switch word(part["type"]) {
		case "tool_call", "tool-call", "tool_use", "function_call":
			one.calls = append(one.calls, toolCall{
				word(first(part, "id", "toolCallId", "call_id")), word(first(part, "name", "toolName")), jsonOf(first(part, "arguments", "args", "input")),
			})
		case "tool_call_response", "tool-result", "tool_result", "function_call_output":
			reply := message{role: "tool", replyTo: word(first(part, "id", "toolCallId", "tool_use_id", "call_id")), isReply: true}
			if s := jsonOf(first(part, "response", "result", "output", "content")); s != "" {
				reply.text = &s
			}
			list = append(list, reply)
		default:
			if s, ok := first(part, "content", "text").(string); ok {
				one.append(s)
			}
		}
	}
	one.calls = append(one.calls, callsOf(m["tool_calls"])...)
	if len(list) == 0 || one.text != nil || len(one.calls) > 0 {
		list = append(list, one)
	}
	return list
}

func (m *message) append(s string) {
	if m.text != nil {
		s = *m.text + "\n" + s
	}
	m.text = &s
}

// callsOf returns the calls in a list of OpenAI's tool calls.
func callsOf(v any) (calls []toolCall) {
	if s, ok := v.(string); ok {
		_ = json.Unmarshal([]byte(s), &v) // v stays a string if this fails
	}
	elements, _ := v.([]any)
	for _, e := range elements[:min(len(elements), maxParts)] {
		c, ok := e.(map[string]any)
		if !ok {
			continue
		}
		if f, ok := c["function"].(map[string]any); ok {
			calls = append(calls, toolCall{word(c["id"]), word(f["name"]), jsonOf(f["arguments"])})
			continue
		}
		calls = append(calls, toolCall{
			word(first(c, "id", "toolCallId")), word(first(c, "name", "toolName")), jsonOf(first(c, "arguments", "args", "input")),
		})
	}
	return calls
}

func vercelAnswer(a attrs) []message {
	calls := callsOf(value(a["ai.response.toolCalls"]))
	text, ok := a["ai.response.text"]
	if !ok && len(calls) == 0 {
		return nil
	}
	m := message{role: "assistant", calls: calls}
	if ok {
		m.append(text.AsString())
	}
	return []message{m}
}

// indexed returns the messages in attributes such as gen_ai.prompt.0.content and
// llm.input_messages.0.message.tool_calls.1.tool_call.function.name.
func indexed(a attrs, prefix string) []message {
	found := map[int]*message{}
	calls := map[[2]int]*toolCall{}
	for key, v := range a {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		n, field, ok := index(rest)
		if !ok {
			continue
		}
		m := found[n]
		if m == nil {
			m = &message{}
			found[n] = m
		}
		field = strings.TrimPrefix(field, "message.")
		if rest, ok := strings.CutPrefix(field, "tool_calls."); ok {
			i, member, ok := index(rest)
			if !ok {
				continue
			}
			c := calls[[2]int{n, i}]
			if c == nil {
				c = &toolCall{}
				calls[[2]int{n, i}] = c
			}
			switch strings.TrimPrefix(strings.TrimPrefix(member, "tool_call."), "function.") {
			case "id":
				c.id = v.AsString()
			case "name":
				c.name = v.AsString()
			case "arguments":
				c.args = v.AsString()
			}
			continue
		}
		switch field {
		case "role":
			m.role = v.AsString()
			m.isReply = m.isReply || m.role == "tool"
		case "content":
			s := v.AsString()
			m.text = &s
		case "tool_call_id":
			m.replyTo, m.isReply = v.AsString(), true
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(calls), func(x, y [2]int) int { return cmp.Or(x[0]-y[0], x[1]-y[1]) }) {
		found[at[0]].calls = append(found[at[0]].calls, *calls[at])
	}
	var list []message
	for _, n := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[n])
	}
	return list
}

// index splits "12.role" into 12 and "role".
func index(s string) (n int, rest string, ok bool) {
	digits, rest, ok := strings.Cut(s, ".")
	n, err := strconv.Atoi(digits)
	return n, rest, ok && err == nil && n >= 0 && n < maxMessages
}

// A spanEvent is an event of a span.
type spanEvent struct {
	name  string
	attrs attrs
}

// eventMessages returns the messages in the events of a span: one event per message, or one event with all of them.
func eventMessages(events []spanEvent) (input, output []message) {
	for _, e := range events {
		switch e.name {
		case "gen_ai.client.inference.operation.details":
			input = append(append(input, systemOf(e.attrs["gen_ai.system_instructions"])...), listOf(e.attrs["gen_ai.input.messages"])...)
			output = append(output, listOf(e.attrs["gen_ai.output.messages"])...)
		case "gen_ai.content.prompt":
			input = append(input, listOf(e.attrs["gen_ai.prompt"])...)
		case "gen_ai.content.completion":
			output = append(output, listOf(e.attrs["gen_ai.completion"])...)
		case "gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message", "gen_ai.choice":
			m := map[string]any{}
			for k, v := range e.attrs {
				if m[k] = v.AsRaw(); k == "message" || k == "content" {
					m[k] = value(v)
				}
			}
			if inner, ok := m["message"].(map[string]any); ok {
				maps.Copy(m, inner)
			}
			role := strings.TrimSuffix(strings.TrimPrefix(e.name, "gen_ai."), ".message")
			if role == "tool" {
				m["tool_call_id"] = m["id"]
			}
			if role == "gen_ai.choice" || role == "choice" {
				output = append(output, messageOf(m, "assistant")...)
			} else {
				input = append(input, messageOf(m, role)...)
			}
		}
	}
	return input, output
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

// first returns the first member of m that is not null.
func first(m map[string]any, names ...string) any {
	for _, name := range names {
		if v := m[name]; v != nil {
			return v
		}
	}
	return nil
}

// jsonOf returns v as text: a string as it is, any other value as JSON; null as "".
func jsonOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
