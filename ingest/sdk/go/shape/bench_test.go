package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// chatBody is a request of about 100 KB: twelve tools with schemas, then turns of a call and its reply.
func chatBody(t testing.TB) []byte {
	t.Helper()
	var tools, messages []any
	for i := range 12 {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name": fmt.Sprintf("tool_%d", i), "description": strings.Repeat("Reads a file of the project. ", 6),
			"parameters": map[string]any{"type": "object", "required": []string{"path"}, "properties": map[string]any{
				"path": map[string]any{"type": "string", "description": "Where the file is, from the root on."}, "limit": map[string]any{"type": "integer"},
			}},
		}})
	}
	for i := range 40 {
		id := fmt.Sprintf("call_%d", i)
		messages = append(messages,
			map[string]any{"role": "user", "content": fmt.Sprintf("Now file %d, please; and say what it does in two sentences.", i)},
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{
				"name": "tool_1", "arguments": fmt.Sprintf(`{"path": "src/module_%d/main.go", "limit": %d}`, i, i),
			}}}},
			map[string]any{"role": "tool", "tool_call_id": id, "content": strings.Repeat(fmt.Sprintf("\tif err := step%d(ctx); err != nil {\n\t\treturn \"failed\", err\n\t}\n", i), 30)})
	}
	return must.Get(json.Marshal(map[string]any{"model": "gpt-5.2", "tools": tools, "messages": messages}))(t)
}

func chatStream() []byte {
	var b bytes.Buffer
	for i := range 400 {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.2","choices":[{"index":0,"delta":{"content":" word%d"},"finish_reason":null}]}`+"\n\n", i)
	}
	for i := range 200 {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-5.2","choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":"x"}}]},"finish_reason":null}]}`+"\n\n", i%4)
	}
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

func BenchmarkRequest(b *testing.B)  { bench(b, chatBody(b), (*Shaper).Request) }
func BenchmarkResponse(b *testing.B) { bench(b, chatStream(), (*Shaper).Response) }

func bench(b *testing.B, body []byte, f func(*Shaper, wire.Dialect, []byte, int) []byte) {
	s := New([]byte("key"))
	var out []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		out = f(s, wire.OpenAIChat, body, noLimit)
	}
	b.ReportMetric(float64(len(out))/float64(len(body)), "size")
}
