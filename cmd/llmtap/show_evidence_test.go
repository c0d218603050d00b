package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/filetest"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// An evidenceStep is one exchange: the messages of the request and the message of the answer, or an error text.
type evidenceStep struct{ request, answer string }

const (
	deepSeekURL = "https://api.deepseek.com/chat/completions"
	mistralURL  = "https://api.mistral.ai/v1/chat/completions"

	askPort = `{"role":"system","content":"You plan."},{"role":"user","content":"Which port does the server use?"}`
	reads   = `{"role":"assistant","content":null,"tool_calls":[{"id":"call_8Kq2","type":"function","function":{"name":"read","arguments":"{\"path\":\"config.py\"}"}}]}`
	reads2  = `{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_8Kq2","type":"function","function":{"name":"read","arguments":"{\"path\":\"config.py\"}"}},` +
		`{"id":"call_9Xw1","type":"function","function":{"name":"list","arguments":"{}"}}]}`
	port80 = `{"role":"tool","tool_call_id":"call_8Kq2","content":"PORT = 80"}`
	files  = `{"role":"tool","tool_call_id":"call_9Xw1","content":"config.py main.py"}`
	hurry  = `{"role":"user","content":"Well?"}`
)

// withArguments returns a call whose arguments are the JSON value.
func withArguments(value string) string {
	return `{"role":"assistant","content":"","tool_calls":[{"id":"call_8Kq2","type":"function","function":{"name":"read","arguments":` + value + `}}]}`
}

// evidenceScenes contains a conversation for each root cause whose evidence looks different.
var evidenceScenes = []struct {
	name, url, capture string
	steps              []evidenceStep
}{
	{"the answer saved as role and content", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + `,{"role":"assistant","content":""},` + port80, ""}}},
	{"the same as a shape", deepSeekURL, event.CaptureShape, []evidenceStep{{askPort, reads}, {askPort + `,{"role":"assistant","content":""},` + port80, ""}}},
	{"one of two calls saved", chatURL, event.CaptureFull, []evidenceStep{{askPort, reads2}, {askPort + "," + reads + "," + port80 + "," + files, ""}}},
	{"the history cut", deepSeekURL, event.CaptureFull, []evidenceStep{
		{askPort, reads2},
		{askPort + "," + reads2 + "," + port80 + "," + files, `{"role":"assistant","content":"Port 80."}`},
		{`{"role":"system","content":"You plan."},` + files + "," + hurry, ""},
	}},
	{"a call without a reply", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads2}, {askPort + "," + reads2 + "," + port80 + "," + hurry, ""}}},
	{"a message between call and reply", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + reads + `,{"role":"system","content":"Be brief."},` + port80, ""}}},
	{"calls split over messages", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads2}, {askPort + "," + reads + "," +
		strings.ReplaceAll(strings.ReplaceAll(reads, "call_8Kq2", "call_9Xw1"), `"read"`, `"list"`) + "," + port80 + "," + files, ""}}},
	{"two different replies", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + reads + "," + port80 + "," + strings.ReplaceAll(port80, "80", "8080"), ""}}},
	{"the turn appended twice", deepSeekURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + reads + "," + port80 + "," + reads + "," + port80, ""}}},
	{"one id for two calls", deepSeekURL, event.CaptureFull, []evidenceStep{
		{askPort, strings.ReplaceAll(reads2, "call_9Xw1", "call_8Kq2")}, {askPort + "," + strings.ReplaceAll(reads2, "call_9Xw1", "call_8Kq2") + "," + port80, ""},
	}},
	{"new ids for the calls", chatURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + strings.ReplaceAll(reads, "call_8Kq2", "tool_1") + "," + port80, ""}}},
	{"another id in the reply", chatURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + reads + "," + strings.ReplaceAll(port80, "call_8Kq2", "read"), ""}}},
	{"no id in the reply", chatURL, event.CaptureFull, []evidenceStep{{askPort, reads}, {askPort + "," + reads + `,{"role":"tool","content":"PORT = 80"}`, ""}}},
	{"arguments as an object", chatURL, event.CaptureFull, []evidenceStep{
		{askPort, withArguments(`"{\"path\": \"config.py\", \"lines\": 10}"`)}, {askPort + "," + withArguments(`{"path":"config.py","lines":10}`) + "," + port80, ""},
	}},
	{"long arguments cut by the token limit", chatURL, event.CaptureFull, []evidenceStep{
		{askPort, "length " + withArguments(longArguments)}, {askPort + "," + withArguments(longArguments) + "," + port80, ""},
	}},
	{"arguments that are not JSON", chatURL, event.CaptureFull, []evidenceStep{{askPort, withArguments(`"{'path': 1}"`)}, {askPort + "," + withArguments(`"{'path': 1}"`) + "," + port80, ""}}},
	{"a stream assembled wrongly", chatURL, event.CaptureFull, []evidenceStep{{askPort, reads2}, {askPort + "," + withArguments(`"{\"path\":\"config.py\"}{}"`) + "," + port80, ""}}},
	{"reasoning stripped", anthropicURL, event.CaptureFull, []evidenceStep{
		{`{"role":"user","content":"Which port?"}`, `{"type":"thinking","thinking":"The file says it.","signature":"EqQBCkYIARgCKkBz"},{"type":"tool_use","id":"toolu_01","name":"read","input":{"path":"config.py"}}`},
		{`{"role":"user","content":"Which port?"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_01","name":"read","input":{"path":"config.py"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"PORT = 80"}]}`, ""},
	}},
	{"a call item not saved", responsesURL, event.CaptureFull, []evidenceStep{
		{`{"role":"user","content":"Which port?"}`, `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{}"},{"type":"function_call","id":"fc_2","call_id":"call_2","name":"list","arguments":"{}"}`},
		{`{"role":"user","content":"Which port?"},{"type":"function_call","call_id":"call_1","name":"read","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"call_1","output":"80"},{"type":"function_call_output","call_id":"call_2","output":"a b"}`, ""},
	}},
	{"an unknown field", mistralURL, event.CaptureFull, []evidenceStep{{`{"role":"system","content":"You plan.","metadata":{}},{"role":"user","content":"Which port?","metadata":{}}`, ""}}},
	{"a call of Gemini not saved", geminiURL, event.CaptureFull, []evidenceStep{
		{`{"role":"user","parts":[{"text":"Which port?"}]}`, `{"functionCall":{"name":"read","args":{"path":"config.py"}},"thoughtSignature":"CpcBAdHtim9"}`},
		{`{"role":"user","parts":[{"text":"Which port?"}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"port":80}}}]}`, ""},
	}},
	{"a signature of Gemini not saved", geminiURL, event.CaptureFull, []evidenceStep{
		{`{"role":"user","parts":[{"text":"Which port?"}]}`, `{"functionCall":{"name":"read","args":{"path":"config.py"}},"thoughtSignature":"CpcBAdHtim9"}`},
		{`{"role":"user","parts":[{"text":"Which port?"}]},{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"config.py"}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"port":80}}}]}`, ""},
	}},
	{"a streamed answer", chatURL, event.CaptureFull, []evidenceStep{
		{askPort, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Let me look."}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_8Kq2","type":"function","function":{"name":"read","arguments":"{\"path\":"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"config.py\"}"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"},
		{askPort + `,{"role":"assistant","content":"Let me look."},` + port80, ""},
	}},
}

var longArguments = strconv.Quote(`{"path": "config.py", "text": "` + strings.Repeat("All work and no play makes Jack a dull boy. ", 40))

// play sends the conversation of a scene.
func (s showTest) play(conversation, url, capture string, steps []evidenceStep) {
	shaper := shape.New([]byte("k"))
	dialect := map[string]wire.Dialect{anthropicURL: wire.Anthropic, responsesURL: wire.OpenAIResponses, geminiURL: wire.Gemini}[url]
	for _, step := range steps {
		request, answer, status := `{"model":"m","`+dialect.Descriptor().Messages+`":[`+step.request+`]}`, "", 200
		finish := "tool_calls"
		said, cut := strings.CutPrefix(step.answer, "length ")
		if cut {
			finish = "length"
		}
		switch {
		case said == "":
			answer, status = `{"error":{"message":"Bad request.","type":"invalid_request_error"}}`, 400
		case strings.HasPrefix(said, "data:"):
			answer = said
		case dialect == wire.Anthropic:
			answer = `{"type":"message","role":"assistant","model":"m","content":[` + said + `],"stop_reason":"tool_use"}`
		case dialect == wire.Gemini:
			answer = `{"candidates":[{"content":{"role":"model","parts":[` + said + `]},"finishReason":"STOP"}]}`
		case dialect == wire.OpenAIResponses:
			answer = `{"object":"response","status":"completed","output":[` + said + `]}`
		default:
			answer = `{"choices":[{"index":0,"message":` + strings.TrimSuffix(said, "}") + `,"refusal":null,"annotations":[]},"finish_reason":"` + finish + `"}]}`
		}
		if dialect == wire.Anthropic {
			request = `{"model":"claude-opus-4-1","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[` + step.request + `]}`
		}
		if capture == event.CaptureShape {
			request = string(shaper.Request(wire.OpenAIChat, []byte(request), 1<<20))
			answer = string(shaper.Response(wire.OpenAIChat, []byte(answer), 1<<20))
		}
		s.send(conversation, url, capture, status, request, answer)
	}
}

// columns80 is the environment of a terminal with 80 columns.
func columns80(name string) string {
	if name == "COLUMNS" {
		return "80"
	}
	return ""
}

// pageURL is the address of a page, whose port differs.
var pageURL = regexp.MustCompile(`(The page: http://127\.0\.0\.1:)\d+`)

var clockTime = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

// The evidence of each root cause, as a user reads it in 80 columns, is testdata/evidence.txt.
//
//	go test ./cmd/llmtap -run TestShowEvidence -update
func TestShowEvidence(t *testing.T) {
	t.Parallel()
	s := showTest{newCommandTest(t)}
	for i, scene := range evidenceScenes {
		s.play(fmt.Sprintf("scene-%d", i), scene.url, scene.capture, scene.steps)
	}
	s.waitStored(s.n)
	var all strings.Builder
	for i, scene := range evidenceScenes {
		var stdout, stderr strings.Builder
		args := []string{"show", fmt.Sprintf("scene-%d", i), "--utc", "--data-dir", s.up.dir}
		must.Do(t, run(t.Context(), args, nil, &stdout, &stderr, columns80), scene.name, &stderr)
		out := stdout.String()
		narrow(t, scene.name, out)
		fmt.Fprintf(&all, "======== %s\n%s\n", scene.name, clockTime.ReplaceAllString(pageURL.ReplaceAllString(out, "${1}8090"), "2026-11-20 05:07:02"))
	}
	file := filepath.Join("testdata", "evidence.txt")
	if *update {
		filetest.Write(t, file, all.String())
	}
	want := filetest.Read(t, file)
	must.Agree(t, cmp.Diff(string(want), all.String()))
	for i, scene := range evidenceScenes {
		s.checkRepairs(t, scene.name, fmt.Sprintf("scene-%d", i))
	}
}
