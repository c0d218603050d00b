package show

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// No text of a message, a request or an answer remains, but roles, ids and names of tools do.
func TestWithhold(t *testing.T) {
	messages := map[wire.Dialect]string{
		wire.OpenAIChat:      `{"role":"assistant","content":"SECRET","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"SECRET\":\"SECRET\"}"}}]}`,
		wire.OpenAIResponses: `{"type":"function_call","call_id":"call_1","name":"read","arguments":"{\"SECRET\":1}"}`,
		wire.Anthropic:       `{"role":"assistant","content":[{"type":"text","text":"SECRET"},{"type":"tool_use","id":"call_1","name":"read","input":{"SECRET":"SECRET"}}]}`,
		wire.Gemini:          `{"role":"model","parts":[{"text":"SECRET"},{"functionCall":{"id":"call_1","name":"read","args":{"SECRET":"SECRET"}}}]}`,
		wire.Bedrock:         `{"role":"assistant","content":[{"text":"SECRET"},{"toolUse":{"toolUseId":"call_1","name":"read","input":{"SECRET":1}}}]}`,
		wire.Cohere:          `{"role":"assistant","content":"SECRET","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"a\":\"SECRET\"}"}}]}`,
	}
	w := NewWithholder()
	for _, d := range wire.Dialects {
		e := &Exchange{Dialect: string(d), Capture: event.CaptureFull}
		got := w.message(e, messages[d])
		if strings.Contains(got, "SECRET") || !strings.Contains(got, `"call_1"`) || !strings.Contains(got, `"read"`) || strings.Contains(got, `"`+d.Descriptor().Messages+`":`) {
			t.Errorf("%s: %s", d, got)
		}
		member := d.Descriptor().Messages
		whole := &Exchange{
			Dialect: string(d), Capture: event.CaptureFull, Messages: []string{messages[d], ""},
			Parameters: fmt.Sprintf(`{"model":"m","%s":[],"tools":[{"description":"SECRET"}]}`, member), Answer: `{"x":"SECRET"}`,
		}
		w.apply(whole)
		if text := fmt.Sprint(whole.Messages, whole.Parameters, whole.Answer); strings.Contains(text, "SECRET") || whole.Messages[1] != "" {
			t.Errorf("%s: %s", d, text)
		}
		if _, ok := whole.Body(); ok {
			t.Errorf("%s: a body without texts can be sent", d)
		}
	}
	for _, d := range []wire.Dialect{wire.OpenAIChat, wire.Other, ""} {
		e := &Exchange{Dialect: string(d), Capture: event.CaptureFull}
		for _, body := range []string{`SECRET`, `{"role":"user","content":"SECRET"`, `"SECRET"`, `{"role":"user","content":"SECRET"}]}SECRET`, `{"x":{"SECRET":["SECRET"]}}`} {
			for _, got := range []string{w.message(e, body), w.request(e, body), w.answer(e, body)} {
				if strings.Contains(got, "SECRET") {
					t.Errorf("%s: %s becomes %s", d, body, got)
				}
			}
		}
	}
	var none *Withholder
	shaped := &Exchange{Dialect: string(wire.OpenAIChat), Capture: event.CaptureShape}
	if m := messages[wire.OpenAIChat]; w.message(shaped, m) != m || none.message(&Exchange{}, m) != m {
		t.Error("a shape changes, or a message without a Withholder")
	}
}
