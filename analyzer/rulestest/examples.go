package rulestest

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An Example is a request body of the specification that breaks a rule, and one that does not.
type Example struct {
	Rule             string
	Dialect          string // in the words of the specification
	Target           wire.Target
	Expect           []string // rules that Violating breaks
	Violating, Fixed []byte
}

// Examples returns the examples of the specification in the dialects of their targets, or skips the test if it is not there.
func Examples(t testing.TB) (all []Example) {
	t.Helper()
	var examples []struct {
		Rule, Dialect    string
		Expect           []string
		Violating, Fixed json.RawMessage
	}
	ReadJSON(t, "examples.json", &examples)
	for _, e := range examples {
		x := Example{e.Rule, e.Dialect, TargetsOf(e.Dialect)[0], e.Expect, e.Violating, e.Fixed}
		if e.Dialect == "bedrock" { // the specification writes these in the shape of chat completions
			x.Violating, x.Fixed = converse(t, e.Violating), converse(t, e.Fixed)
		}
		var r facts.Request
		must.Do(t, facts.ScanRequest(x.Target.Dialect, x.Violating, &r), e.Rule)
		x.Target.Model = string(r.Model)
		all = append(all, x)
	}
	return all
}

// TargetsOf returns the targets that a word of the specification names.
func TargetsOf(word string) (ts []wire.Target) {
	add := func(d wire.Dialect, vs ...wire.Variant) {
		for _, v := range vs {
			ts = append(ts, wire.Target{Dialect: d, Variant: v})
		}
	}
	switch word {
	case "responses", "openai_responses":
		add(wire.OpenAIResponses, wire.OpenAI, wire.Azure)
	case "azure_responses":
		add(wire.OpenAIResponses, wire.Azure)
	case "deepseek_responses":
		add(wire.OpenAIResponses, wire.DeepSeekResponses)
	case "vertex", "vertex_gemini":
		add(wire.Gemini, wire.VertexGemini)
	case "ollama_native":
		ts = []wire.Target{{Dialect: wire.OpenAIChat, Variant: wire.Ollama, Native: true}}
	case "style", "openai_chat":
		add(wire.OpenAIChat, wire.OpenAI)
	case "deepseek_thinking":
		add(wire.OpenAIChat, wire.DeepSeek)
	default:
		if d := wire.DialectNamed(word); d != "" {
			add(d, slices.DeleteFunc(slices.Clone(d.Variants()), func(v wire.Variant) bool { return v == wire.OtherVariant })...)
		} else if v := wire.Variant(word); v != wire.OtherVariant && slices.Contains(wire.OpenAIChat.Variants(), v) {
			add(wire.OpenAIChat, v)
		}
	}
	return ts
}

// converse makes a Converse body of one in the shape of chat completions, in which the specification writes its
// examples for Bedrock. A system message becomes the system prompt.
func converse(t testing.TB, chat []byte) []byte {
	t.Helper()
	var in struct {
		Messages []struct {
			Role, Content string
			ToolCallID    string `json:"tool_call_id"`
			ToolCalls     []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct{ Function struct{ Name string } }
	}
	must.Do(t, json.Unmarshal(chat, &in), "decode example")
	row, messages := dialect.Of(wire.DialectNamed("bedrock")), []dialect.Object{}
	for i := range in.Messages {
		m := &in.Messages[i]
		said := dialect.Message{Role: m.Role, IsReply: m.Role == "tool", ReplyTo: m.ToolCallID}
		if m.Content != "" {
			said.Text = &m.Content
		}
		for _, c := range m.ToolCalls {
			said.Calls = append(said.Calls, dialect.Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
		messages = append(messages, row.Message(&said, false)...)
	}
	out := dialect.Object{"messages": messages}
	if in.Tools != nil {
		tools := []dialect.Object{}
		for _, f := range in.Tools {
			tools = append(tools, dialect.Object{"toolSpec": dialect.Object{"name": f.Function.Name, "inputSchema": dialect.Object{"json": dialect.Object{}}}})
		}
		out["toolConfig"] = dialect.Object{"tools": tools}
	}
	b := must.Get(json.Marshal(out))(t)
	return b
}

// ReadJSON decodes a file of the specification, or skips the test where it is absent.
func ReadJSON(t testing.TB, name string, v any) {
	t.Helper()
	b := must.Get(os.ReadFile(recordedtest.Shared(t, "spec", name)))(t)
	must.Do(t, json.Unmarshal(b, v), "decode", name)
}
