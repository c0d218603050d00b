package facts

import (
	"bytes"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// checkGeminiAnswer compares an answer's facts with want, and its content with text if want has a string.
func checkGeminiAnswer(t *testing.T, body, text string, want Response) {
	t.Helper()
	if want.ContentBytes = len(text); text != "" {
		want.Content, want.ContentHash = String, xxh3.HashString(text)
	}
	must.Agree(t, cmp.Diff(want, answerIn(t, wire.Gemini, "", body), cmpopts.EquateEmpty()), body)
}

// streamed makes both kinds of stream of chunks.
func streamed(chunks ...string) (events, array string) {
	for _, c := range chunks {
		events += "data: " + c + "\r\n\r\n"
	}
	return events, "[" + strings.Join(chunks, "\n,\r\n") + "\n]\n"
}

func TestGeminiAnswer(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkGeminiAnswer(t, body, text, want)
	}
	f(`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a\u003cb"},{"text":"\ud83d\ude00","thoughtSignature":"c2ln"}],"role":"model"},
		"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3,"thoughtsTokenCount":20,"cachedContentTokenCount":1,"totalTokenCount":28},
		"modelVersion":"gemini-3-pro","responseId":"r1"}`, "a<b😀", Response{
		ID: "r1", Model: "gemini-3-pro", Reasoning: String, FinishReason: "STOP", InputTokens: 5, OutputTokens: 23, CachedTokens: 1, CacheReported: true, Choices: 1,
		Signed: []Signed{{Hash: xxh3.HashString("c2ln")}},
	})
	f(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"\n"}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"i","name":"f","args":{}}},
		{"functionCall":{"name":"g"}},{"functionCall":{}},{"functionCall":{"name":"h","args":"{\"a\":1}"},"thoughtSignature":"b25l"}]},"finishReason":"STOP"}]}`, "", Response{
		Content: Null, FinishReason: "STOP", Choices: 1, Signed: []Signed{{Hash: bits.RotateLeft64(xxh3.HashString("c2ln"), 1) ^ xxh3.HashString("b25l")}},
		Calls: []ResponseCall{
			{Name: "f", Arguments: `{"a":"\n"}`, ArgsKind: Object, Args: ArgsObject, Signature: true},
			{ID: "i", Name: "f", Arguments: `{}`, ArgsKind: Object, Args: ArgsObject},
			{Name: "g"},
			{},
			{Name: "h", Arguments: `{"a":1}`, ArgsKind: String, Args: ArgsObject, Signature: true},
		},
	})
	// Google's own tools make no calls; an empty text is content without a hash.
	f(`{"candidates":[{"content":{"parts":[{"executableCode":{"code":"1"},"thoughtSignature":"skip_thought_signature_validator"},{"codeExecutionResult":{}}]},"finishReason":"STOP"}]}`, "",
		Response{Content: Null, FinishReason: "STOP", Choices: 1})
	f(`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS"}]}`, "", Response{Content: String, FinishReason: "MAX_TOKENS", Choices: 1})
	f(`{"candidates":[{"content":{"role":"model"},"finishReason":"SAFETY"}]}`, "", Response{FinishReason: "SAFETY", Choices: 1})
	// Older clients request enums as numbers.
	for n, reason := range []string{"", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "OTHER"} {
		f(fmt.Sprintf(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":%d}]}`, n), "a", Response{FinishReason: reason, Choices: 1})
	}
	// The first candidate by its index, not its position; snake case; lists of one.
	f(`{"candidates":[{"content":{"parts":[{"text":"b"}]},"index":1},{"content":{"parts":[{"text":"a"}]},"index":0}]}`, "a", Response{Choices: 2})
	f(`{"candidates":{"content":{"parts":{"function_call":{"name":"f"},"thought_signature":"c2ln"}},"finish_reason":"STOP"},"usage_metadata":{"prompt_token_count":1,"candidates_token_count":2},"model_version":"m","response_id":"r"}`,
		"", Response{ID: "r", Model: "m", Content: Null, FinishReason: "STOP", InputTokens: 1, OutputTokens: 2, CacheReported: true, Choices: 1, Signed: []Signed{{Hash: xxh3.HashString("c2ln")}}, Calls: []ResponseCall{{Name: "f", Signature: true}}})
	// No content and no reason.
	f(`{"usageMetadata":{"promptTokenCount":5},"modelVersion":"m"}`, "", Response{Model: "m", InputTokens: 5, CacheReported: true})
	f(`{"candidates":[]}`, "", Response{})
	// Wrong types.
	f(`{"candidates":["x",null,{"content":[],"finishReason":3,"index":"a"}],"usageMetadata":[],"promptFeedback":"x","responseId":7}`, "", Response{Choices: 3})
	f(`{"candidates":[{"content":{"parts":[1,null,"x",{}]},"finishReason":null}]}`, "", Response{Content: Null, Choices: 1})
}

func TestGeminiAnswerError(t *testing.T) {
	f := func(body, want string, malformed, cut bool) {
		t.Helper()
		checkGeminiAnswer(t, body, "", Response{Error: []byte(want), Malformed: malformed, Cut: cut})
	}
	f(`{"error":{"code":400,"status":"INVALID_ARGUMENT"}}`, `{"code":400,"status":"INVALID_ARGUMENT"}`, false, false)
	f("[{\n  \"error\": {\"code\": 400}\n}\n]", `{"code": 400}`, false, false)
	f(`{"error":"no"}`, `"no"`, false, false)
	f(`{"error":{"code":4`, `{"code":4`, true, true)
	f(`{"error":null}`, `{"error":null}`, true, false)
	f(`{"detail":"no"}`, `{"detail":"no"}`, true, false)
	f("<html>502</html>\n", "<html>502</html>", true, false)
	f("", "", true, false)
	f("[1]", "[1]", true, false)
	f("[]", "", false, true)

	// Failures inside a 200.
	blocked := `{"blockReason":"PROHIBITED_CONTENT","safetyRatings":[]}`
	f(`{"promptFeedback":`+blocked+`}`, blocked, false, false)
	events, array := streamed(`{"promptFeedback":`+blocked+`}`, `{"usageMetadata":{}}`)
	f(events, blocked, false, false)
	f(array, blocked, false, false)
	candidate := `{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"Malformed function call: f(","index":0}`
	want := Response{FinishReason: "MALFORMED_FUNCTION_CALL", Choices: 1, Error: []byte(candidate)}
	checkGeminiAnswer(t, `{"candidates":[`+candidate+`]}`, "", want)
	want.Reasoning, want.Content = String, Null
	events, array = streamed(`{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}]}`, `{"candidates":[`+candidate+`]}`)
	checkGeminiAnswer(t, events, "", want)
	checkGeminiAnswer(t, array, "", want)
	// Content before it is an answer.
	events, _ = streamed(`{"candidates":[{"content":{"parts":[{"text":"I read it."}]}}]}`, `{"candidates":[`+candidate+`]}`)
	checkGeminiAnswer(t, events, "I read it.", Response{FinishReason: "MALFORMED_FUNCTION_CALL", Choices: 1})
	// A prompt with ratings that was not blocked.
	checkGeminiAnswer(t, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"promptFeedback":{"safetyRatings":[{"blocked":false}],"blockReason":null}}`,
		"a", Response{FinishReason: "STOP", Choices: 1})
}

func TestGeminiStream(t *testing.T) {
	chunk := func(parts, more string) string {
		return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + more + `}],"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":3},"modelVersion":"m","responseId":"r"}`
	}
	f := func(text string, want Response, chunks ...string) {
		t.Helper()
		want.ID, want.Model, want.Choices, want.InputTokens, want.OutputTokens = "r", "m", 1, 5, max(want.OutputTokens, 3)
		want.CacheReported = true
		events, array := streamed(chunks...)
		checkGeminiAnswer(t, events, text, want)
		checkGeminiAnswer(t, strings.TrimSpace(events), text, want)
		checkGeminiAnswer(t, strings.ReplaceAll(events, "\r", ""), text, want)
		checkGeminiAnswer(t, array, text, want)
	}
	stop := `,"finishReason":"STOP"`
	f("abc", Response{FinishReason: "STOP"}, chunk(`{"text":"a"}`, ""), chunk(`{"text":"b"}`, ""), chunk(`{"text":"c"}`, stop))
	// A last part with only a signature, and the usage after the end.
	f("ab", Response{FinishReason: "STOP", Reasoning: String, OutputTokens: 13, Signed: []Signed{{Hash: xxh3.HashString("c2ln")}}}, chunk(`{"text":"hm","thought":true}`, ""),
		chunk(`{"text":"a"},{"text":"b"}`, ""), chunk(`{"text":"","thoughtSignature":"c2ln"}`, stop), `{"usageMetadata":{"thoughtsTokenCount":10}}`)
	// Whole calls, in one chunk or in several, are separate.
	call := func(name, args string) ResponseCall {
		return ResponseCall{Name: name, Arguments: args, ArgsKind: Object, Args: ArgsObject}
	}
	f("", Response{Content: Null, FinishReason: "STOP", Calls: []ResponseCall{call("f", `{"a":1}`), call("f", `{"a":1}`), call("g", `{}`)}},
		chunk(`{"functionCall":{"name":"f","args":{"a":1}}},{"functionCall":{"name":"f","args":{"a":1}}}`, ""), chunk(`{"functionCall":{"name":"g","args":{}}}`, stop))
	// Fragments without a name belong to the previous call.
	f("", Response{Content: Null, FinishReason: "STOP", Calls: []ResponseCall{call("f", `{"a":1}`), {ID: "i", Name: "g"}, {Name: "h", Signature: true}}},
		chunk(`{"functionCall":{"name":"f","args":{}}}`, ""), chunk(`{"functionCall":{"args":{"a":1}}},{"functionCall":{}}`, ""),
		chunk(`{"functionCall":{"name":"g","id":"i","willContinue":true}}`, ""),
		chunk(`{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x"}],"willContinue":true}}`, ""),
		chunk(`{"functionCall":{"name":"h"}}`, ""), chunk(`{"functionCall":{},"thoughtSignature":"skip_thought_signature_validator"}`, stop))
	// Cut: no chunk has a finish reason.
	f("ab", Response{Cut: true}, chunk(`{"text":"a"}`, ""), chunk(`{"text":"b"}`, ""))
	// An error in the stream.
	f("a", Response{Error: []byte(`{"code":503}`)}, chunk(`{"text":"a"}`, ""), `{"error":{"code":503}}`)
	events, _ := streamed(chunk(`{"text":"a"}`, ""))
	want := Response{ID: "r", Model: "m", Choices: 1, InputTokens: 5, OutputTokens: 3, CacheReported: true, Error: []byte(`{"code":503}`)}
	checkGeminiAnswer(t, events+`{"error":{"code":503}}`, "a", want)
	checkGeminiAnswer(t, events+`[{"error":{"code":503}}]`+"\n", "a", want)

	// Ends of gateways.
	want.Error = nil
	checkGeminiAnswer(t, events+"data: [DONE]\n\n", "a", want)
	want.Cut = true
	checkGeminiAnswer(t, events+": ping\n\n", "a", want)
	want.Malformed = true
	checkGeminiAnswer(t, events+"data: what\n\n", "a", want)
	checkGeminiAnswer(t, "data: {\"choices\":[]}\n\n", "", Response{Cut: true, Malformed: true})
	var r Response
	if err := ScanResponse(wire.Gemini, "text/event-stream", nil, &r); err != nil || !r.Cut || r.Malformed {
		t.Errorf("an empty stream: %v, %+v", err, r)
	}
}

// A stream has the facts of the same unary answer.
func TestGeminiStreamIsUnary(t *testing.T) {
	parts := []string{
		`{"text":"hm \u00e9","thought":true}`, `{"text":"a"}`, `{"text":"\\\"b\n"}`, `{"text":"","thoughtSignature":"ab-c"}`, `{"functionCall":{"name":"f","args":{"a":[1]}},"thoughtSignature":"xy=="}`,
		`{"functionCall":{"name":"f","args":{}}}`, `{"executableCode":{}}`, `{"text":"c"}`,
	}
	answer := func(parts []string, end string) string {
		return `{"candidates":[{"content":{"parts":[` + strings.Join(parts, ",") + `]}` + end + `}]}`
	}
	scan := func(body string) (r Response) {
		t.Helper()
		must.Do(t, ScanResponse(wire.Gemini, "", []byte(body), &r))
		return r
	}
	want := scan(answer(parts, `,"finishReason":"STOP"`))
	m := geminiFacts(t, `{"contents":[{"role":"model","parts":[`+strings.Join(parts, ",")+`]}]}`).Messages[0]
	if len(want.Signed) != 1 || want.Signed[0].Hash != m.Signed || want.ContentHash != m.ContentHash || m.ContentHash == 0 {
		t.Errorf("message %+v, answer %+v", m, want)
	}
	for size := 1; size <= len(parts); size++ {
		var chunks []string
		for at := 0; at < len(parts); at += size {
			end := ""
			if at+size >= len(parts) {
				end = `,"finishReason":"STOP"`
			}
			chunks = append(chunks, answer(parts[at:min(at+size, len(parts))], end))
		}
		events, array := streamed(chunks...)
		for _, body := range []string{events, array} {
			must.Agree(t, cmp.Diff(want, scan(body), cmpopts.EquateEmpty()), body, "(-unary +stream)")
		}
	}
}

// A scan of these bodies that is not linear would exceed the timeout of the tests.
func TestGeminiHostile(t *testing.T) {
	n := 1 << 19
	many := func(piece string) string { return strings.Repeat(piece, n/len(piece)) }
	var r Response
	var f Request
	for _, body := range []string{
		many("data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]}}]}\n\n"),
		`{"candidates":[{"content":{"parts":[` + many(`{"functionCall":{"name":"f"}},`) + `{}]}}]}`,
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]}}]}\n\n" + many("data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"args\":{\"a\":1}}}]}}]}\n\n"),
		`{"candidates":[` + many(`{"index":0},`) + `{}]}`,
		many("[{\"candidates\":"), many("data: {\n\n"), many("\n{"), many(`{"parts":`), "data: " + many(`\"`),
	} {
		if err := ScanResponse(wire.Gemini, "", []byte(body), &r); err != nil || len(r.Calls) > maxAnswerCalls {
			t.Errorf("%.60s: %v, %d calls", body, err, len(r.Calls))
		}
	}
	for _, body := range []string{
		many(`{"contents":[`), `{"contents":[` + many(`{"parts":[`), `{"contents":[{"parts":[` + many(`{"functionResponse":{"parts":[`),
		`{"contents":[{"parts":[` + many(`{"functionCall":{}},`) + `{}]}]}`,
		`{"contents":[{"role":"model","parts":[` + many(`{"text":"\u0061"},`) + `{}]}]}`,
		`{"contents":[{` + many(`"parts":[{"functionCall":{"name":"f"}}],`) + `"role":"model"}]}`,
		`{"contents":[{"role":"model","parts":[` + many(`{"thoughtSignature":"_-\/"},`) + `{}]}]}`,
		`{"contents":[` + many(`{"x":{},"y":1},`) + `{}]}`,
	} {
		_ = ScanRequest(wire.Gemini, []byte(body), &f)
		if len(f.calls) > maxKept {
			t.Errorf("%.60s: %d calls", body, len(f.calls))
		}
	}
}

// geminiSession is agentSession in this dialect: code in replies, a call in every other content.
func geminiSession(tb testing.TB, size int, seed uint64) []byte {
	tb.Helper()
	body := agentSession(tb, size, seed)
	var b bytes.Buffer
	b.WriteString(`{"contents":[{"parts":[{"text":"Make the \"failing\" test pass."}],"role":"user"}`)
	for i, m := range parse(body).get("messages").elems {
		content := m.get("content")
		text := body[content.start:content.end]
		switch m.get("role").text {
		case "assistant":
			f := m.get("tool_calls").elems[0].get("function")
			fmt.Fprintf(&b, `,{"parts":[{"text":%s},{"functionCall":{"name":"%s","args":%s},"thoughtSignature":"%0200d"}],"role":"model"}`, text, f.get("name").text, f.get("arguments").text, i)
		case "tool":
			fmt.Fprintf(&b, `,{"parts":[{"functionResponse":{"name":"tool_%d","response":{"result":%s}}}],"role":"user"}`, (i-2)/2%8, text)
		}
	}
	b.WriteString(`],"tools":[{"functionDeclarations":[{"name":"tool_0","parameters":{"type":"OBJECT"}}]}],"generationConfig":{"temperature":0}}`)
	return b.Bytes()
}
