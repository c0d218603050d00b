package rules

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// accepted judges requests that a provider has answered with 200, and counts.
type accepted struct {
	checker  *check.Checker
	requests map[wire.Dialect]int
	replies  int // requests with a tool reply
	lenient  map[string]int
}

func newAccepted() *accepted {
	return &accepted{checker: check.NewChecker(All), requests: map[wire.Dialect]int{}, lenient: map[string]int{}}
}

func (a *accepted) judge(t *testing.T, id string, target wire.Target, body []byte) {
	t.Helper()
	r := scan(t, target, body)
	target = target.WithModel(string(r.Model))
	a.requests[target.Dialect]++
	for i := range r.Messages {
		if len(r.Messages[i].Replies) > 0 {
			a.replies++
			break
		}
	}
	for _, v := range a.checker.Check(r, target, nil) {
		if v.Predicted != check.Reject {
			a.lenient[v.Rule.ID]++
			continue
		}
		t.Errorf("%s (%s) was accepted: %s", id, targetName(target), say(v))
	}
}

// TestAcceptedExchanges: no rule expects a rejection of a recorded request that a provider accepted, without exception.
func TestAcceptedExchanges(t *testing.T) {
	a := newAccepted()
	other := 0
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		var x struct {
			ID, URL string
			Status  int
			Request json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &x), "decode exchange")
		if x.Status/100 != 2 || len(x.Request) == 0 || x.Request[0] != '{' {
			return
		}
		target := facts.Detect(x.URL, "", x.Request)
		if target.Dialect == wire.Other {
			other++
			return
		}
		a.judge(t, x.ID, target, x.Request)
	})
	t.Logf("accepted: %v, %d of them with replies, and %d of other APIs; findings that are no rejections: %v", a.requests, a.replies, other, a.lenient)
}

// TestAcceptedConversations: nor of a recorded conversation.
func TestAcceptedConversations(t *testing.T) {
	dialects := map[string]wire.Dialect{
		"openai.chat": wire.OpenAIChat, "openai.responses": wire.OpenAIResponses, "anthropic.messages": wire.Anthropic,
	}
	a := newAccepted()
	recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
		var x struct {
			ID, Format, URL, Model string
			Status                 int
			Messages               []json.RawMessage
			Tools, System          json.RawMessage
			Sent                   *int            `json:"n_request"` // how many of Messages were sent; the rest is the answer
			Previous               json.RawMessage `json:"previous_response_id"`
			Conversation           json.RawMessage `json:"conversation_state"`
		}
		must.Do(t, json.Unmarshal(line, &x), "decode conversation")
		dialect, ok := dialects[x.Format]
		if !ok || x.Status != 0 && x.Status/100 != 2 {
			return
		}
		n := len(x.Messages)
		if x.Sent != nil {
			n = *x.Sent
		} else if n > 0 && strings.Contains(string(x.Messages[n-1]), `"tool_calls"`) {
			n-- // a log that ends in the model's answer: its calls are not sent yet
		}
		body := map[string]any{"model": x.Model}
		for key, v := range map[string]json.RawMessage{"tools": x.Tools, "system": x.System, "previous_response_id": x.Previous, "conversation": x.Conversation} {
			if len(v) > 0 {
				body[key] = v
			}
		}
		if dialect == wire.OpenAIResponses {
			body["input"] = x.Messages[:n]
		} else {
			body["messages"] = x.Messages[:n]
		}
		b := must.Get(json.Marshal(body))(t)
		// Without a URL it is judged as the first variant of its dialect, the strictest.
		target := wire.Target{Dialect: dialect, Variant: dialect.Variants()[0]}
		if x.URL != "" {
			target.Variant = facts.Detect(x.URL, x.Model, nil).Variant
		}
		a.judge(t, x.ID, target, b)
	})
	t.Logf("accepted: %v, %d of them with replies; findings that are no rejections: %v", a.requests, a.replies, a.lenient)
}
