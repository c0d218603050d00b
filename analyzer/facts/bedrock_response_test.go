package facts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

const amazonStream = "application/vnd.amazon.eventstream"

func TestBedrockUnary(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.Bedrock, "application/json", body, text, want)
	}
	blocks := func(content, text string, want Response) {
		t.Helper()
		want.Choices, want.FinishReason = 1, "end_turn"
		f(`{"metrics":{"latencyMs":1},"output":{"message":{"content":[`+content+`],"role":"assistant"}},"stopReason":"end_turn"}`, text, want)
	}
	call := func(id, name, args string, kind Kind, verdict Args) ResponseCall {
		return ResponseCall{ID: id, Name: name, Arguments: args, ArgsKind: kind, Args: verdict}
	}
	blocks(``, "", Response{Content: Null})
	blocks(`{"text":"a\n"},{"citationsContent":{"content":[{"text":"b"}],"citations":[]}},{"text":"c"}`, "a\nbc", Response{Content: String})
	blocks(`{"text":"a"},{"toolUse":{"toolUseId":"t1","name":"f","input":{"x": 1},"type":"tool_use"}},{"toolUse":{"toolUseId":"t2","name":"g","input":{}}}`, "a",
		Response{Content: String, Calls: []ResponseCall{call("t1", "f", `{"x": 1}`, Object, ArgsObject), call("t2", "g", `{}`, Object, ArgsObject)}})
	blocks(`{"toolUse":{"toolUseId":"t1","name":"f","input":"{\"a\":"}},{"toolUse":{"name":"g"}},{"toolUse":{"input":null}}`, "", Response{
		Content: Null, Calls: []ResponseCall{call("t1", "f", `{"a":`, String, ArgsTruncated), call("", "g", "", Absent, 0), call("", "", "null", Null, 0)},
	})
	blocks(`{"toolUse":{"toolUseId":"t1","name":"nova_grounding","input":{},"type":"server_tool_use"}},{"toolResult":{"toolUseId":"t1"}},{"text":"a"},3`, "a", Response{Content: String})
	one, two := xxh3.HashString("s/1"), xxh3.HashString("two")
	blocks(`{"reasoningContent":{"reasoningText":{"text":"r","signature":"s\/1"}}},{"reasoningContent":{"redactedContent":"two"}}`, "",
		Response{Content: Null, Reasoning: String, Signed: []Signed{{Hash: bits.RotateLeft64(one, 1) ^ two}}})
	blocks(`{"reasoningContent":{"reasoningText":{"text":"r"}}}`, "", Response{Content: Null, Reasoning: String})

	f(`{"output":{"message":{"content":[]}},"stopReason":"max_tokens","usage":{"inputTokens":5,"outputTokens":7,"totalTokens":42,`+
		`"cacheReadInputTokens":20,"cacheReadInputTokenCount":20,"cacheWriteInputTokens":10}}`, "",
		Response{Choices: 1, Content: Null, FinishReason: "max_tokens", InputTokens: 35, OutputTokens: 7, CachedTokens: 20, CacheWritten: 10, CacheReported: true})
	// Errors of AWS and of its gateways.
	failed := func(body string, malformed bool) {
		t.Helper()
		f(body, "", Response{Error: []byte(body), Malformed: malformed})
	}
	failed(`{"message":"The security token included in the request is invalid."}`, false)
	failed(`{"__type":"ValidationException"}`, false)
	failed(`{"Message":"Missing Authentication Token"}`, false)
	failed(`{"detail":"no"}`, true)
	failed(`[1]`, true)
	failed(`<html>`, true)
	failed(``, true)
	f(`{"error":{"code":502}}`, "", Response{Error: []byte(`{"code":502}`)})
	f(`{"output":{"message":{"content":"a"}}}`, "", Response{Choices: 1, Malformed: true})
	f(`{"output":{"message":{"content":[{"text":"a"},{"toolUse":{"toolUseId":"t1","name":"f`, "a", Response{Choices: 1, Content: String, Cut: true, Malformed: true})
}

// event makes a frame of a stream.
func event(name, payload string) string {
	return string(eventstream.Append(nil, eventstream.Message{
		Type: []byte("event"), EventType: []byte(name), ContentType: []byte("application/json"), Payload: []byte(payload),
	}))
}

// bedrockDelta makes a contentBlockDelta of block i.
func bedrockDelta(i int, delta string) string {
	return event("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":%s,"p":"abc"}`, i, delta))
}

func bedrockStart(i int, start string) string {
	return event("contentBlockStart", fmt.Sprintf(`{"start":%s,"contentBlockIndex":%d}`, start, i))
}

func bedrockStop(i int) string {
	return event("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d}`, i))
}

const bedrockUsage = `{"metrics":{},"usage":{"inputTokens":5,"outputTokens":7,"totalTokens":12}}`

func TestBedrockStream(t *testing.T) {
	begin, end := event("messageStart", `{"p":"ab","role":"assistant"}`), event("messageStop", `{"stopReason":"tool_use"}`)+event("metadata", bedrockUsage)
	f := func(blocks, text string, want Response) {
		t.Helper()
		want.Choices, want.FinishReason, want.InputTokens, want.OutputTokens = 1, "tool_use", 5, 7
		want.Content = max(want.Content, Null)
		checkAnswerIn(t, wire.Bedrock, amazonStream, begin+blocks+end, text, want)
		checkAnswerIn(t, wire.Bedrock, "", begin+blocks+end, text, want)
	}
	use := func(i int, id, name string) string {
		return bedrockStart(i, fmt.Sprintf(`{"toolUse":{"name":%q,"toolUseId":%q}}`, name, id))
	}
	input := func(i int, text string) string {
		return bedrockDelta(i, fmt.Sprintf(`{"toolUse":{"input":%q}}`, text))
	}
	f("", "", Response{})
	f(bedrockDelta(0, `{"text":"a\u003c"}`)+bedrockDelta(0, `{"text":"b"}`)+bedrockDelta(0, `{"citation":{"sourceContent":[{"text":"x"}]}}`)+bedrockStop(0), "a<b", Response{Content: String})
	f(use(0, "t1", "f")+input(0, `{"a":`)+input(0, `"\n"}`)+bedrockStop(0)+use(1, "t2", "g")+input(1, "")+bedrockStop(1)+use(2, "t3", "g")+bedrockStop(2), "",
		Response{Calls: []ResponseCall{
			{ID: "t1", Name: "f", Arguments: `{"a":"\n"}`, ArgsKind: Object, Args: ArgsObject},
			{ID: "t2", Name: "g", Arguments: `{}`, ArgsKind: Object, Args: ArgsObject},
			{ID: "t3", Name: "g", Arguments: `{}`, ArgsKind: Object, Args: ArgsObject},
		}})
	f(use(0, "t1", "f")+input(0, `{"a":`)+use(1, "t2", "g")+input(1, "1")+input(0, "1}"), "", Response{Calls: []ResponseCall{
		{ID: "t1", Name: "f", Arguments: `{"a":1}`, ArgsKind: Object, Args: ArgsObject},
		{ID: "t2", Name: "g", Arguments: `1`, ArgsKind: String, Args: ArgsNotObject},
	}})
	f(use(0, "t1", "f")+input(0, `{"a":`)+bedrockStop(0), "", Response{Calls: []ResponseCall{{ID: "t1", Name: "f", Arguments: `{"a":`, ArgsKind: String, Args: ArgsTruncated}}})
	f(use(0, "t1", "f")+bedrockDelta(0, `{"toolUse":{"input":{"a":1}}}`), "", Response{Calls: []ResponseCall{{ID: "t1", Name: "f", Arguments: `{"a":1}`, ArgsKind: Object, Args: ArgsObject}}})
	f(use(0, "t1", "f")+input(1, `{}`), "", Response{BadIndex: true, Calls: []ResponseCall{{ID: "t1", Name: "f", Arguments: `{}`, ArgsKind: Object, Args: ArgsObject}}})
	// A tool that AWS runs.
	f(bedrockStart(0, `{"toolUse":{"name":"nova_grounding","toolUseId":"t1","type":"server_tool_use"}}`)+input(0, `{"q":1}`)+bedrockStop(0)+
		bedrockStart(1, `{"toolResult":{"toolUseId":"t1","status":"success"}}`)+bedrockDelta(1, `{"toolResult":[{"text":"x"}]}`)+bedrockStop(1)+
		bedrockDelta(2, `{"text":"a"}`), "a", Response{Content: String})
	one, two := xxh3.HashString("sig1"), xxh3.HashString("two")
	f(bedrockDelta(0, `{"reasoningContent":{"text":"r"}}`)+bedrockDelta(0, `{"reasoningContent":{"signature":"si"}}`)+bedrockDelta(0, `{"reasoningContent":{"signature":"g1"}}`)+
		bedrockStop(0)+bedrockDelta(1, `{"reasoningContent":{"redactedContent":"two"}}`)+bedrockStop(1), "",
		Response{Reasoning: String, Signed: []Signed{{Hash: bits.RotateLeft64(one, 1) ^ two}}})
	f(event("ping", `nonsense`)+event("", ``), "", Response{})
	f(event("contentBlockDelta", `nonsense`), "", Response{Malformed: true})
	f(event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"a"`), "", Response{Malformed: true})
}

func TestBedrockStreamEnds(t *testing.T) {
	begin := event("messageStart", `{"role":"assistant"}`) + bedrockDelta(0, `{"text":"a"}`)
	f := func(body, text string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.Bedrock, amazonStream, body, text, want)
	}
	exception := func(kind, payload string) string {
		return string(eventstream.Append(nil, eventstream.Message{
			Type: []byte("exception"), ExceptionType: []byte(kind), ContentType: []byte("application/json"), Payload: []byte(payload),
		}))
	}
	begun := func(err string, cut, malformed bool) Response {
		return Response{Choices: 1, Content: String, Error: []byte(err), Cut: cut, Malformed: malformed}
	}
	f(begin, "a", begun("", true, false))
	f(begin+bedrockDelta(0, `{"text":"bc"}`)[:60], "a", begun("", true, false))
	f(begin+strings.Repeat("x", 100), "a", begun("", true, true))
	// The exception's type is in its header; it is added to the payload, as in a unary answer.
	f(begin+exception("modelStreamErrorException", ` {"message":"Oops","originalStatusCode":500}`), "a",
		begun(`{"__type":"modelStreamErrorException","message":"Oops","originalStatusCode":500}`, false, false))
	f(begin+exception("throttlingException", `{ }`), "a", begun(`{"__type":"throttlingException"}`, false, false))
	f(begin+exception("throttlingException", ``), "a", begun(`{"__type":"throttlingException"}`, false, false))
	f(begin+exception(`a"b`, `{"mess`), "a", begun(`{"__type":"a\"b","message":"{\"mess"}`, false, false))
	f(exception("validationException", `{"message":"No"}`), "", Response{Error: []byte(`{"__type":"validationException","message":"No"}`)})
	f(string(eventstream.Append(nil, eventstream.Message{Type: []byte("error"), ErrorCode: []byte("InternalError"), ErrorMessage: []byte("Oops")})), "",
		Response{Error: []byte(`{"__type":"InternalError","message":"Oops"}`)})
	// Not a stream.
	f(`{"message":"No"}`, "", Response{Error: []byte(`{"message":"No"}`)})
	f("<html>502 Bad Gateway</html>\n", "", Response{Error: []byte("<html>502 Bad Gateway</html>"), Malformed: true})
	f("", "", Response{Cut: true})
	f(event("metadata", bedrockUsage), "", Response{Cut: true, Malformed: true, InputTokens: 5, OutputTokens: 7})
	f(event("chunk", `{"bytes":"e30="}`), "", Response{Cut: true, Malformed: true})

	// Without its usage an answer is complete; without its messageStop it is cut.
	whole := begin + bedrockStop(0) + event("messageStop", `{"stopReason":"end_turn"}`)
	stream := whole + event("metadata", bedrockUsage)
	for n := range len(stream) + 1 {
		if r := answerIn(t, wire.Bedrock, amazonStream, stream[:n]); r.Cut != (n < len(whole)) || r.Malformed || len(r.Error) > 0 {
			t.Fatalf("%d of %d bytes: %+v", n, len(stream), r)
		}
	}
}

// An answer that is sent back unchanged has the hashes of the answer, unary or streamed.
func TestBedrockAnswerEqualsCopy(t *testing.T) {
	message := `{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"r","signature":"c2ln\/Q=="}}},` +
		`{"reasoningContent":{"redactedContent":"cmVk"}},{"text":"I read \u003ca.go\u003e and "},{"text":"then b.go.\n"},` +
		`{"toolUse":{"toolUseId":"t1","name":"read","input":{"path":"a.go"}}}]}`
	m := bedrockMessageOf(t, message)
	unary := answerIn(t, wire.Bedrock, "", `{"output":{"message":`+message+`},"stopReason":"tool_use"}`)
	stream := answerIn(t, wire.Bedrock, "", event("messageStart", `{"role":"assistant"}`)+
		bedrockDelta(0, `{"reasoningContent":{"text":"r"}}`)+bedrockDelta(0, `{"reasoningContent":{"signature":"c2ln/Q=="}}`)+bedrockStop(0)+
		bedrockDelta(1, `{"reasoningContent":{"redactedContent":"cmVk"}}`)+bedrockStop(1)+
		bedrockDelta(2, `{"text":"I read <a"}`)+bedrockDelta(2, `{"text":".go> and "}`)+bedrockStop(2)+bedrockDelta(3, `{"text":"then b.go.\n"}`)+bedrockStop(3)+
		bedrockStart(4, `{"toolUse":{"toolUseId":"t1","name":"read"}}`)+bedrockDelta(4, `{"toolUse":{"input":"{\"path\":\"a.go\"}"}}`)+bedrockStop(4)+
		event("messageStop", `{"stopReason":"tool_use"}`))
	must.Agree(t, cmp.Diff(unary, stream, cmpopts.EquateEmpty()), "(-unary +stream)")
	if m.ContentHash == 0 || m.ContentHash != unary.ContentHash || m.Signed == 0 || unary.Signed[0] != (Signed{Hash: m.Signed}) ||
		string(m.Calls[0].ID) != unary.Calls[0].ID {
		t.Errorf("message %+v\nanswer %+v", m, unary)
	}
}

// refBedrockAnswer decodes a valid answer with encoding/json: its joined texts and its calls.
func refBedrockAnswer(t *testing.T, body []byte) (text string, calls []ResponseCall, stop string) {
	t.Helper()
	type toolUse struct {
		ToolUseID, Name, Type string
		Input                 json.RawMessage
	}
	type part struct {
		Text             *string
		ToolUse          *toolUse
		CitationsContent struct{ Content []struct{ Text string } }
	}
	if body[0] == '{' {
		var unary struct {
			Output     struct{ Message struct{ Content []part } }
			StopReason string
		}
		must.Do(t, json.Unmarshal(body, &unary))
		for _, p := range unary.Output.Message.Content {
			if p.Text != nil {
				text += *p.Text
			}
			for _, c := range p.CitationsContent.Content {
				text += c.Text
			}
			if p.ToolUse != nil && p.ToolUse.Type != "server_tool_use" {
				calls = append(calls, ResponseCall{ID: p.ToolUse.ToolUseID, Name: p.ToolUse.Name, Arguments: string(p.ToolUse.Input)})
			}
		}
		return text, calls, unary.StopReason
	}
	server := false
	for m, err := range eventstream.Messages(body) {
		var e struct {
			Start, Delta part
			StopReason   string
		}
		if err == nil && !bytes.Contains(m.Payload, []byte(`"delta":{"toolResult"`)) {
			err = json.Unmarshal(m.Payload, &e)
		}
		must.Do(t, err)
		stop += e.StopReason
		if e.Delta.Text != nil {
			text += *e.Delta.Text
		}
		if u := e.Start.ToolUse; u != nil {
			if server = u.Type == "server_tool_use"; !server {
				calls = append(calls, ResponseCall{ID: u.ToolUseID, Name: u.Name})
			}
		}
		if u := e.Delta.ToolUse; u != nil && !server {
			piece := must.JSON[string](t, u.Input)
			calls[len(calls)-1].Arguments += piece
		}
	}
	return text, calls, stop
}

// bedrockBody returns the recorded answer as it was on the wire.
func bedrockBody(t testing.TB, e *exchange) []byte {
	t.Helper()
	body := e.body(t)
	if e.Encoding != "base64" {
		return body
	}
	return must.Get(base64.StdEncoding.DecodeString(string(body)))(t)
}

func TestBedrockRecordedAnswers(t *testing.T) {
	answers, streams, failures := 0, 0, 0
	exchanges(t, "bedrock.converse", func(e *exchange) {
		body := bedrockBody(t, e)
		r := answerIn(t, wire.Bedrock, "", string(body))
		if r.Malformed || r.Cut || r.BadIndex {
			t.Errorf("%s: %+v", e.ID, r)
		}
		if e.Status >= 400 {
			failures++
			must.Equal(t, string(r.Error), string(body), "%s: error", e.ID)
			return
		}
		answers++
		if e.Encoding == "base64" {
			streams++
		}
		text, calls, stop := refBedrockAnswer(t, body)
		hash := uint64(0)
		if r.Content == String {
			hash = xxh3.HashString(text)
		}
		for i := range calls {
			calls[i].ArgsKind, calls[i].Args = Object, ArgsObject
			if calls[i].Arguments == "" {
				calls[i].Arguments = "{}"
			}
		}
		if diff := cmp.Diff(calls, r.Calls); diff != "" || r.ContentHash != hash || r.ContentBytes != len(text) || r.FinishReason != stop || stop == "" || r.InputTokens == 0 {
			t.Errorf("%s: %+v (-reference +scan):\n%s", e.ID, r, diff)
		}
	})
	if answers < 100 || streams < 15 || failures < 15 {
		t.Errorf("%d answers, %d of them streams, %d failures", answers, streams, failures)
	}
}

// bedrockFrames makes an event of each line: name, space, payload.
func bedrockFrames(text string) (body []byte) {
	for line := range strings.SplitSeq(text, "\n") {
		name, payload, _ := strings.Cut(line, " ")
		m := eventstream.Message{Type: []byte("event"), EventType: []byte(name), Payload: []byte(payload)}
		if strings.HasSuffix(name, "Exception") {
			m = eventstream.Message{Type: []byte("exception"), ExceptionType: []byte(name), Payload: []byte(payload)}
		}
		body = eventstream.Append(body, m)
	}
	return body
}

func FuzzScanBedrockAnswer(f *testing.F) {
	f.Add(`{"output":{"message":{"content":[{"text":"a\n"},{"toolUse":{"toolUseId":"t","name":"f","input":{}}},{"reasoningContent":{"redactedContent":"x"}}]}},"usage":{"inputTokens":1}}`)
	f.Add(`{"message":"no","__type":"x","error":{},"output":{"message":{"content":{}}}}`)
	f.Add("messageStart {\"role\":\"assistant\"}\ncontentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"a\"}}\ncontentBlockStop {}\nmessageStop {\"stopReason\":\"end_turn\"}\nmetadata {\"usage\":{}}")
	f.Add("contentBlockStart {\"start\":{\"toolUse\":{\"toolUseId\":\"t\",\"name\":\"f\"}}}\ncontentBlockDelta {\"delta\":{\"toolUse\":{\"input\":\"{\"}}}\nthrottlingException {\"message\":\"x\"}")
	f.Add("contentBlockDelta {\"delta\":{\"reasoningContent\":{\"signature\":\"s\"}},\"contentBlockIndex\":3}\ncontentBlockStop {\"contentBlockIndex\":3}\nxException {")
	f.Fuzz(func(t *testing.T, text string) {
		for _, body := range [][]byte{[]byte(text), bedrockFrames(text)} {
			before := bytes.Clone(body)
			var r Response
			must.Do(t, ScanResponse(wire.Bedrock, "", body, &r))
			if !bytes.Equal(body, before) {
				t.Fatalf("%q changed to %q", before, body)
			}
			if (r.Content == String) != (r.ContentHash != 0) || len(r.Signed) > 1 || r.Choices > 1 {
				t.Errorf("%q: %+v", body, r)
			}
			for _, c := range r.Calls {
				if c.ArgsKind == Object && c.Args != ArgsObject {
					t.Errorf("%q: %+v", body, c)
				}
			}
			if ok := len(r.Error) == 0 && !r.Cut && !r.Malformed; ok && r.Choices != 1 {
				t.Errorf("%q: neither an answer nor an error", body)
			}
			// The error of an exception is JSON if its text is.
			if bytes.HasPrefix(r.Error, []byte(`{"__type":"`)) && json.Valid([]byte(text)) && !json.Valid(r.Error) {
				t.Errorf("%q: error %s", body, r.Error)
			}
		}
	})
}
