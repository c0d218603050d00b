package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// anthropicSession is agentSession for the Messages API: the same texts, calls and replies, as blocks.
func anthropicSession(tb testing.TB, size int, seed uint64) []byte {
	tb.Helper()
	chat := decodedSession(tb, size, seed)
	quote := func(s string) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		must.Do(tb, e.Encode(s))
		return strings.TrimSpace(b.String())
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"claude-sonnet-4-5","max_tokens":8192,"stream":true,"system":[{"type":"text","text":%s,"cache_control":{"type":"ephemeral"}}],"messages":[`, quote(chat.Messages[0].Content))
	for i, m := range chat.Messages[1:] {
		if i > 0 {
			b.WriteByte(',')
		}
		switch m.Role {
		case "user":
			fmt.Fprintf(&b, `{"role":"user","content":%s}`, quote(m.Content))
		case "assistant":
			fmt.Fprintf(&b, `{"role":"assistant","content":[{"type":"text","text":%s}`, quote(m.Content))
			for _, c := range m.ToolCalls {
				fmt.Fprintf(&b, `,{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Function.Name, c.Function.Arguments)
			}
			b.WriteString(`]}`)
		case "tool":
			fmt.Fprintf(&b, `{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":[{"type":"text","text":%s}]}]}`, m.ToolCallID, quote(m.Content))
		}
	}
	b.WriteString(`],"tools":[`)
	for i, t := range chat.Tools {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(bytes.Replace(t.Function, []byte(`"parameters"`), []byte(`"input_schema"`), 1))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func BenchmarkScanAnthropicStream(b *testing.B) {
	events := []string{start(0, `{"type":"text","text":""}`)}
	for range 200 {
		events = append(events, delta(0, `{"type":"text_delta","text":" some words\n"}`))
	}
	events = append(events, toolUse(1, "toolu_1", "edit"))
	for range 200 {
		events = append(events, jsonDelta(1, ` \"a line`))
	}
	body := []byte(anthropicStream(events...))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var r Response
	for b.Loop() {
		must.Do(b, ScanResponse(wire.Anthropic, "", body, &r))
	}
}
