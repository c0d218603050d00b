package facts

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// answerOf scans an answer.
func answerOf(t *testing.T, contentType, body string) Response {
	t.Helper()
	return answerIn(t, wire.OpenAIChat, contentType, body)
}

func checkAnswer(t *testing.T, body, text string, want Response) {
	t.Helper()
	checkAnswerIn(t, wire.OpenAIChat, "", body, text, want)
}

func TestScanResponseUnary(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswer(t, body, text, want)
	}
	f(`{"id":"chatcmpl-1","object":"chat.completion","model":"gpt-4o-2024","choices":[{"index":0,"message":{"role":"assistant","content":"\u003cb\u003e \ud83d\ude00"},
		"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`, "<b> 😀",
		Response{ID: "chatcmpl-1", Model: "gpt-4o-2024", Content: String, FinishReason: "stop", InputTokens: 10, OutputTokens: 2, CachedTokens: 4, CacheReported: true, Choices: 1})
	// Calls: whole calls with equal ids are separate; arguments of any type.
	f(`{"choices":[{"message":{"content":null,"reasoning_content":"","tool_calls":[
		{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\n\"}"}},{"id":"c","function":{"name":"f","arguments":{"a":1}}},
		{"id":"","function":{"name":"g"}},{"function":{"name":"h","arguments":""}},null,{}]},"finish_reason":"tool_calls"}]}`, "",
		Response{Content: Null, Reasoning: String, BlankReasoning: true, FinishReason: "tool_calls", Choices: 1, Calls: []ResponseCall{
			{ID: "c", Name: "f", Arguments: `{"a":"\n"}`, ArgsKind: String, Args: ArgsObject},
			{ID: "c", Name: "f", Arguments: `{"a":1}`, ArgsKind: Object, Args: ArgsObject},
			{Name: "g"},
			{Name: "h", ArgsKind: String, Args: ArgsEmpty},
			{},
		}})
	// The first choice by its index, not its position.
	f(`{"choices":[{"message":{"content":"b"},"index":1},{"message":{"content":"a"},"index":0}]}`, "a", Response{Content: String, Choices: 2})
	// Mistral's reasoning models answer with parts: their texts are the content.
	f(`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"\u0061"},{"text":"b","type":"text"}]}}]}`,
		"ab", Response{Content: String, Reasoning: Array, Choices: 1})
	f(`{"choices":[{"message":{"content":[{"type":"text"},7]}}]}`, "", Response{Content: Null, Choices: 1})
	f(`{"choices":[{"message":{"content":{"a":1}}}]}`, "", Response{Content: Object, ContentBytes: 7, Choices: 1})
	// Refusals and media have fields of their own.
	f(`{"choices":[{"message":{"content":null,"refusal":"No.","audio":null},"finish_reason":"stop"}]}`, "", Response{Content: Null, FinishReason: "stop", Choices: 1, Refused: true})
	f(`{"choices":[{"message":{"content":null,"refusal":null,"audio":{"data":"x"}},"finish_reason":"stop"}]}`, "", Response{Content: Null, FinishReason: "stop", Choices: 1, Media: true})
	f(`{"choices":[{"message":{"content":"","refusal":"","images":[{}]}}]}`, "", Response{Content: String, Choices: 1, Media: true})
	// Calls of custom tools, whose input is free text, and thought signatures.
	f(`{"choices":[{"message":{"tool_calls":[{"id":"c","type":"custom","custom":{"name":"sql","input":"select {"}},
		{"id":"d","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]}}]}`, "",
		Response{Choices: 1, Calls: []ResponseCall{
			{ID: "c", Name: "sql", Arguments: "select {", ArgsKind: String},
			{ID: "d", Name: "f", Arguments: "{}", ArgsKind: String, Args: ArgsObject, Signature: true},
		}})
	// DeepSeek's and Moonshot's cache counts.
	f(`{"choices":[{"message":{"content":""}}],"usage":{"prompt_tokens":9,"prompt_cache_hit_tokens":8}}`, "",
		Response{Content: String, Choices: 1, InputTokens: 9, CachedTokens: 8, CacheReported: true})
}

func TestScanResponseError(t *testing.T) {
	f := func(body, want string, malformed bool) {
		t.Helper()
		checkAnswer(t, body, "", Response{Error: []byte(want), Malformed: malformed})
	}
	f(`{"error":{"message":"no","code":400}}`, `{"message":"no","code":400}`, false)
	f(`{"error":"no"}`, `"no"`, false)
	f(`[{"error":{"code":400,"status":"INVALID_ARGUMENT"}}]`, `{"code":400,"status":"INVALID_ARGUMENT"}`, false)
	f(`{"object":"error","message":"no"}`, `{"object":"error","message":"no"}`, false)
	f(`{"choices":[],"error":{"code":429}}`, `{"code":429}`, false)
	f(`{"object":"error","message":{"detail":[]},"done":1}`, `{"object":"error","message":{"detail":[]},"done":1}`, false)
	f(`{"detail":"no"}`, `{"detail":"no"}`, true)
	f(`{"error":null}`, `{"error":null}`, true)
	f("Failed to deserialize the JSON body\n", "Failed to deserialize the JSON body", true)
	f("<html>401</html>", "<html>401</html>", true)
	f("", "", true)
	f("[]", "[]", true)
	f("[1]", "[1]", true)
}

// The shape of a text states its length.
func TestScanResponseShaped(t *testing.T) {
	const text = "~1234:0123456789abcdef"
	for _, body := range []string{
		`{"choices":[{"message":{"content":"` + text + `"}}]}`,
		`data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":""}}]}` + "\n\ndata: [DONE]\n\n",
	} {
		if r := answerOf(t, "", body); r.ContentBytes != 1234 || r.ContentHash != xxh3.HashString(text) {
			t.Errorf("%s: %+v", body, r)
		}
	}
}

// Ollama's own API: no choices, arguments are objects, a stream is JSON lines.
func TestScanResponseNative(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswer(t, body, text, want)
	}
	call := ResponseCall{Name: "f", Arguments: `{"a":1}`, ArgsKind: Object, Args: ArgsObject}
	f(`{"model":"qwen3","message":{"role":"assistant","content":"a","thinking":"hm"},"done_reason":"stop","done":true,"prompt_eval_count":9,"eval_count":2}`, "a",
		Response{Model: "qwen3", Content: String, Reasoning: String, FinishReason: "stop", InputTokens: 9, OutputTokens: 2, Choices: 1})
	f(`{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":true}`, "",
		Response{Content: String, Choices: 1, Calls: []ResponseCall{call}})
	const stream = `{"model":"m","message":{"content":"a"},"done":false}` + "\n" + `{"message":{"content":"\u0062","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":false}` + "\r\n" +
		`{"message":{"tool_calls":[{"function":{"index":1,"name":"f","arguments":{"a":1}}}]},"done":false}` + "\n"
	calls := []ResponseCall{call, call}
	f(stream+`{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":5}`+"\n", "ab",
		Response{Model: "m", Content: String, FinishReason: "stop", OutputTokens: 5, Choices: 1, Calls: calls})
	f(stream, "ab", Response{Model: "m", Content: String, Choices: 1, Calls: calls, Cut: true})
	f(stream+`{"message":{"content":"long te`, "ab", Response{Model: "m", Content: String, Choices: 1, Calls: calls, Cut: true})
	f(stream+`{"error":"out of memory"}`, "ab", Response{Model: "m", Content: String, Choices: 1, Calls: calls, Error: []byte(`"out of memory"`)})
	f(stream+`nonsense`, "ab", Response{Model: "m", Content: String, Choices: 1, Calls: calls, Cut: true, Malformed: true})
	f(`{"error":"model 'x' not found"}`, "", Response{Error: []byte(`"model 'x' not found"`)})
}

func TestScanRecordedNative(t *testing.T) {
	n := 0
	recordedtest.Lines(t, recordedtest.Exchanges, func(_ int, line []byte) {
		e := must.JSON[exchange](t, line)
		if e.API != "ollama.chat" {
			return
		}
		n++
		var q Request
		if err := ScanRequest(wire.OpenAIChat, e.Request, &q); err != nil || len(q.Messages) == 0 {
			t.Errorf("%s: %v, %d messages", e.ID, err, len(q.Messages))
		}
		if r := answerOf(t, "", string(e.body(t))); r.Malformed || r.Cut || len(r.Error) > 0 || r.FinishReason != "stop" || r.ContentBytes == 0 || r.OutputTokens == 0 {
			t.Errorf("%s: %+v", e.ID, r)
		}
	})
	t.Logf("%d exchanges", n)
}

func TestScanResponseCut(t *testing.T) {
	r := answerOf(t, "", `{"error":{"message":"long te`)
	if string(r.Error) != `{"message":"long te` || !r.Cut {
		t.Errorf("cut error body: %+v", r)
	}
	r = answerOf(t, "", `{`)
	if string(r.Error) != "{" || !r.Cut || !r.Malformed {
		t.Errorf("cut after one byte: %+v", r)
	}
	r = answerOf(t, "", `{"choices":[{"message":{"content":"long te`)
	if len(r.Error) != 0 || !r.Cut || !r.Malformed {
		t.Errorf("cut answer: %+v", r)
	}
	r = answerOf(t, "text/event-stream; charset=utf-8", "")
	if !r.Cut || r.Malformed {
		t.Errorf("empty stream: %+v", r)
	}
	r = answerOf(t, "text/event-stream", `{"error":{"code":1}}`)
	must.Equal(t, string(r.Error), `{"code":1}`, "JSON sent as a stream: %+v", r)
	must.Is(t, ScanResponse(wire.Other, "", []byte(`{}`), &r), ErrDialect, "other dialect")
}

// An answer's text and its copy in the next request have one hash, however escaped.
func TestContentHashesAgree(t *testing.T) {
	texts := []string{"", "plain", "<b>\"q\" & \\ /", "你好 😀\n\t\u2028", strings.Repeat("long \"line\"\n", 500)}
	r := rand.New(rand.NewPCG(5, 6))
	for _, text := range texts {
		html := must.Get(json.Marshal(text))(t)
		for _, spelled := range []string{string(html), `"` + string(appendQuoted(nil, []byte(text))) + `"`, `"` + escapeAll(text) + `"`} {
			var q Request
			must.Do(t, ScanRequest(wire.OpenAIChat, []byte(`{"messages":[{"role":"assistant","content":`+spelled+`}]}`), &q))
			unary := answerOf(t, "", `{"choices":[{"message":{"content":`+spelled+`}}]}`)
			var stream strings.Builder
			for rest := []rune(text); len(rest) > 0; {
				n := 1 + r.IntN(len(rest))
				piece := must.Get(json.Marshal(string(rest[:n])))(t)
				stream.WriteString(`data: {"choices":[{"delta":{"content":` + string(piece) + "}}]}\n\n")
				rest = rest[n:]
			}
			streamed := answerOf(t, "", `data: {"choices":[{"delta":{"content":""}}]}`+"\n\n"+stream.String()+"data: [DONE]\n\n")
			want := xxh3.HashString(text)
			if got := q.Messages[0].ContentHash; got != want || unary.ContentHash != want || streamed.ContentHash != want {
				t.Errorf("%.20q: hashes %x, %x, %x, want %x", text, got, unary.ContentHash, streamed.ContentHash, want)
			}
		}
	}
}

var responseSeeds = []string{
	`{"id":"a","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"\u003c","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
	`[{"error":{"code":400}}]`,
	`{"object":"error"}`,
	"<html>",
	"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\r\n\r\n: x\n\n" +
		"data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n",
	"event: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n",
	`{"choices":[{"message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"~9:0123456789abcdef"}],"tool_calls":[{"custom":{"name":"c","input":"x"},"extra_content":{"google":{"thought_signature":"s"}}}]},"native_finish_reason":"error"}]}`,
	"{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]},\"done\":true,\"done_reason\":\"stop\"}\n",
	`{"id":"a","message":{"content":[{"type":"text","text":"a"}],"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}],"tool_plan":"p"},"finish_reason":"TOOL_CALL","usage":{"tokens":{"input_tokens":1}}}`,
	"event: tool-call-start\ndata: {\"type\":\"tool-call-start\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"id\":\"c\",\"function\":{\"name\":\"f\"}}}}}\n\n" +
		"data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"x\"}}\n\n",
}

func FuzzScanResponse(f *testing.F) {
	for _, seed := range responseSeeds {
		f.Add("", []byte(seed))
		f.Add("text/event-stream", []byte(seed))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		for _, d := range []wire.Dialect{wire.OpenAIChat, wire.Cohere} {
			var r, again Response
			must.Do(t, ScanResponse(d, contentType, body, &r))
			if r.Content == String && r.ContentHash == 0 || r.Content < String && r.ContentHash != 0 {
				t.Errorf("%s: content kind %d, hash %x", d, r.Content, r.ContentHash)
			}
			if len(r.Calls) > maxAnswerCalls || len(r.Error) > len(body) {
				t.Errorf("%s: facts larger than the body: %+v", d, r)
			}
			must.Do(t, ScanResponse(d, contentType, body, &again))
			must.Agree(t, cmp.Diff(r, again), d, "second scan")
		}
	})
}
