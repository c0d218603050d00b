package analyzer_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// said reports whether the model wrote an element of a history.
func (c *recorded) said(i int) bool {
	var m struct{ Role, Type string }
	if json.Unmarshal(c.Messages[i], &m) != nil {
		return false
	}
	return m.Role == "assistant" || m.Type == "function_call" || m.Type == "custom_tool_call" || m.Type == "reasoning"
}

// answer returns the answer with this turn, in the dialect of the conversation.
func (c *recorded) answer(turn []json.RawMessage, id string) []byte {
	switch c.Format {
	case "openai.responses":
		return body(msg{"id": id, "object": "response", "status": "completed", "model": c.Model, "output": turn})
	case "anthropic.messages":
		var m struct{ Content json.RawMessage }
		if json.Unmarshal(turn[0], &m) != nil {
			return nil
		}
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			m.Content = body([]msg{{"type": "text", "text": text}})
		}
		return body(msg{"id": id, "type": "message", "role": "assistant", "model": c.Model, "content": m.Content, "stop_reason": "end_turn"})
	}
	return body(msg{"id": id, "model": c.Model, "choices": []msg{{"index": 0, "message": turn[0], "finish_reason": "stop"}}})
}

// play returns the conversation turn by turn: for each turn of the model, the history before it is the request and the turn
// the answer.
func (c *recorded) play(exchange func(url string, request, answer []byte)) {
	for i := 0; i < len(c.Messages); i++ {
		if i == 0 || !c.said(i) {
			continue
		}
		end := i + 1
		for c.Format == "openai.responses" && end < len(c.Messages) && c.said(end) {
			end++
		}
		url, b := c.request(i)
		exchange(url, b, c.answer(c.Messages[i:end], fmt.Sprintf("r%d", i)))
		i = end - 1
	}
}

// Every recorded conversation is played turn by turn in its own dialect, once with an id and once without. Its agent sent
// answers back unchanged, so no root cause may be found.
func TestRecordedConversationsHaveNoRootCause(t *testing.T) {
	played, turns := map[string]int{}, 0
	unknown, repeated := 0, 0
	recordedConversations(t, func(n int, c *recorded) {
		if testing.Short() && n%7 > 0 {
			return
		}
		for _, id := range []string{"given", ""} {
			s := newStream(id)
			calls := 0
			c.play(func(url string, request, answer []byte) {
				id := s.exchange()
				s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: request})
				s.response(id, 200, answer)
				calls++
			})
			if calls == 0 {
				continue
			}
			played[c.Format]++
			turns += calls
			out := run(t, analyzer.Default(), s.steps)
			for _, f := range out.Findings {
				switch f.RootCause {
				case "":
				case "unknown_no_history":
					unknown++
				case "duplicate_id_from_model":
					repeated++ // the recording itself has two answers with one id, and the agent sent them back as they were
				default:
					t.Errorf("line %d (%s, conversation %q): %s %s: %s: %s", n, c.Format, id, f.Rule, f.ToolCallID, f.RootCause, f.Evidence)
				}
			}
		}
	})
	t.Logf("played, with and without an id: %v; %d turns; %d findings whose history is not known, %d of ids that the model gave twice", played, turns, unknown, repeated)
}
