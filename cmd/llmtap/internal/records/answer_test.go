package records

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestAnswer(t *testing.T) {
	f := func(d wire.Dialect, body string, want ...string) {
		t.Helper()
		var got []string
		for _, m := range Answer(d, []byte(body)) {
			got = append(got, string(m))
		}
		must.Agree(t, cmp.Diff(want, got), body)
	}
	f(wire.OpenAIChat, `{"choices":[{"message":{"role":"assistant", "content":null}}]}`, `{"role":"assistant", "content":null}`)
	f(wire.OpenAIChat, "data: {\"choices\":[{\"delta\":{\"content\":\"<a>\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		`{"content":"<a>b","role":"assistant"}`)
	f(wire.OpenAIChat, "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"so\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n",
		`{"content":"b","reasoning_content":"so","role":"assistant"}`)
	f(wire.Anthropic, `{"type":"message","content":[{"type":"text","text":"a"}]}`, `{"content":[{"type":"text","text":"a"}],"role":"assistant"}`)
	f(wire.OpenAIResponses, `{"output":[{"type":"reasoning"},{"type":"message"}]}`, `{"type":"reasoning"}`, `{"type":"message"}`)
	f(wire.OpenAIResponses, "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"message\"}}\n\n", `{"type":"message"}`)
	f(wire.Gemini, `[{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]}}]},{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}]`,
		`{"parts":[{"text":"ab"}],"role":"model"}`)
	f(wire.Interactions, "data: {\"index\":0,\"step\":{\"type\":\"thought\",\"signature\":\"\"},\"event_type\":\"step.start\"}\n\n"+
		"data: {\"index\":0,\"delta\":{\"type\":\"thought_summary\",\"content\":{\"type\":\"text\",\"text\":\"so\"}},\"event_type\":\"step.delta\"}\n\n"+
		"data: {\"index\":0,\"delta\":{\"type\":\"thought_signature\",\"signature\":\"E\"},\"event_type\":\"step.delta\"}\n\n"+
		"data: {\"index\":1,\"step\":{\"type\":\"function_call\",\"id\":\"c\",\"arguments\":{}},\"event_type\":\"step.start\"}\n\n"+
		"data: {\"index\":1,\"delta\":{\"type\":\"arguments_delta\",\"arguments\":\"{\\\"a\\\":\"},\"event_type\":\"step.delta\"}\n\n"+
		"data: {\"index\":1,\"delta\":{\"type\":\"arguments_delta\",\"arguments\":\"1}\"},\"event_type\":\"step.delta\"}\n\n"+
		"data: {\"index\":2,\"step\":{\"type\":\"model_output\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},\"event_type\":\"step.start\"}\n\n"+
		"data: {\"index\":2,\"delta\":{\"type\":\"text\",\"text\":\"b\"},\"event_type\":\"step.delta\"}\n\n"+
		"data: {\"interaction\":{\"status\":\"requires_action\"},\"event_type\":\"interaction.completed\"}\n\n",
		`{"signature":"E","summary":[{"type":"text","text":"so"}],"type":"thought"}`, `{"arguments":{"a":1},"id":"c","type":"function_call"}`,
		`{"content":[{"text":"ab","type":"text"}],"type":"model_output"}`)
	f(wire.OpenAIChat, `{"error":{"message":"no"}}`)
	f(wire.OpenAIChat, "Bad gateway")
	f(wire.OpenAIChat, "")
	f(wire.Other, `{"choices":[{"message":{}}]}`)
	for _, d := range wire.Dialects {
		row := dialect.Of(d)
		said := row.Answer("a")
		f(d, string(encode(row.Response(&dialect.Response{Messages: said, Example: true}))), string(encode(said[0])))
	}
}

// The answers of recorded traffic have the calls and the text that package facts finds in them.
func TestAnswerRecorded(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "..", "..", "..", "shared", "data", "exchanges.jsonl.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no recorded traffic")
	} else if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z := must.Get(gzip.NewReader(file))(t)
	compared := map[wire.Dialect]int{}
	for v := range Values(z) {
		var f Fields
		if v.Err != nil || json.Unmarshal(v.Text, &f) != nil {
			continue
		}
		if status, _ := f.Number("status"); status >= 400 {
			continue
		}
		body, target := f.Body("response"), TargetOf(f.Text("url"), "", "", f["request"])
		var r facts.Response
		if facts.ScanResponse(target.Dialect, "", body, &r) != nil || r.Malformed || r.Cut || len(r.Error) > 0 {
			continue
		}
		var calls []string
		said := ""
		for _, raw := range Answer(target.Dialect, body) {
			m, ok := ParseMessage(raw)
			if !ok {
				t.Fatalf("line %d: %s", v.Line, raw)
			}
			for _, c := range m.Calls() {
				if c.ID != "" || target.Dialect != wire.OpenAIChat { // not a legacy function_call
					calls = append(calls, c.ID+" "+c.Name)
				}
			}
			said += m.Said()
		}
		var want []string
		for _, c := range r.Calls {
			want = append(want, c.ID+" "+c.Name)
		}
		must.Agree(t, cmp.Diff(want, calls), "line", v.Line, target.Dialect)
		if target.Dialect == wire.OpenAIChat && r.ContentHash != 0 && r.ContentHash != xxh3.HashString(said) {
			t.Errorf("line %d: text %.80q differs", v.Line, said)
		}
		compared[target.Dialect]++
	}
	for _, d := range []wire.Dialect{wire.OpenAIChat, wire.OpenAIResponses, wire.Anthropic, wire.Gemini, wire.Bedrock, wire.Cohere} {
		if compared[d] < 50 {
			t.Errorf("%s: only %d answers", d, compared[d])
		}
	}
	t.Log(compared)
}
