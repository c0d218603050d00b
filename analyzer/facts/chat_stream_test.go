package facts

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// deltas makes a stream of chunks with these tool_calls arrays.
func deltas(calls ...string) string {
	var b strings.Builder
	for _, c := range calls {
		b.WriteString(`data: {"choices":[{"index":0,"delta":{"tool_calls":` + c + "}}]}\n\n")
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

func TestStreamCalls(t *testing.T) {
	whole := func(id, name, args string) ResponseCall {
		return ResponseCall{ID: id, Name: name, Arguments: args, ArgsKind: String, Args: ArgsObject}
	}
	f := func(name, body string, badIndex bool, want ...ResponseCall) {
		t.Helper()
		r := answerOf(t, "", body)
		must.Agree(t, cmp.Diff(want, r.Calls, cmpopts.EquateEmpty()), name)
		if r.BadIndex != badIndex || r.Cut || r.Malformed || r.FinishReason != "tool_calls" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	f("one call in pieces", deltas(
		`[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]`,
		`[{"index":0,"function":{"arguments":"{\"a\":"}}]`, `[{"index":0,"function":{"arguments":"\"\\n\"}"}}]`,
	), false, whole("c1", "f", `{"a":"\n"}`))
	f("two calls, interleaved", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{"}},{"index":1,"id":"c2","function":{"name":"f","arguments":"{"}}]`,
		`[{"index":1,"function":{"arguments":"\"b\":2}"}}]`, `[{"index":0,"function":{"arguments":"}"}}]`,
	), false, whole("c1", "f", `{}`), whole("c2", "f", `{"b":2}`))
	f("whole calls in one delta", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{}"}}]`,
	), false, whole("c1", "f", `{}`), whole("c2", "g", `{}`))
	f("no index", deltas(
		`[{"id":"c1","function":{"name":"f","arguments":"{}"}}]`, `[{"id":"c2","function":{"name":"f","arguments":"{}"}}]`, `[{"extra_content":{}}]`,
	), false, whole("c1", "f", `{}`), whole("c2", "f", `{}`))
	f("no index and no id", deltas(
		`[{"function":{"name":"f","arguments":"{"}}]`, `[{"function":{"arguments":"}"}}]`, `[{"function":{"name":"g","arguments":"{}"}}]`,
	), false, whole("", "f", `{}`), whole("", "g", `{}`))
	f("every index 0", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]`, `[{"index":0,"id":"c2","function":{"name":"f","arguments":"{"}}]`,
		`[{"index":0,"function":{"arguments":"}"}}]`,
	), true, whole("c1", "f", `{}`), whole("c2", "f", `{}`))
	f("every index 0, no id", deltas(
		`[{"index":0,"function":{"name":"f","arguments":"{}"}}]`, `[{"index":0,"function":{"name":"g","arguments":"{}"}}]`,
	), true, whole("", "f", `{}`), whole("", "g", `{}`))
	f("tail under another index", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{"}}]`, `[{"index":1,"function":{"arguments":"}"}}]`,
	), true, whole("c1", "f", `{}`))
	f("known id beats index", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{"}},{"index":1,"id":"c2","function":{"name":"g","arguments":"{"}}]`,
		`[{"index":0,"id":"c2","function":{"arguments":"}"}}]`, `[{"index":0,"id":"c1","function":{"arguments":"}"}}]`,
	), true, whole("c1", "f", `{}`), whole("c2", "g", `{}`))
	f("a new id for each piece", deltas(
		`[{"index":0,"id":"x1","function":{"name":"f","arguments":"{"}}]`, `[{"index":0,"id":"x2","function":{"arguments":"}"}}]`,
	), false, whole("x1", "f", `{}`))
	f("id and name in every piece", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{"}}]`, `[{"index":0,"id":"c1","function":{"name":"f","arguments":"}"}}]`,
	), false, whole("c1", "f", `{}`))
	f("name in every piece", deltas(
		`[{"index":0,"function":{"name":"f","arguments":"{"}}]`, `[{"index":0,"function":{"name":"f","arguments":"}"}}]`,
	), false, whole("", "f", `{}`))
	f("id first, name later", deltas(
		`[{"index":0,"id":"c1"}]`, `[{"index":0,"function":{"name":"f","arguments":"{}"}}]`, `[{"index":1,"id":"c2"}]`, `[{"index":1,"function":{"name":"g","arguments":"{}"}}]`,
	), false, whole("c1", "f", `{}`), whole("c2", "g", `{}`))
	f("name first, id later", deltas(
		`[{"index":0,"function":{"name":"f"}}]`, `[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]`,
	), false, whole("c1", "f", `{}`))
	f("null arguments, then text", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":null}}]`, `[{"index":0,"function":{"arguments":"{}"}}]`, `[{"index":0,"function":{"arguments":null}}]`,
	), false, whole("c1", "f", `{}`))
	f("no arguments", deltas(`[{"index":0,"id":"c1","function":{"name":"f"}}]`), false, ResponseCall{ID: "c1", Name: "f"})
	f("arguments as an object", deltas(`[{"index":0,"id":"c1","function":{"name":"f","arguments":{"a":1}}}]`), false,
		ResponseCall{ID: "c1", Name: "f", Arguments: `{"a":1}`, ArgsKind: Object, Args: ArgsObject})
	f("two calls with one id", deltas(
		`[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}},{"index":1,"id":"c","function":{"name":"g","arguments":"{"}}]`,
		`[{"index":1,"id":"c","function":{"arguments":"}"}}]`, `[{"index":0,"function":{"arguments":"}"}}]`,
	), false, whole("c", "f", `{}`), whole("c", "g", `{}`))
	f("two calls of one function with one id, in pieces", deltas(
		`[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]`, `[{"index":0,"function":{"arguments":"{}"}}]`,
		`[{"index":1,"id":"c","function":{"name":"f","arguments":""}}]`, `[{"index":1,"function":{"arguments":"{}"}}]`,
	), false, whole("c", "f", `{}`), whole("c", "f", `{}`))
	f("two calls with one id and one index", deltas(
		`[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]`, `[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]`,
	), true, whole("c", "f", `{}`), whole("c", "f", `{}`))
	f("a second call that nothing tells apart", deltas(
		`[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]`, `[{"index":0,"function":{"arguments":"{}"}}]`,
	), true, ResponseCall{ID: "c", Name: "f", Arguments: "{}{}", ArgsKind: String, Args: ArgsMultiple})
	signed := func(c ResponseCall) ResponseCall {
		c.Signature = true
		return c
	}
	f("a signature on the call", deltas(
		`[{"id":"c1","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]`, `[{"id":"c2","function":{"name":"f","arguments":"{}"}}]`,
	), false, signed(whole("c1", "f", `{}`)), whole("c2", "f", `{}`))
	f("a signature in an element of its own", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}]`, `[{"index":0,"extra_content":{"google":{"thought_signature":"s"}}}]`,
	), false, signed(whole("c1", "f", `{}`)))
	f("a signature in a delta of its own",
		`data: {"choices":[{"delta":{"extra_content":{"google":{"thought_signature":"s"}}}}]}`+"\n\n"+
			deltas(`[{"id":"c1","function":{"name":"f","arguments":"{}"}},{"id":"c2","function":{"name":"f","arguments":"{}"}}]`),
		false, signed(whole("c1", "f", `{}`)), whole("c2", "f", `{}`))
	f("a custom tool", deltas(
		`[{"index":0,"id":"c","type":"custom","custom":{"name":"sql","input":""}}]`, `[{"index":0,"custom":{"input":"select {"}}]`,
	), false, ResponseCall{ID: "c", Name: "sql", Arguments: "select {", ArgsKind: String})
	f("an empty custom tool beside the function", deltas(
		`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"},"custom":{"name":"","input":""}}]`,
		`[{"index":1,"id":"c2","custom":{"name":"","input":""},"function":{"name":"f","arguments":"{}"}}]`,
		`[{"index":2,"id":"c3","custom":{"name":"sql","input":"select"},"function":{"name":"","arguments":""}}]`,
	), false, whole("c1", "f", `{}`), whole("c2", "f", `{}`), ResponseCall{ID: "c3", Name: "sql", Arguments: "select", ArgsKind: String})
	f("cut arguments", deltas(`[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}]`), false,
		ResponseCall{ID: "c1", Name: "f", Arguments: `{"a":`, ArgsKind: String, Args: ArgsTruncated})
}

func TestStreamEnds(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswer(t, body, text, want)
	}
	chunk := func(s string) string { return "data: " + s + "\n\n" }
	a := chunk(`{"id":"","model":"","choices":[]}`) + chunk(`{"id":"i","model":"m","choices":[{"index":0,"delta":{"content":"a","reasoning_content":null}}]}`)
	stop := chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	done := chunk("[DONE]")
	base := Response{ID: "i", Model: "m", Content: String, Reasoning: Null, Choices: 1}
	with := func(change func(*Response)) Response {
		r := base
		change(&r)
		return r
	}
	stopped := with(func(r *Response) { r.FinishReason = "stop" })
	f(a+stop+done, "a", stopped)
	f(a+done, "a", base)
	f(a+stop, "a", stopped) // Perplexity and others send no [DONE]
	f(strings.ReplaceAll(": OPENROUTER PROCESSING\n\n"+a+stop+done, "\n", "\r\n"), "a", stopped)
	f(a+stop+chunk(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}`)+done, "a",
		with(func(r *Response) { r.FinishReason, r.InputTokens, r.OutputTokens = "stop", 3, 4 }))
	f(a+stop+chunk(`{"choices":[],"x_groq":{"usage":{"prompt_tokens":3}}}`)+done, "a", with(func(r *Response) { r.FinishReason, r.InputTokens = "stop", 3 }))
	// Cut between chunks and inside a chunk.
	f(a, "a", with(func(r *Response) { r.Cut = true }))
	f(a+`data: {"choices":[{"index":0,"delta":{"content":"bc`, "a", with(func(r *Response) { r.Cut = true }))
	f(a+`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":{"a":`, "a", with(func(r *Response) { r.Cut = true }))
	f(": ping\n\n", "", Response{Cut: true})
	// Errors in a 200.
	f(a+chunk(`{"error":{"code":400}}`), "a", with(func(r *Response) { r.Error = []byte(`{"code":400}`) }))
	f(a+"event: error\ndata: overloaded\n\n", "a", with(func(r *Response) { r.Error = []byte(`overloaded`) }))
	f(a+"event: error\ndata: {\"message\":\"x\"}\n\n", "a", with(func(r *Response) { r.Error = []byte(`{"message":"x"}`) }))
	f(chunk(`{"object":"error","message":"x"}`)+done, "", Response{Error: []byte(`{"object":"error","message":"x"}`)})
	f(chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":502}}]}`), "",
		Response{Choices: 1, FinishReason: "error", Error: []byte(`{"code":502}`)})
	f(a+chunk(`{"choices":[],"error":{"code":502}}`), "a", with(func(r *Response) { r.Error = []byte(`{"code":502}`) }))
	f(a+"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", "a",
		with(func(r *Response) { r.Error = []byte(`{"type":"overloaded_error"}`) }))
	// Failures known by the finish reason only, also that of the upstream.
	f(a+chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`)+done, "a",
		with(func(r *Response) { r.FinishReason, r.Error = "error", []byte(`"error"`) }))
	f(a+chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"network_error"}]}`)+done, "a",
		with(func(r *Response) { r.FinishReason, r.Error = "stop", []byte(`"network_error"`) }))
	f(a+chunk(`{"choices":[{"index":0,"delta":{},"native_finish_reason":"error"}]}`)+chunk(`{"error":{"code":1}}`), "a",
		with(func(r *Response) { r.Error = []byte(`{"code":1}`) }))
	f(a+chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"STOP"}]}`), "a", stopped)
	// Mistral's reasoning models stream parts, then text.
	f(chunk(`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`)+
		chunk(`{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}`)+chunk(`{"choices":[{"delta":{"content":"b"}}]}`)+done,
		"ab", Response{Content: String, Reasoning: Array, Choices: 1})
	// A server that omits the empty lines, and one that splits a chunk over data lines.
	f(strings.ReplaceAll(a+stop+done, "\n\n", "\n"), "a", stopped)
	f("data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"a\"}}]}\n\n"+done, "a", Response{Content: String, Choices: 1})
	// Only the first choice is described.
	f(a+chunk(`{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"length"}]}`)+done, "a", with(func(r *Response) { r.Choices = 2 }))
	// z.ai's last chunk has index 1. Two such chunks belong to other choices.
	stray := chunk(`{"choices":[{"index":1,"finish_reason":"stop","delta":{"role":"assistant","content":"","tool_calls":null}}]}`)
	f(a+stray+done, "a", stopped)
	f(a+stray+stray+done, "a", with(func(r *Response) { r.Choices = 2 }))
	f(a+stop+stray+done, "a", with(func(r *Response) { r.FinishReason, r.Choices = "stop", 2 }))
	// Perplexity repeats the message so far next to the delta.
	f(chunk(`{"choices":[{"message":{"content":"a"},"delta":{"content":"a"}}]}`)+chunk(`{"choices":[{"message":{"content":"ab"},"delta":{"content":"b"}}]}`)+done,
		"ab", Response{Content: String, Choices: 1})
	// Not a chat stream.
	f(chunk(`{"type":"ping"}`)+done, "", Response{Malformed: true})
	f(a+chunk(`nonsense`)+done, "a", with(func(r *Response) { r.Malformed = true }))
}

func TestStreamKeepsBound(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxAnswerCalls {
		n := strconv.Itoa(i)
		b.WriteString(`data: {"choices":[{"delta":{"tool_calls":[{"index":` + n + `,"id":"` + n + `","function":{"name":"f"}}]}}]}` + "\n\n")
	}
	if r := answerOf(t, "", b.String()); len(r.Calls) != maxAnswerCalls || !r.Malformed {
		t.Errorf("%d calls, malformed %v", len(r.Calls), r.Malformed)
	}
}

// refAnswer is a recorded answer, unary or a regular stream, decoded with encoding/json.
func refAnswer(t *testing.T, body []byte) (text string, calls []ResponseCall, finish string) {
	t.Helper()
	type message struct {
		Content   any
		ToolCalls []struct {
			Index    int
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	type chunk struct {
		Choices []struct {
			Index          int
			Message, Delta message
			FinishReason   string `json:"finish_reason"`
		}
	}
	read := func(b []byte, stream bool) {
		c := must.JSON[chunk](t, b)
		for _, choice := range c.Choices {
			if choice.Index != 0 {
				continue
			}
			m := choice.Message
			if stream {
				m = choice.Delta
			}
			switch c := m.Content.(type) {
			case string:
				text += c
			case []any:
				for _, p := range c {
					if p, ok := p.(map[string]any); ok && p["type"] == "text" {
						s, _ := p["text"].(string)
						text += s
					}
				}
			}
			for i, call := range m.ToolCalls {
				at := len(calls)
				if stream && call.ID == "" {
					at = len(calls) - len(m.ToolCalls) + i
				}
				if at == len(calls) {
					calls = append(calls, ResponseCall{ID: call.ID, Name: call.Function.Name})
				}
				calls[at].Arguments += call.Function.Arguments
			}
			if choice.FinishReason != "" {
				finish = choice.FinishReason
			}
		}
	}
	if body[0] == '{' {
		read(body, false)
		return text, calls, finish
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: ")); ok && data[0] == '{' {
			read(data, true)
		}
	}
	return text, calls, finish
}

func TestScanRecordedResponses(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var unary, streams, failed, inBand, noTerminal, withCalls int
	exchanges(t, "openai.chat", func(e *exchange) {
		body := e.body(t)
		r := answerIn(t, wire.OpenAIChat, "", string(body))
		if e.Status >= 400 {
			failed++
			if len(r.Error) == 0 && string(body) != "null" {
				t.Errorf("%s: status %d without an error: %s", e.ID, e.Status, body)
			}
			return
		}
		if len(r.Error) > 0 {
			inBand++
			t.Logf("%s: error in a 200: %.200s", e.ID, r.Error)
			return
		}
		if e.Stream {
			streams++
		} else {
			unary++
		}
		if r.Cut {
			noTerminal++
			t.Logf("%s: cut", e.ID)
		}
		if r.Malformed || r.Choices == 0 || r.BadIndex {
			t.Errorf("%s: %+v of %s", e.ID, r, body)
		}
		text, calls, finish := refAnswer(t, body)
		if r.Content == String && r.ContentHash != xxh3.HashString(text) || r.ContentBytes != len(text) {
			t.Errorf("%s: content differs from %q", e.ID, text)
		}
		got := append([]ResponseCall(nil), r.Calls...)
		for i := range got {
			if a := got[i].Args; got[i].ArgsKind == String && a != refArgs(got[i].Arguments) {
				t.Errorf("%s: arguments %q: verdict %d", e.ID, got[i].Arguments, a)
			}
			got[i].Args, got[i].ArgsKind = ArgsUnknown, Absent
		}
		if len(got) > 0 {
			withCalls++
		}
		if diff := cmp.Diff(calls, got, cmpopts.EquateEmpty()); diff != "" || r.FinishReason != finish {
			t.Errorf("%s: finish %q, want %q; calls (-reference +scan):\n%s", e.ID, r.FinishReason, finish, diff)
		}
	})
	t.Logf("%d unary, %d streams, %d with calls, %d without a last event, %d failed, %d errors in a 200", unary, streams, withCalls, noTerminal, failed, inBand)
}
