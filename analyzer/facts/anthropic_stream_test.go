package facts

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

const (
	messageStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":3,"cache_read_input_tokens":10,"output_tokens":1}}}`
	messageDelta = `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":null,"output_tokens":9}}`
	messageStop  = `{"type":"message_stop"}`
)

// start and delta make events of the block with this index.
func start(index int, block string) string {
	return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, index, block)
}

func delta(index int, delta string) string {
	return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, index, delta)
}

func stop(index int) string { return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index) }

func jsonDelta(index int, partial string) string {
	return delta(index, `{"type":"input_json_delta","partial_json":`+string(appendQuoted([]byte(`"`), []byte(partial)))+`"}`)
}

func toolUse(index int, id, name string) string {
	return start(index, `{"type":"tool_use","id":"`+id+`","name":"`+name+`","input":{}}`)
}

// anthropicEvents makes server-sent events with this data.
func anthropicEvents(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("event: " + parse([]byte(d)).get("type").text + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

// anthropicStream makes a whole stream around these events.
func anthropicStream(data ...string) string {
	return anthropicEvents(messageStart, `{"type":"ping"}`) + anthropicEvents(data...) + anthropicEvents(messageDelta, messageStop)
}

func TestAnthropicStreamCalls(t *testing.T) {
	object := func(id, name, args string) ResponseCall {
		return ResponseCall{ID: id, Name: name, Arguments: args, ArgsKind: Object, Args: ArgsObject}
	}
	text := func(id, name, args string, v Args) ResponseCall {
		return ResponseCall{ID: id, Name: name, Arguments: args, ArgsKind: String, Args: v}
	}
	f := func(name string, events []string, badIndex bool, want ...ResponseCall) {
		t.Helper()
		r := answerIn(t, wire.Anthropic, "", anthropicStream(events...))
		must.Agree(t, cmp.Diff(want, r.Calls, cmpopts.EquateEmpty()), name)
		if r.BadIndex != badIndex || r.Cut || r.Malformed || r.FinishReason != "tool_use" || r.Content != Null {
			t.Errorf("%s: %+v", name, r)
		}
	}
	f("in pieces", []string{toolUse(0, "t1", "f"), jsonDelta(0, ""), jsonDelta(0, `{"a": "`), jsonDelta(0, `\n"}`), stop(0)}, false, object("t1", "f", `{"a": "\n"}`))
	f("no arguments", []string{toolUse(0, "t1", "f"), stop(0), toolUse(1, "t2", "f"), jsonDelta(1, ""), stop(1)}, false, object("t1", "f", `{}`), object("t2", "f", `{}`))
	f("white space", []string{toolUse(0, "t1", "f"), jsonDelta(0, " \n"), stop(0)}, false, object("t1", "f", `{}`))
	f("interleaved", []string{toolUse(1, "t1", "f"), toolUse(2, "t2", "g"), jsonDelta(1, `{"a"`), jsonDelta(2, `{"b"`), jsonDelta(1, `:1}`), jsonDelta(2, `:2}`)}, false,
		object("t1", "f", `{"a":1}`), object("t2", "g", `{"b":2}`))
	f("cut by max_tokens", []string{toolUse(0, "t1", "f"), jsonDelta(0, `{"a":`), stop(0)}, false, text("t1", "f", `{"a":`, ArgsTruncated))
	f("no object", []string{toolUse(0, "t1", "f"), jsonDelta(0, `[1]`), stop(0)}, false, text("t1", "f", `[1]`, ArgsNotObject))
	f("two objects", []string{toolUse(0, "t1", "f"), jsonDelta(0, `{}{}`), stop(0)}, false, text("t1", "f", `{}{}`, ArgsMultiple))
	f("whole at the start", []string{start(0, `{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}`), stop(0)}, false, object("t1", "f", `{"a":1}`))
	f("no input", []string{start(0, `{"type":"tool_use","id":"t1","name":"f"}`), stop(0)}, false, object("t1", "f", `{}`))
	f("server tools", []string{
		start(0, `{"type":"server_tool_use","id":"s","name":"web_search","input":{}}`), jsonDelta(0, `{"query":1}`), stop(0),
		start(1, `{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`), stop(1), toolUse(2, "t1", "f"), jsonDelta(2, `{}`), stop(2),
	}, false, object("t1", "f", `{}`))
	// Gateways: every index 0, a tail under another index, no index.
	f("every index 0", []string{toolUse(0, "t1", "f"), jsonDelta(0, `{"a":1}`), stop(0), toolUse(0, "t2", "g"), jsonDelta(0, `{}`), stop(0)}, true,
		object("t1", "f", `{"a":1}`), object("t2", "g", `{}`))
	f("another index", []string{toolUse(0, "t1", "f"), jsonDelta(1, `{"a":1}`), stop(0)}, true, object("t1", "f", `{"a":1}`))
	f("huge and negative", []string{toolUse(-1, "t1", "f"), toolUse(1<<40, "t2", "g"), jsonDelta(-1, `{"a":1}`), jsonDelta(1<<40, `{"b":1}`)}, false,
		object("t1", "f", `{"a":1}`), object("t2", "g", `{"b":1}`))
	f("no index", []string{
		`{"type":"content_block_start","content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`,
		`{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop"}`,
	}, false, object("t1", "f", `{}`))
	f("a delta of nothing", []string{jsonDelta(3, `{}`)}, false)
	f("deltas of other types", []string{toolUse(0, "t1", "f"), delta(0, `{"type":"new_delta","partial_json":"x","text":"y"}`), delta(0, `[]`), delta(0, `{"type":"input_json_delta","partial_json":7}`)}, false,
		object("t1", "f", `{}`))
}

func TestAnthropicStreamEnds(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.Anthropic, "", body, text, want)
	}
	base := Response{ID: "msg_1", Model: "claude", Content: String, Choices: 1, InputTokens: 13, CachedTokens: 10, CacheReported: true, OutputTokens: 1}
	with := func(change func(*Response)) Response {
		r := base
		change(&r)
		return r
	}
	a := anthropicEvents(messageStart, start(0, `{"type":"text","text":""}`), delta(0, `{"type":"text_delta","text":"a\""}`))
	whole := with(func(r *Response) { r.FinishReason, r.OutputTokens = "tool_use", 9 })
	cut := with(func(r *Response) { r.Cut = true })
	f(a+anthropicEvents(messageDelta, messageStop), `a"`, whole)
	f(strings.ReplaceAll(a+anthropicEvents(messageDelta, messageStop), "\n", "\r\n"), `a"`, whole)
	f(a+anthropicEvents(messageDelta), `a"`, whole) // the client closed after the stop reason
	f(a+anthropicEvents(messageDelta)+"data: [DONE]\n\n", `a"`, whole)
	f(a+anthropicEvents(messageDelta, messageStop, delta(0, `{"type":"text_delta","text":"late"}`)), `a"`, whole)
	f(strings.ReplaceAll(a+anthropicEvents(messageDelta, messageStop), "\n\n", "\n"), `a"`, whole) // no empty lines
	f(a+anthropicEvents(stop(0), `{"type":"message_stop"}`), `a"`, base)
	f(anthropicEvents(messageStart), "", with(func(r *Response) { r.Content, r.Cut = Null, true }))
	// Event names without types.
	f("event: message_start\ndata: {\"message\":{\"content\":[]}}\n\nevent: message_stop\ndata: {}\n\n", "", Response{Content: Null, Choices: 1})
	// Cut between events and inside an event.
	f(a, `a"`, cut)
	f(a+anthropicEvents(stop(0)), `a"`, cut)
	f(a+"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"b", `a"`, cut)
	f(a+"data: {\"type\":\"pi\ndata: x\n\n"+anthropicEvents(messageStop), `a"`, with(func(r *Response) { r.Malformed = true }))
	f(": ping\n\n", "", Response{Cut: true})
	f(anthropicEvents(messageStart, toolUse(0, "t", "f")), "", with(func(r *Response) {
		r.Content, r.Cut, r.Calls = Null, true, []ResponseCall{{ID: "t", Name: "f", ArgsKind: String, Args: ArgsTruncated}}
	}))
	f(anthropicEvents(messageStart, toolUse(0, "t", "f"), jsonDelta(0, `{"a`)), "", with(func(r *Response) {
		r.Content, r.Cut, r.Calls = Null, true, []ResponseCall{{ID: "t", Name: "f", Arguments: `{"a`, ArgsKind: String, Args: ArgsTruncated}}
	}))
	// Errors in a 200.
	f(a+anthropicEvents(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), `a"`,
		with(func(r *Response) { r.Error = []byte(`{"type":"overloaded_error","message":"Overloaded"}`) }))
	f(a+"event: error\ndata: upstream closed\n\n", `a"`, with(func(r *Response) { r.Error = []byte(`upstream closed`) }))
	f("event: error\ndata: {\"message\":\"x\"}\n\n", "", Response{Error: []byte(`{"message":"x"}`)})
	f("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api", "", Response{Error: []byte(`{"type":"api`), Cut: true})
	// Thinking.
	f(anthropicEvents(messageStart, start(0, `{"type":"thinking"}`), delta(0, `{"type":"thinking_delta","thinking":"t"}`), messageDelta, messageStop), "", with(func(r *Response) {
		r.Content, r.Reasoning, r.FinishReason, r.OutputTokens = Null, String, "tool_use", 9
	}))
	// Not a stream of messages.
	f("data: {\"choices\":[]}\n\ndata: [DONE]\n\n", "", Response{Malformed: true})
	f(a+"data: nonsense\n\n"+anthropicEvents(messageStop), `a"`, with(func(r *Response) { r.Malformed = true }))
}

// anthropicFrames makes Bedrock's stream of events with this data.
func anthropicFrames(data ...string) string {
	var b []byte
	for _, d := range data {
		b = eventstream.Append(b, eventstream.Message{
			Type: []byte("event"), EventType: []byte("chunk"), ContentType: []byte("application/json"),
			Payload: []byte(`{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(d)) + `","p":"abcd"}`),
		})
	}
	return string(b)
}

func TestAnthropicFrames(t *testing.T) {
	events := []string{messageStart, start(0, `{"type":"text","text":""}`), delta(0, `{"type":"text_delta","text":"a"}`), toolUse(1, "t", "f"), jsonDelta(1, `{"a":1}`), stop(1), messageDelta}
	last := `{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}`
	whole := anthropicFrames(append(events, last)...)
	want := answerIn(t, wire.Anthropic, "", anthropicEvents(append(events, messageStop)...))
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.Anthropic, "", body, text, want)
	}
	f(whole, "a", want)
	f(whole[:len(whole)-1], "a", func() Response { r := want; r.Cut = true; return r }())
	open := anthropicFrames(messageStart, start(0, `{"type":"text","text":"a"}`))
	base := Response{ID: "msg_1", Model: "claude", Content: String, Choices: 1, InputTokens: 13, CachedTokens: 10, CacheReported: true, OutputTokens: 1}
	with := func(change func(*Response)) Response {
		r := base
		change(&r)
		return r
	}
	f(open, "a", with(func(r *Response) { r.Cut = true }))
	exception := func(m eventstream.Message) string { return string(eventstream.Append(nil, m)) }
	f(open+exception(eventstream.Message{Type: []byte("exception"), ExceptionType: []byte("throttlingException"), Payload: []byte(`{"message":"slow"}`)}), "a",
		with(func(r *Response) { r.Error = []byte(`{"message":"slow"}`) }))
	f(open+exception(eventstream.Message{Type: []byte("error"), ErrorCode: []byte("InternalError")}), "a", with(func(r *Response) { r.Error = []byte(`InternalError`) }))
	f(open+anthropicFrames(`{"type":"error","error":{"type":"x"}}`, `{"type":"ping","padding":"0123456789012345678901234567890"}`), "a", with(func(r *Response) { r.Error = []byte(`{"type":"x"}`) }))
	f(open+anthropicFrames(`{"type":"ping`)+anthropicFrames(last), "a", with(func(r *Response) { r.Malformed = true }))
	f(open+exception(eventstream.Message{Type: []byte("event"), Payload: []byte(`{"bytes":"?"}`)})+anthropicFrames(last), "a", with(func(r *Response) { r.Malformed = true }))
	f(open+strings.Repeat("x", 40), "a", with(func(r *Response) { r.Cut, r.Malformed = true, true }))
}

// Hostile streams take linear time.
func TestAnthropicStreamBounds(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxAnswerCalls {
		b.WriteString(anthropicEvents(toolUse(i, fmt.Sprint(i), "f"), jsonDelta(i, `{}`)))
	}
	if r := answerIn(t, wire.Anthropic, "", b.String()); len(r.Calls) != maxAnswerCalls || !r.Malformed || r.BadIndex || r.Calls[maxAnswerCalls-1].Arguments != "{}" {
		t.Errorf("%d calls, malformed %v, bad index %v", len(r.Calls), r.Malformed, r.BadIndex)
	}
	nested := strings.Repeat(`{"type":"message_start","message":`, 1<<20) + `{}` + strings.Repeat(`}`, 1<<20)
	begun := time.Now()
	answerIn(t, wire.Anthropic, "", nested)
	answerIn(t, wire.Anthropic, "", strings.Repeat("data: "+jsonDelta(-5, `{`)+"\n\n", 1<<16))
	t.Logf("took %v", time.Since(begun))
}

func FuzzScanAnthropicAnswer(f *testing.F) {
	f.Add("", []byte(`{"type":"message","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}],"usage":{"input_tokens":1}}`))
	f.Add("", []byte(`[{"error":{"code":1}}]`))
	f.Add("text/event-stream", []byte(anthropicStream(start(0, `{"type":"thinking"}`), delta(0, `{"type":"signature_delta","signature":"s"}`), toolUse(1, "t", "f"), jsonDelta(1, `{"a":"`), jsonDelta(1, `\n"}`), stop(1))))
	f.Add("application/vnd.amazon.eventstream", []byte(anthropicFrames(messageStart, toolUse(0, "t", "f"), jsonDelta(0, `{}`), messageStop)))
	f.Add("", []byte("event: error\ndata: x\n\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		r := answerIn(t, wire.Anthropic, contentType, string(body))
		if len(r.Calls) > maxAnswerCalls || r.Choices > 1 || r.Content == String != (r.ContentHash != 0) || len(r.Signed) > 1 {
			t.Errorf("%q: %+v", body, r)
		}
		for _, c := range r.Calls {
			if c.ArgsKind == Object && c.Args != ArgsObject || c.ArgsKind == String && c.Args == ArgsObject && c.Arguments == "" {
				t.Errorf("%q: call %+v", body, c)
			}
		}
	})
}
