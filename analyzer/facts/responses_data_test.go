package facts

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

func TestResponsesRecordedRequests(t *testing.T) {
	var f Request
	var n, items, calls, replies int
	exchanges(t, "openai.responses", func(e *exchange) {
		checkResponses(t, &f, e.Request)
		if len(f.Model) == 0 || f.MessagesKind != Array && f.MessagesKind != String || f.MessagesKind == Array && len(f.Messages) == 0 {
			t.Errorf("%s: model %q, input %v", e.ID, f.Model, f.MessagesKind)
		}
		n++
		items += len(f.Messages)
		for _, m := range f.Messages {
			if m.Fields != 0 && e.Status == 200 {
				t.Errorf("%s: the provider accepted %q", e.ID, m.OtherField)
			}
			if m.Item == ItemMessage && m.Role == RoleNone || m.Parts&(PartBad|PartOther) != 0 {
				t.Errorf("%s: %+v", e.ID, m)
			}
			for _, c := range m.Calls {
				if calls++; c.Args != ArgsObject || len(c.ID) == 0 || len(c.Name) == 0 {
					t.Errorf("%s: call %+v", e.ID, c)
				}
			}
			replies += len(m.Replies)
		}
	})
	t.Logf("%d requests, %d items, %d calls, %d replies", n, items, calls, replies)
}

// A refItems is a response object decoded with encoding/json.
type refItems struct {
	done              map[string]string // encrypted contents of a stream's done events, by item id
	ID, Model, Status string
	Output            []struct {
		ID, Type, Name, Arguments string
		CallID                    string `json:"call_id"`
		Encrypted                 string `json:"encrypted_content"`
		Content                   []struct{ Type, Text string }
	}
	Usage struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
}

// readItems decodes a recorded answer, of a stream the last event.
func readItems(t *testing.T, e *exchange, body []byte) (a refItems) {
	t.Helper()
	var err error
	if !e.Stream {
		err = json.Unmarshal(body, &a)
	}
	done := make(map[string]string)
	for event := range sse.Events(body) {
		if e.Stream && !bytes.HasPrefix(event.Data, []byte("[DONE]")) {
			var last struct {
				Type     string
				Item     struct{ ID, Type, Encrypted string }
				Response refItems
			}
			err = json.Unmarshal(bytes.Replace(event.Data, []byte(`"encrypted_content"`), []byte(`"encrypted"`), 1), &last)
			if last.Type == "response.output_item.done" && last.Item.Type == "reasoning" {
				done[last.Item.ID] = last.Item.Encrypted
			}
			if last.Type == "response.completed" {
				err = json.Unmarshal(event.Data, &last)
			}
			a = last.Response
		}
	}
	must.Do(t, err, e.ID)
	a.done = done
	return a
}

func checkRecordedItems(t *testing.T, e *exchange, r *Response, want refItems, isCut bool) (calls int) {
	t.Helper()
	if r.Malformed || r.Cut || r.BadIndex || len(r.Error) > 0 || r.Choices != 1 {
		t.Errorf("%s: %+v", e.ID, r)
	}
	if r.ID != want.ID || r.Model != want.Model || r.FinishReason != want.Status || r.Model == "" || r.FinishReason == "" {
		t.Errorf("%s: %+v, want %+v", e.ID, r, want)
	}
	if r.InputTokens != want.Usage.Input || r.OutputTokens != want.Usage.Output || r.CachedTokens != want.Usage.Details.Cached || r.InputTokens == 0 {
		t.Errorf("%s: usage %+v, want %+v", e.ID, r, want.Usage)
	}
	var text strings.Builder
	signed := 0
	for _, o := range want.Output {
		switch o.Type {
		case "message":
			text.Reset()
			for _, p := range o.Content {
				text.WriteString(p.Text)
			}
		case "function_call":
			if calls == len(r.Calls) {
				t.Fatalf("%s: %d calls", e.ID, calls)
			}
			c := r.Calls[calls]
			if c.ID != o.CallID || c.Name != o.Name || c.Arguments != o.Arguments || c.Args != ArgsObject {
				t.Errorf("%s: call %+v, want %+v", e.ID, c, o)
			}
			calls++
		case "reasoning":
			s, text := Signed{ID: o.ID}, o.Encrypted
			if done, ok := want.done[o.ID]; ok && isCut {
				text = done
			} else if ok && done != text {
				text = ""
			}
			if text != "" {
				s.Hash = xxh3.HashString(text)
			}
			if signed == len(r.Signed) || r.Signed[signed] != s {
				t.Errorf("%s: signed %+v, want %+v", e.ID, r.Signed, s)
			}
			signed++
		}
	}
	if calls != len(r.Calls) || signed != len(r.Signed) {
		t.Errorf("%s: %d calls, %d signed; want %d, %d", e.ID, len(r.Calls), len(r.Signed), calls, signed)
	}
	if text.Len() > 0 && (r.Content != String || r.ContentBytes != text.Len() || r.ContentHash != xxh3.HashString(text.String())) {
		t.Errorf("%s: content %v of %d bytes, want %q", e.ID, r.Content, r.ContentBytes, text.String())
	}
	return calls
}

func TestResponsesRecordedAnswers(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var unary, streams, calls, failed int
	exchanges(t, "openai.responses", func(e *exchange) {
		var r Response
		body := e.body(t)
		must.Do(t, ScanResponse(wire.OpenAIResponses, "", body, &r), e.ID)
		if e.Status != 200 {
			if failed++; len(r.Error) == 0 || r.Malformed {
				t.Errorf("%s: %+v", e.ID, r)
			}
			return
		}
		want := readItems(t, e, body)
		calls += checkRecordedItems(t, e, &r, want, false)
		if !e.Stream {
			unary++
			return
		}
		streams++
		// Without its last event a stream has the same items and is cut.
		at := bytes.LastIndex(body, []byte("\n\nevent: response.completed"))
		if at < 0 {
			at = bytes.LastIndex(body[:bytes.LastIndex(body, []byte("response.completed"))], []byte("\n\n"))
		}
		var cut Response
		must.Do(t, ScanResponse(wire.OpenAIResponses, "", body[:at], &cut), e.ID)
		if !cut.Cut || cut.FinishReason != "" || cut.ID != r.ID || cut.Model != r.Model {
			t.Errorf("%s: cut: %+v", e.ID, cut)
		}
		cut.Cut, cut.FinishReason, cut.InputTokens = false, r.FinishReason, r.InputTokens
		cut.OutputTokens, cut.CachedTokens = r.OutputTokens, r.CachedTokens
		checkRecordedItems(t, e, &cut, want, true)
		// A cut anywhere is reported, keeps the model and makes no additional call.
		for at := 0; at < len(body)-20; at += 1 + len(body)/97 {
			if err := ScanResponse(wire.OpenAIResponses, "text/event-stream", body[:at], &cut); err != nil || !cut.Cut && !cut.Malformed || len(cut.Calls) > len(r.Calls) {
				t.Errorf("%s: cut at %d: %v, %+v", e.ID, at, err, cut)
			}
		}
	})
	t.Logf("%d unary answers, %d streams, %d failures; %d calls", unary, streams, failed, calls)
}

// responsesSession is agentSession as items.
func responsesSession(tb testing.TB, size int, seed uint64) []byte {
	tb.Helper()
	chat := decodedSession(tb, size, seed)
	var b bytes.Buffer
	b.WriteString(`{"model":"gpt-5","stream":true,"store":false,"include":["reasoning.encrypted_content"],"input":[`)
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(seed%4 == 0)
	item := func(v map[string]any) {
		must.Do(tb, out.Encode(v))
		b.Truncate(b.Len() - 1)
		b.WriteByte(',')
	}
	for _, m := range chat.Messages {
		switch m.Role {
		case "tool":
			item(map[string]any{"type": "function_call_output", "call_id": m.ToolCallID, "output": m.Content})
			continue
		case "assistant":
			item(map[string]any{"type": "reasoning", "id": "rs_" + m.ToolCalls[0].ID, "summary": []any{}, "encrypted_content": strings.Repeat("gAAAAB", 50)})
			item(map[string]any{
				"type": "message", "id": "msg_" + m.ToolCalls[0].ID, "role": m.Role, "status": "completed",
				"content": []any{map[string]any{"type": "output_text", "text": m.Content, "annotations": []any{}}},
			})
		default:
			item(map[string]any{"role": m.Role, "content": m.Content})
		}
		for _, c := range m.ToolCalls {
			item(map[string]any{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Function.Name, "arguments": c.Function.Arguments, "status": "completed"})
		}
	}
	b.WriteString(`{"role":"user","content":"go on"}]}`)
	return b.Bytes()
}
