package facts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestScanCohereResponse(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		if want.Content == String {
			want.ContentHash, want.ContentBytes = xxh3.HashString(text), len(text)
		}
		must.Agree(t, cmp.Diff(want, answerIn(t, wire.Cohere, "", body), cmpopts.EquateEmpty()), body)
	}
	f(`{"id":"i","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"\u0061"},{"type":"text","text":"b"}],
		"citations":[{"text":"c"}]},"usage":{"billed_units":{"input_tokens":7,"output_tokens":8},"tokens":{"input_tokens":70,"output_tokens":80},"cached_tokens":5}}`, "ab",
		Response{ID: "i", Content: String, Reasoning: String, FinishReason: "COMPLETE", InputTokens: 70, OutputTokens: 80, CachedTokens: 5, CacheReported: true, Choices: 1})
	calls := []ResponseCall{
		{ID: "f_1", Name: "f", Arguments: `{"a":1}`, ArgsKind: String, Args: ArgsObject},
		{ID: "g_1", Name: "g", Arguments: `{}`, ArgsKind: String, Args: ArgsObject},
	}
	f(`{"id":"i","message":{"tool_plan":"I call f.","tool_calls":[{"id":"f_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
		{"id":"g_1","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"TOOL_CALL","usage":{"billed_units":{"input_tokens":7}}}`, "",
		Response{ID: "i", FinishReason: "TOOL_CALL", InputTokens: 7, Choices: 1, Calls: calls})

	// Errors: the message is a string.
	for _, body := range []string{`{"id":"i","message":"invalid api token"}`, `{"message":"unknown field: parameter 'index' is not a valid field"}`} {
		if r := answerIn(t, wire.Cohere, "", body); string(r.Error) != body || r.Malformed || r.Cut {
			t.Errorf("%s: %+v", body, r)
		}
	}
	f(`{"error":{"code":1}}`, "", Response{Error: []byte(`{"code":1}`)})
	f(`{"choices":[]}`, "", Response{Error: []byte(`{"choices":[]}`), Malformed: true})
	f(`<html>`, "", Response{Error: []byte(`<html>`), Malformed: true})
	f(`{"message":{"content":[{"text":"long te`, "", Response{Choices: 1, Cut: true, Malformed: true})

	event := func(typ, rest string) string {
		return "event: " + typ + "\ndata: {\"type\":\"" + typ + "\"" + rest + "}\n\n"
	}
	start := event("message-start", `,"id":"i","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}`)
	text := event("content-start", `,"index":0,"delta":{"message":{"content":{"type":"thinking","thinking":""}}}`) +
		event("content-delta", `,"index":0,"delta":{"message":{"content":{"thinking":"hm"}}}`) + event("content-end", `,"index":0`) +
		event("content-start", `,"index":1,"delta":{"message":{"content":{"type":"text","text":""}}}`) +
		event("content-delta", `,"index":1,"delta":{"message":{"content":{"text":"a"}}}`) +
		event("citation-start", `,"index":0,"delta":{"message":{"citations":{"start":0,"text":"x"}}}`) +
		event("content-delta", `,"index":1,"delta":{"message":{"content":{"text":"\u0062"}}}`) + event("content-end", `,"index":1`)
	end := event("message-end", `,"delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":3,"output_tokens":4}}}`)
	spoken := Response{ID: "i", Content: String, Reasoning: String, FinishReason: "COMPLETE", InputTokens: 3, OutputTokens: 4, Choices: 1}
	f(start+text+end, "ab", spoken)
	f(start+text+end+"data: [DONE]\n\n", "ab", spoken)
	f(start+text, "ab", Response{ID: "i", Content: String, Reasoning: String, Choices: 1, Cut: true})
	f(start+text+`data: {"type":"content-de`, "ab", Response{ID: "i", Content: String, Reasoning: String, Choices: 1, Cut: true})

	called := event("tool-plan-delta", `,"delta":{"message":{"tool_plan":"I"}}`) +
		`data: {"delta":{"message":{"tool_calls":{"id":"f_1","type":"function","function":{"name":"f","arguments":""}}}},"index":0,"type":"tool-call-start"}` + "\n\n" +
		event("tool-call-delta", `,"index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{\"a\":"}}}}`) +
		event("tool-call-delta", `,"index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"1}"}}}}`) + event("tool-call-end", `,"index":0`) +
		event("tool-call-start", `,"index":1,"delta":{"message":{"tool_calls":{"id":"g_1","type":"function","function":{"name":"g","arguments":"{}"}}}}`) +
		event("tool-call-end", `,"index":1`)
	f(start+called+event("message-end", `,"delta":{"finish_reason":"TOOL_CALL"}`), "",
		Response{ID: "i", Content: Null, FinishReason: "TOOL_CALL", Choices: 1, Calls: calls})
	f(start+event("message-end", `,"delta":{"finish_reason":"ERROR","error":"overloaded"}`), "",
		Response{ID: "i", Content: Null, FinishReason: "ERROR", Choices: 1, Error: []byte(`"overloaded"`)})
	f(start+event("message-end", `,"delta":{"finish_reason":"TIMEOUT"}`), "",
		Response{ID: "i", Content: Null, FinishReason: "TIMEOUT", Choices: 1, Error: []byte(`"TIMEOUT"`)})
}

// A request of Cohere is read like one of chat completions.
func TestScanCohereRequest(t *testing.T) {
	body := `{"model":"command-a","messages":[{"role":"user","content":"q"},{"role":"assistant","tool_plan":"p","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c","content":[{"type":"document","document":{"data":"x"}}]}]}`
	var f Request
	must.Do(t, ScanRequest(wire.Cohere, []byte(body), &f))
	m := f.Messages
	if len(m) != 3 || m[1].Fields != FieldToolPlan || len(m[1].Calls) != 1 || len(m[2].Replies) != 1 || m[2].Replies[0].Parts != PartFile {
		t.Errorf("%+v", m)
	}
}

// Recorded answers of Cohere, and their texts in the following requests.
func TestScanRecordedCohere(t *testing.T) {
	var n, streams, withCalls int
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		e := must.JSON[exchange](t, line)
		if e.API != "cohere.chat" || !strings.Contains(e.URL, "/v2/chat") {
			return
		}
		n++
		var f Request
		if err := ScanRequest(wire.Cohere, e.Request, &f); err != nil || len(f.Messages) == 0 {
			t.Errorf("%s: %v, %d messages", e.ID, err, len(f.Messages))
		}
		r := answerIn(t, wire.Cohere, "", string(e.body(t)))
		if r.Malformed || r.Cut || r.BadIndex || (len(r.Error) > 0) != (e.Status >= 400) {
			t.Errorf("%s: %+v", e.ID, r)
		}
		if e.Status < 400 && (r.FinishReason == "" || r.InputTokens == 0 || r.Content != String && len(r.Calls) == 0) {
			t.Errorf("%s: %+v", e.ID, r)
		}
		for _, c := range r.Calls {
			if c.ID == "" || c.Name == "" || c.Args != ArgsObject && c.Args != ArgsEmpty {
				t.Errorf("%s: call %+v", e.ID, c)
			}
		}
		if e.Stream {
			streams++
		}
		if len(r.Calls) > 0 {
			withCalls++
		}
	})
	t.Logf("%d answers, %d streams, %d with calls", n, streams, withCalls)
}
