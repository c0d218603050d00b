package facts

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// refBedrock is the reference implementation of the scan of messages, for the facts that rules use most.
func refBedrock(n node) (messages []Message) {
	for _, e := range n.elems {
		m := Message{Kind: e.kind, Content: e.get("content").kind}
		role, text, hasText := e.get("role"), "", false
		if m.RoleKind = role.kind; role.kind == String {
			m.Role, m.RoleName = roleOf([]byte(role.text), String), []byte(role.text)
		}
		if m.Content == String {
			text, hasText = e.get("content").text, true
		}
		if m.Content == Array {
			m.PartCount = len(e.get("content").elems)
			for _, block := range e.get("content").elems {
				for i := range block.keys {
					refBedrockBlock(&m, block.keys[i], block.elems[i], &text, &hasText)
				}
			}
		}
		if m.Role == RoleAssistant && hasText {
			m.ContentHash = xxh3.HashString(text)
		}
		messages = append(messages, m)
	}
	return messages
}

func refBedrockBlock(m *Message, tag string, v node, text *string, hasText *bool) {
	kind := v.get("type").text
	switch tag {
	case "text":
		if v.kind == String && textBytes([]byte(v.text)) > 0 {
			*text, *hasText = *text+v.text, true
		}
	case "citationsContent":
		for i, k := range v.keys {
			for _, c := range v.elems[i].elems {
				for j, inner := range c.keys {
					if k == "content" && v.elems[i].kind == Array && inner == "text" && c.elems[j].kind == String && textBytes([]byte(c.elems[j].text)) > 0 {
						*text, *hasText = *text+c.elems[j].text, true
					}
				}
			}
		}
	case "toolUse":
		if v.kind == Null || v.kind == Object && kind == "server_tool_use" && v.get("type").kind == String {
			return
		}
		id, name := v.get("toolUseId"), v.get("name")
		c := Call{Kind: v.kind, ID: id.bytes(), IDKind: id.kind, Name: name.bytes(), NameKind: name.kind, ArgsKind: v.get("input").kind}
		if c.ArgsKind == String {
			c.Args = refArgs(v.get("input").text)
		}
		if c.ArgsKind == Object {
			c.Args = ArgsObject
		}
		m.Calls = append(m.Calls, c)
	case "toolResult":
		if v.kind == Null || v.kind == Object && v.get("type").kind == String && strings.HasSuffix(kind, "_result") && kind != "tool_result" {
			return
		}
		id := v.get("toolUseId")
		r := Reply{ID: id.bytes(), IDKind: id.kind, Content: v.get("content").kind, IsError: v.get("status").kind == String && v.get("status").text == "error"}
		if r.Content == Array {
			r.PartCount = len(v.get("content").elems)
		}
		m.Replies = append(m.Replies, r)
	}
}

// checkBedrock compares the messages of a body with the reference, if it is valid JSON.
func checkBedrock(t *testing.T, f *Request, body []byte) {
	t.Helper()
	err := ScanRequest(wire.Bedrock, body, f)
	checkSpans(t, body, f)
	if !json.Valid(body) || !utf8.Valid(body) || parse(body).kind != Object {
		return
	}
	must.Do(t, err, string(body))
	n := parse(body).get("messages")
	var want, got []Message
	if n.kind == Array {
		want = refBedrock(n)
	}
	for i := range f.Messages {
		m := &f.Messages[i]
		short := Message{Kind: m.Kind, Content: m.Content, PartCount: m.PartCount, Role: m.Role, RoleKind: m.RoleKind, RoleName: m.RoleName, ContentHash: m.ContentHash}
		for _, c := range m.Calls {
			short.Calls = append(short.Calls, Call{
				Kind: c.Kind, ID: c.ID, IDKind: c.IDKind, Name: c.Name, NameKind: c.NameKind, ArgsKind: c.ArgsKind, Args: c.Args,
			})
		}
		for _, r := range m.Replies {
			short.Replies = append(short.Replies, Reply{ID: r.ID, IDKind: r.IDKind, Content: r.Content, PartCount: r.PartCount, IsError: r.IsError})
		}
		got = append(got, short)
	}
	if diff := cmp.Diff(want, got, sameFacts); diff != "" {
		t.Fatalf("%s (-reference +scan):\n%s", body, diff)
	}
}

func TestBedrockRecordedRequests(t *testing.T) {
	var f Request
	seen, calls := 0, 0
	exchanges(t, "bedrock.converse", func(e *exchange) {
		checkBedrock(t, &f, e.Request)
		seen++
		for i := range f.Messages {
			m := &f.Messages[i]
			calls += len(m.Calls)
			if m.Fields != 0 || m.Parts&PartBad != 0 || m.PartCount == 0 {
				t.Errorf("%s: message %d: fields %b (%s), parts %b", e.ID, i, m.Fields, m.OtherField, m.Parts)
			}
		}
	})
	if seen < 100 || calls < 40 {
		t.Errorf("%d requests with %d calls", seen, calls)
	}
}

// bedrockSession makes an agent's history of about size bytes.
func bedrockSession(_ testing.TB, size int, _ uint64) []byte {
	var b strings.Builder
	b.WriteString(`{"system":[{"text":"You are an agent that reads code."},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"Find the bug."}]}`)
	code := `\tif n := bytes.IndexByte(b, '\\n'); n < 0 {\n\t\treturn fmt.Errorf(\"read %q: %w\", name, err)\n\t}\n`
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"text":"I look at file %d next, because the caller of it fails."},`+
			`{"toolUse":{"toolUseId":"tooluse_%022d","name":"read_file","input":{"path":"src/file_%d.go","limit":100}}}]}`, i, i, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_%022d","content":[{"text":"%s"}],"status":"success"}}]}`,
			i, strings.Repeat(code, 12+i%5))
	}
	b.WriteString(`],"toolConfig":{"tools":[{"toolSpec":{"name":"read_file","inputSchema":{"json":{"type":"object"}}}}]}}`)
	return []byte(b.String())
}

// bedrockSeeds are requests that are difficult for a scanner.
var bedrockSeeds = []string{
	`{"system":[{"text":"s"},{"cachePoint":{"type":"default","ttl":"1h"}}],"messages":[{"role":"user","content":[{"text":"q"},{"cachePoint":{"type":"default"}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"cachePoint":{"type":"default"}}]}}`,
	`{}`,
	`{"messages":[{"role":"assistant","content":[{"text":"\u003c"},{"citationsContent":{"content":[{"text":"b"},1],"content":{}}},{"toolUse":{"type":"server_tool_use"}}]}]}`,
	`{"messages":[{"content":[{"toolUse":{"toolUseId":"a","input":"{}","name":1}},{"toolUse":"x"},{"toolUse":null},null,[]],"role":"assistant"}]}`,
	`{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"json":[1]},{"text":""}],"status":"error","type":"x_result"}}]}]}`,
	`{"messages":[{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"","signature":"a\n"}}},{"reasoningContent":{"redactedContent":"b"}}]}]}`,
	`{"messages":[{"content":"a","content":[],"x":1}],"toolConfig":{"tools":[{"toolSpec":{"name":"a"}},{"cachePoint":{}},3],"toolChoice":{"tool":{"name":"a"}}},"system":""}`,
	`{"system":[{"text":"s"}],"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"text":"q"}]}]}`,
	`{"messages":[{"content":[{"text":"\u0061"},{"toolUse":{"toolUseId":"t\u005f1","name":"f","input":{"a":[1]}}},{"odd":1}],"role":"assistant"},{"role":"user","content":[{"text":"x"},{"toolResult":{"toolUseId":"t_1","content":[{"json":{}},{"text":""}],"status":"error","odd":null}}]}]}`,
	`{"messages":[{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t","signature":"s\n"}}},{"toolUse":{"toolUseId":7,"type":"server_tool_use"}}],"content":[{"text":"a"},{"text":"b"}],"name":false}]}`,
	`{"toolConfig":{"tools":[{"toolSpec":{"name":"f\u0067"}},{"cachePoint":{}},{"systemTool":{}},1],"toolChoice":{"tool":{"name":"f"}}},"messages":[{"role":"sys\u0074em"},{}]}`,
	`{"toolConfig":{"tools":[{"toolSpec":{"name":"a"}}],"toolChoice":{"any":{}}},"promptVariables":{"a":1},"additionalModelRequestFields":{"thinking":{"type":"enabled"}}}`,
}
