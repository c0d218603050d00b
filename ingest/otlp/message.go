package otlp

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/llmtap/llmtap/ingest/dialect"
)

type (
	message  = dialect.Message
	toolCall = dialect.Call
)

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
		return []message{{Role: "system", Text: &parts}}
	}
	return nil
}

// messageOf returns the messages in m: one, and one for each reply to a tool call.
func messageOf(m map[string]any, role string) (list []message) {
	one := message{Role: cmp.Or(word(m["role"]), role)}
	if id := word(m["tool_call_id"]); id != "" || one.Role == "tool" {
		one.ReplyTo, one.IsReply = id, true
	}
	parts, ok := m["parts"].([]any)
	if !ok {
		parts, _ = m["content"].([]any)
	}
	if s, ok := m["content"].(string); ok {
		one.Text = &s
	}
	for _, p := range parts[:min(len(parts), maxParts)] {
		part, ok := p.(map[string]any)
		if !ok {
			continue
		}
		switch word(part["type"]) {
		case "tool_call", "tool-call", "tool_use", "function_call":
			one.Calls = append(one.Calls, toolCall{
				ID:   word(first(part, "id", "toolCallId", "call_id")),
				Name: word(first(part, "name", "toolName")),
				Args: jsonOf(first(part, "arguments", "args", "input")),
			})
		case "tool_call_response", "tool-result", "tool_result", "function_call_output":
			reply := message{Role: "tool", ReplyTo: word(first(part, "id", "toolCallId", "tool_use_id", "call_id")), IsReply: true}
			if s := jsonOf(first(part, "response", "result", "output", "content")); s != "" {
				reply.Text = &s
			}
			list = append(list, reply)
		default:
			if s, ok := first(part, "content", "text").(string); ok {
				addText(&one, s)
			}
		}
	}
	one.Calls = append(one.Calls, callsOf(m["tool_calls"])...)
	if len(list) == 0 || one.Text != nil || len(one.Calls) > 0 {
		list = append(list, one)
	}
	return list
}

func addText(m *message, s string) {
	if m.Text != nil {
		s = *m.Text + "\n" + s
	}
	m.Text = &s
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
			calls = append(calls, toolCall{ID: word(c["id"]), Name: word(f["name"]), Args: jsonOf(f["arguments"])})
			continue
		}
		calls = append(calls, toolCall{
			ID: word(first(c, "id", "toolCallId")), Name: word(first(c, "name", "toolName")), Args: jsonOf(first(c, "arguments", "args", "input")),
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
	m := message{Role: "assistant", Calls: calls}
	if ok {
		addText(&m, text.AsString())
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
				c.ID = v.AsString()
			case "name":
				c.Name = v.AsString()
			case "arguments":
				c.Args = v.AsString()
			}
			continue
		}
		switch field {
		case "role":
			m.Role = v.AsString()
			m.IsReply = m.IsReply || m.Role == "tool"
		case "content":
			s := v.AsString()
			m.Text = &s
		case "tool_call_id":
			m.ReplyTo, m.IsReply = v.AsString(), true
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(calls), func(x, y [2]int) int { return cmp.Or(x[0]-y[0], x[1]-y[1]) }) {
		found[at[0]].Calls = append(found[at[0]].Calls, *calls[at])
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
