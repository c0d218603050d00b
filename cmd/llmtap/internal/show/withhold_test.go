package show

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/dashboards/stored"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// No text of a message, a request or an answer remains, but roles, ids and names of tools do.
func TestWithhold(t *testing.T) {
	messages := map[wire.Dialect]string{}
	for _, d := range wire.Dialects {
		secret, call := "SECRET", dialect.Call{ID: "call_1", Name: "read", Args: `{"SECRET":"SECRET","a":[1,"SECRET"]}`}
		all := dialect.Of(d).Answered(dialect.Message{Text: &secret, Calls: []dialect.Call{call}})
		b := must.Get(json.Marshal(all[len(all)-1]))(t)
		messages[d] = string(b)
	}
	w := NewWithholder()
	for _, d := range wire.Dialects {
		e := &Exchange{Exchange: stored.Exchange{Dialect: string(d), Capture: event.CaptureFull}}
		got := w.message(e, messages[d])
		if strings.Contains(got, "SECRET") || !strings.Contains(got, `"call_1"`) || !strings.Contains(got, `"read"`) || strings.Contains(got, `"`+d.Descriptor().Messages+`":`) {
			t.Errorf("%s: %s", d, got)
		}
		member := d.Descriptor().Messages
		whole := &Exchange{
			Exchange: stored.Exchange{Dialect: string(d), Capture: event.CaptureFull}, Messages: []string{messages[d], ""},
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
		e := &Exchange{Exchange: stored.Exchange{Dialect: string(d), Capture: event.CaptureFull}}
		for _, body := range []string{`SECRET`, `{"role":"user","content":"SECRET"`, `"SECRET"`, `{"role":"user","content":"SECRET"}]}SECRET`, `{"x":{"SECRET":["SECRET"]}}`} {
			for _, got := range []string{w.message(e, body), w.request(e, body), w.answer(e, body)} {
				if strings.Contains(got, "SECRET") {
					t.Errorf("%s: %s becomes %s", d, body, got)
				}
			}
		}
	}
	var none *Withholder
	shaped := &Exchange{Exchange: stored.Exchange{Dialect: string(wire.OpenAIChat), Capture: event.CaptureShape}}
	if m := messages[wire.OpenAIChat]; w.message(shaped, m) != m || none.message(&Exchange{}, m) != m {
		t.Error("a shape changes, or a message without a Withholder")
	}
}
