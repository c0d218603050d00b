package facts

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

func TestAnthropicAnswer(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.Anthropic, "", body, text, want)
	}
	f(`{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}],
		"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":4}}`,
		"a\nb", Response{ID: "msg_1", Model: "claude", Content: String, FinishReason: "end_turn", InputTokens: 123, CachedTokens: 100, CacheWritten: 20, CacheReported: true, OutputTokens: 4, Choices: 1})
	f(`{"type":"message","content":[]}`, "", Response{Content: Null, Choices: 1})
	f(`{"type":"message","content":"a"}`, "a", Response{Content: String, Choices: 1})
	f(`{"type":"message","content":7}`, "", Response{Content: Number, ContentBytes: 1, Choices: 1})
	f(`{"type":"message","content":null,"stop_reason":null,"error":null}`, "", Response{Content: Null, Choices: 1})
	f(`{"type":"message"}`, "", Response{Choices: 1})
	// Calls; an input of another type is a fact.
	f(`{"type":"message","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"a": 1},"caller":{"type":"direct"}},
		{"input":"{\"a\":","type":"tool_use"},{"type":"tool_use","id":"","name":"g","input":[]},{"type":"tool_use","id":"x"}],"stop_reason":"tool_use"}`, "", Response{
		Content: Null, FinishReason: "tool_use", Choices: 1, Calls: []ResponseCall{
			{ID: "toolu_1", Name: "f", Arguments: `{"a": 1}`, ArgsKind: Object, Args: ArgsObject},
			{Arguments: `{"a":`, ArgsKind: String, Args: ArgsTruncated},
			{Name: "g", Arguments: `[]`, ArgsKind: Array},
			{ID: "x"},
		},
	})
	// The provider's own tools make no calls.
	f(`{"type":"message","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"text","text":"no"}]},
		{"type":"mcp_tool_use","id":"m","name":"f","input":{}},{"type":"text","text":"a","citations":[{"text":"no"}]}]}`, "a", Response{Content: String, Choices: 1, ServerUse: true})
	// Signatures as in Message.Signed.
	one, two := xxh3.HashString("s1"), xxh3.HashString("d\n")
	f(`{"type":"message","content":[{"type":"thinking","thinking":"t","signature":"s1"},{"type":"redacted_thinking","data":"d\n"}]}`, "", Response{
		Content: Null, Reasoning: String, Choices: 1, Signed: []Signed{{Hash: one<<1 | one>>63 ^ two, Thought: xxh3.HashString("t")}},
	})
	f(`{"type":"message","content":[{"type":"thinking","thinking":"t","signature":""},{"type":"thinking","thinking":"","signature":"~0:0123456789abcdef"}]}`, "", Response{Content: Null, Reasoning: String, Choices: 1})
}

func TestAnthropicAnswerErrors(t *testing.T) {
	f := func(body string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.Anthropic, "", body, "", want)
	}
	f(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`,
		Response{Error: []byte(`{"type":"overloaded_error","message":"Overloaded"}`)})
	f(`{"error":"no"}`, Response{Error: []byte(`"no"`)})
	f(`[{"error":{"code":400,"status":"INVALID_ARGUMENT"}}]`, Response{Error: []byte(`{"code":400,"status":"INVALID_ARGUMENT"}`)})
	f(`{"type":"error","message":"x"}`, Response{Error: []byte(`{"type":"error","message":"x"}`)})
	// Without an error member the body is the error's text.
	f(`{"message":"The security token is invalid."}`, Response{Error: []byte(`{"message":"The security token is invalid."}`), Malformed: true})
	f(`{"detail":"x","error":null}`, Response{Error: []byte(`{"detail":"x","error":null}`), Malformed: true})
	f(`{"choices":[]}`, Response{Error: []byte(`{"choices":[]}`), Malformed: true})
	f("<html>502</html>\n", Response{Error: []byte(`<html>502</html>`), Malformed: true})
	f("", Response{Malformed: true})
	f(`[7]`, Response{Error: []byte(`[7]`), Malformed: true})
	// Truncated and broken bodies.
	f(`{"type":"error","error":{"type":"api_error"`, Response{Error: []byte(`{"type":"api_error"`), Cut: true, Malformed: true})
	f(`{"type":"message","content":[{"type":"tool_use","id":"t","input":{`, Response{Content: Null, Cut: true, Malformed: true, Choices: 1})
	f(`{"type":"message","content":[]}x`, Response{Content: Null, Malformed: true, Choices: 1})
	if r := answerIn(t, wire.Anthropic, "text/event-stream; charset=utf-8", " \n"); !r.Cut || r.Malformed {
		t.Errorf("empty stream: %+v", r)
	}
	if r := answerIn(t, wire.Anthropic, "application/vnd.amazon.eventstream", ""); !r.Cut || r.Malformed {
		t.Errorf("empty frames: %+v", r)
	}
}

func TestAnthropicAnswerCutAnywhere(t *testing.T) {
	body := `{"id":"m","type":"message","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}],"stop_reason":"tool_use"}`
	for n := 1; n < len(body); n++ {
		if r := answerIn(t, wire.Anthropic, "", body[:n]); !r.Cut || len(r.Calls) > 0 && r.Calls[0].Arguments != `{"a":1}` {
			t.Errorf("%s: %+v", body[:n], r)
		}
	}
}

// anthropicBody returns the recorded answer as it was on the wire, and the events in its frames, if it has any.
func anthropicBody(t *testing.T, e *exchange) (body, events []byte) {
	t.Helper()
	body = e.body(t)
	if e.Encoding != "base64" {
		return body, body
	}
	body = must.Get(base64.StdEncoding.AppendDecode(nil, body))(t)
	for m, err := range eventstream.Messages(body) {
		must.Do(t, err)
		data := must.Get(base64.StdEncoding.DecodeString(parse(m.Payload).get("bytes").text))(t)
		events = append(append(append(events, "data: "...), data...), '\n')
	}
	return body, events
}

func TestAnthropicRecordedResponses(t *testing.T) {
	var unary, streams, frames, failed, calls, signed int
	anthropicExchanges(t, func(e *exchange) {
		body, events := anthropicBody(t, e)
		r := answerIn(t, wire.Anthropic, "", string(body))
		if e.Status >= 400 {
			if failed++; len(r.Error) == 0 || r.Choices != 0 || r.Cut {
				t.Errorf("%s: status %d: %+v of %s", e.ID, e.Status, r, body)
			}
			return
		}
		switch {
		case len(events) != len(body):
			frames++
		case e.Stream:
			streams++
		default:
			unary++
		}
		want := readAnthropicAnswer(t, events)
		if len(r.Error) > 0 || r.Malformed || r.Cut || r.BadIndex || r.Choices != 1 || r.ID != want.ID || r.Model != want.Model || r.FinishReason != want.Finish {
			t.Errorf("%s: %+v, want %+v", e.ID, r, want)
		}
		switch {
		case want.Text == nil && (r.Content != Null || r.ContentHash != 0 || r.ContentBytes != 0):
			t.Errorf("%s: content %d, %d bytes, want none", e.ID, r.Content, r.ContentBytes)
		case want.Text != nil && (r.Content != String || r.ContentHash != xxh3.HashString(*want.Text) || r.ContentBytes != len(*want.Text)):
			t.Errorf("%s: content %d, %d bytes, want %q", e.ID, r.Content, r.ContentBytes, *want.Text)
		}
		must.Agree(t, cmp.Diff(want.Calls, r.Calls, cmpopts.EquateEmpty()), e.ID, "calls (-reference +scan)")
		calls += len(r.Calls)
		if want.Signed != 0 {
			signed++
			if len(r.Signed) != 1 || r.Signed[0] != (Signed{Hash: want.Signed, Thought: want.Thought}) || r.Reasoning != String {
				t.Errorf("%s: signed %v, want %x", e.ID, r.Signed, want.Signed)
			}
		} else if len(r.Signed) > 0 {
			t.Errorf("%s: signed %v, want nothing", e.ID, r.Signed)
		}
		u := want.Usage
		if cached := u["cache_read_input_tokens"]; r.InputTokens != u["input_tokens"]+cached+u["cache_creation_input_tokens"] || r.CachedTokens != cached || r.OutputTokens != u["output_tokens"] {
			t.Errorf("%s: %d, %d and %d tokens of %v", e.ID, r.InputTokens, r.CachedTokens, r.OutputTokens, u)
		}
		if _, reported := u["cache_read_input_tokens"]; r.CacheReported != reported || r.CacheWritten != u["cache_creation_input_tokens"] {
			t.Errorf("%s: %v, %d tokens written of %v", e.ID, r.CacheReported, r.CacheWritten, u)
		}
	})
	t.Logf("%d unary, %d streams, %d in frames, %d calls, %d signed, %d failed", unary, streams, frames, calls, signed, failed)
}

// An answer that a client stores and sends back is recognised by its text and its signatures, unary or streamed.
func TestAnthropicAnswerIsRecognised(t *testing.T) {
	content := `[{"type":"thinking","thinking":"t","signature":"c2ln\/"},{"type":"text","text":"\u003cb>"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"\n\u4e2d"},{"type":"tool_use","id":"t","name":"f","input":{"a":[1]}}]`
	unary := answerIn(t, wire.Anthropic, "", `{"type":"message","content":`+content+`}`)
	stream := answerIn(t, wire.Anthropic, "", anthropicStream(
		start(0, `{"type":"thinking","thinking":"","signature":""}`), delta(0, `{"type":"thinking_delta","thinking":"t"}`), delta(0, `{"type":"signature_delta","signature":"c2ln/"}`),
		start(1, `{"type":"text","text":""}`), delta(1, `{"type":"text_delta","text":"<"}`), delta(1, `{"type":"text_delta","text":"b>"}`),
		start(2, `{"type":"redacted_thinking","data":"x"}`), start(3, `{"type":"text","text":"\n"}`), delta(3, `{"type":"text_delta","text":"中"}`),
		start(4, `{"type":"tool_use","id":"t","name":"f","input":{}}`), delta(4, `{"type":"input_json_delta","partial_json":"{\"a\":[1]}"}`),
	))
	var f Request
	must.Do(t, ScanMessages(wire.Anthropic, []byte(strings.ReplaceAll(`[{"role":"assistant","content":`+content+`}]`, `\/`, `/`)), &f))
	m := f.Messages[0]
	for _, r := range []Response{unary, stream} {
		if m.ContentHash != r.ContentHash || len(r.Signed) != 1 || r.Signed[0] != (Signed{Hash: m.Signed, Thought: m.Thought}) || m.Thought == 0 || len(r.Calls) != 1 || string(m.Calls[0].ID) != r.Calls[0].ID {
			t.Errorf("answer %+v, message %+v", r, m)
		}
	}
	must.Agree(t, cmp.Diff(unary.Calls, stream.Calls), "calls (-unary +stream)")
	must.Equal(t, string(m.Calls[0].Name), "f", "call")
}
