package facts

import (
	"errors"
	"math/bits"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// bedrockMessageOf scans one message.
func bedrockMessageOf(t *testing.T, body string) Message {
	t.Helper()
	var f Request
	if err := ScanMessages(wire.Bedrock, []byte("["+body+"]"), &f); err != nil || len(f.Messages) != 1 {
		t.Fatalf("%s: %d messages, %v", body, len(f.Messages), err)
	}
	return f.Messages[0]
}

func TestBedrockMessage(t *testing.T) {
	f := func(body string, want Message) {
		t.Helper()
		if want.Kind == Absent {
			want.Kind = Object
		}
		want.Start, want.End, want.Hash = 1, 1+len(body), xxh3.HashString(body)
		must.Agree(t, cmp.Diff(want, bedrockMessageOf(t, body), sameFacts), body)
	}
	user := func(content string, m Message) {
		t.Helper()
		m.Role, m.RoleKind, m.RoleName, m.Content, m.ContentBytes = RoleUser, String, []byte("user"), Array, len(content)
		f(`{"role":"user","content":`+content+`}`, m)
	}
	f(`null`, Message{Kind: Null})
	f(`{}`, Message{})
	f(`{"role":1,"content":2}`, Message{RoleKind: Number, Content: Number, ContentBytes: 1})
	f(`{"role":"user","content":"hi"}`, Message{Role: RoleUser, RoleKind: String, RoleName: []byte("user"), Content: String, ContentBytes: 2})
	f(`{"name":null,"odd":1,"cache_control":{}}`, Message{
		Fields: FieldUnknown, OtherField: []byte("name"),
	})
	f(`{"odd":null}`, Message{Fields: FieldUnknown, NullFields: FieldUnknown, OtherField: []byte("odd")})
	// The key of a block is its type. A null counts as absent, a value of the wrong type is no part.
	user(`[]`, Message{})
	user(`[{"text":"a"}]`, Message{PartCount: 1, Parts: PartText, FirstPart: PartText})
	user(`[{"text":""},{"text":"~0:0123456789abcdef"}]`, Message{PartCount: 2, Parts: PartText | PartBlank, FirstPart: PartText | PartBlank})
	user(`[{"image":{}},{"text":"a"}]`, Message{PartCount: 2, Parts: PartImage | PartText, FirstPart: PartImage})
	user(`[{"document":{"name":"d"}},{"audio":{}}]`, Message{PartCount: 2, Parts: PartFile | PartAudio, FirstPart: PartFile})
	user(`[{"video":{}},{"guardContent":{"text":{"text":"a"}}},{"cachePoint":{"type":"default"}},{"searchResult":{}}]`,
		Message{PartCount: 4, Parts: PartOther, FirstPart: PartOther})
	user(`[3,{},{"text":null},{"text":5},{"image":"x"}]`, Message{PartCount: 5, Parts: PartBad, FirstPart: PartBad})
	user(`[{"text":"a","image":null,"toolUse":null}]`, Message{PartCount: 1, Parts: PartText, FirstPart: PartText})
	user(`[{"type":"text","text":"a"}]`, Message{
		PartCount: 1, Parts: PartText | PartOther, FirstPart: PartText | PartOther, Fields: FieldUnknown, OtherField: []byte("type"),
	})
	// The assistant's texts have one hash, in any order of keys and blocks.
	hash := xxh3.HashString("<b>/😀 and that is so")
	f(`{"content":[{"text":"\u003cb>\/\ud83d\ude00"},{"toolUse":null},{"citationsContent":{"content":[{"text":" and"},3],"citations":[]}},{"text":" that is so"}],"role":"assistant"}`,
		Message{
			Role: RoleAssistant, RoleKind: String, RoleName: []byte("assistant"), Content: Array, ContentBytes: 143,
			ContentHash: hash, PartCount: 4, Parts: PartText | PartBad, FirstPart: PartText,
		})
	f(`{"role":"assistant","content":[{"citationsContent":{"citations":[{}]}}]}`, Message{
		Role: RoleAssistant, RoleKind: String, RoleName: []byte("assistant"), Content: Array, ContentBytes: 41,
		PartCount: 1, Parts: PartOther, FirstPart: PartOther,
	})
	// The last of two contents wins.
	f(`{"role":"assistant","content":[{"toolUse":{}},{"text":"a"}],"content":[{"text":"b"}]}`, Message{
		Role: RoleAssistant, RoleKind: String, RoleName: []byte("assistant"), Content: Array, ContentBytes: 14,
		ContentHash: xxh3.HashString("b"), PartCount: 1, Parts: PartText, FirstPart: PartText,
	})
}

func TestBedrockReasoning(t *testing.T) {
	f := func(content string, reasoning Kind, signed uint64) {
		t.Helper()
		m := bedrockMessageOf(t, `{"role":"assistant","content":[`+content+`]}`)
		if m.Reasoning != reasoning || m.Signed != signed || m.Parts != PartReasoning {
			t.Errorf("%s: reasoning %d, signed %x, want %x, parts %b", content, m.Reasoning, m.Signed, signed, m.Parts)
		}
	}
	one, two := xxh3.HashString("E+/=1"), xxh3.HashString("two")
	f(`{"reasoningContent":{"reasoningText":{"text":"I think","signature":"E+\/=1"}}}`, String, one)
	f(`{"reasoningContent":{"redactedContent":"two"}}`, String, two)
	f(`{"reasoningContent":{"reasoningText":{"text":"I think","signature":"E+/=1"}}},{"reasoningContent":{"redactedContent":"two"}}`,
		String, bits.RotateLeft64(one, 1)^two)
	f(`{"reasoningContent":{"reasoningText":{"text":"I think"}}}`, String, 0)
	f(`{"reasoningContent":{"reasoningText":{"text":"I think","signature":""}}}`, String, 0)
	f(`{"reasoningContent":{"reasoningText":{"text":null,"signature":3}}}`, Null, 0)
	f(`{"reasoningContent":{"reasoningText":"text"}}`, Absent, 0)
	m := bedrockMessageOf(t, `{"content":[{"reasoningContent":{"redactedContent":"two"}}],"role":"user"}`)
	must.Equal(t, m.Signed, 0, "a user message has a signature hash")
}

func TestBedrockCalls(t *testing.T) {
	f := func(call string, want Call) {
		t.Helper()
		lead := `{"role":"assistant","content":[{"text":"a"},{"toolUse":`
		m := bedrockMessageOf(t, lead+call+`}]}`)
		want.Start = 1 + len(lead)
		want.End = want.Start + len(call)
		if diff := cmp.Diff([]Call{want}, m.Calls, sameFacts); diff != "" || m.Parts != PartText|PartCall {
			t.Errorf("%s, parts %b (-want +got):\n%s", call, m.Parts, diff)
		}
	}
	f(`{"toolUseId":"t1","name":"f","input":{"a":1}}`, Call{
		Kind: Object, FuncKind: Object, ID: []byte("t1"), IDKind: String, Name: []byte("f"), NameKind: String,
		ArgsKind: Object, Args: ArgsObject, ArgsBytes: 7, ArgsHash: xxh3.HashString(`{"a":1}`),
	})
	f(`{"input":"{\"a\"","name":"f\u005f","toolUseId":"t\/1","type":"tool_use"}`, Call{
		Kind: Object, FuncKind: Object, ID: []byte("t/1"), IDKind: String, Name: []byte("f_"), NameKind: String,
		ArgsKind: String, Args: ArgsTruncated, ArgsBytes: 6, ArgsHash: xxh3.HashString(`{\"a\"`),
	})
	f(`{"toolUseId":7,"name":null,"input":[1],"caller":{}}`, Call{
		Kind: Object, FuncKind: Object, IDKind: Number, NameKind: Null, ArgsKind: Array, ArgsBytes: 3, ArgsHash: xxh3.HashString(`[1]`), Fields: FieldUnknown,
	})
	f(`{}`, Call{Kind: Object, FuncKind: Object})
	f(`"t1"`, Call{Kind: String, FuncKind: String})
	// Tools that AWS runs.
	m := bedrockMessageOf(t, `{"role":"assistant","content":[{"toolUse":{"name":"nova_grounding","toolUseId":"t1","input":{},"type":"server_tool_use"}},
		{"toolResult":{"toolUseId":"t1","type":"nova_grounding_result","content":[{"text":"a"}],"status":"success"}}]}`)
	if len(m.Calls) != 0 || len(m.Replies) != 0 || m.Parts != PartOther {
		t.Errorf("calls %v, replies %v, parts %b", m.Calls, m.Replies, m.Parts)
	}
}

func TestBedrockReplies(t *testing.T) {
	f := func(reply string, want Reply) {
		t.Helper()
		lead := `{"role":"user","content":[{"text":"a"},{"toolResult":`
		m := bedrockMessageOf(t, lead+reply+`}]}`)
		want.Start, want.After = 1+len(lead), PartText
		want.End = want.Start + len(reply)
		if diff := cmp.Diff([]Reply{want}, m.Replies, sameFacts); diff != "" || m.Parts != PartText|PartReply {
			t.Errorf("%s, parts %b (-want +got):\n%s", reply, m.Parts, diff)
		}
	}
	content := func(content string, count int, parts Parts) {
		t.Helper()
		f(`{"content":`+content+`}`, Reply{Content: Array, ContentBytes: len(content), PartCount: count, Parts: parts})
	}
	f(`{"toolUseId":"t\u0031","content":[],"status":"error"}`, Reply{ID: []byte("t1"), IDKind: String, Content: Array, ContentBytes: 2, IsError: true})
	f(`{"toolUseId":null,"content":"ok","status":"success"}`, Reply{IDKind: Null, Content: String, ContentBytes: 2})
	f(`{"type":"tool_result","content":null}`, Reply{Content: Null, ContentBytes: 4})
	f(`[]`, Reply{})
	content(`[{"text":"a"},{"json":{"b":1}}]`, 2, PartText|PartOther)
	content(`[{"text":""}]`, 1, PartText|PartBlank)
	content(`[{"image":{}},{"document":{}},{"video":{}},{"searchResult":{}},{"cachePoint":{}}]`, 5, PartImage|PartFile|PartOther)
	content(`[{"text":"a","json":null}]`, 1, PartText)
	content(`[{"json":[1]}]`, 1, PartBad)
	content(`[{"text":1}]`, 1, PartBad)
	content(`[{"image":"x"}]`, 1, PartBad)
	content(`["a",{}]`, 2, PartBad)

	m := bedrockMessageOf(t, `{"role":"user","content":[{"toolResult":{"toolUseId":"a","is_error":true}},{"text":"go on"},{"toolResult":{"toolUseId":"b"}}]}`)
	if len(m.Replies) != 2 || m.Replies[0].After != 0 || m.Replies[1].After != PartReply|PartText || m.FirstPart != PartReply ||
		m.Fields != FieldUnknown || string(m.OtherField) != "is_error" {
		t.Errorf("got %+v", m)
	}
}

func TestBedrockRequest(t *testing.T) {
	var r Request // reused: no facts of the previous body may remain
	f := func(body string, want Request) {
		t.Helper()
		must.Do(t, ScanRequest(wire.Bedrock, []byte(body), &r), body)
		must.Agree(t, cmp.Diff(want, r, sameFacts), body)
	}
	names := func(n ...string) (b [][]byte) {
		for _, s := range n {
			b = append(b, []byte(s))
		}
		return b
	}
	f(`{"messages":[],"system":[{"text":"s"}],"inferenceConfig":{"temperature":0.5,"maxTokens":512}}`,
		Request{MessagesKind: Array, System: Array, MaxTokens: 512})
	f(`{"toolConfig":{"tools":[{"toolSpec":{"name":"a","inputSchema":{"json":{"name":"x"}}}},{"cachePoint":{"type":"default"}},{"toolSpec":{"name":"\u0062"}}],
		"toolChoice":{"tool":{"name":"a"}}}}`, Request{HasTools: true, ToolCount: 2, Tools: names("a", "b"), ToolChoice: Object, Forced: []byte("a"), Forces: true})
	f(`{"toolConfig":{"tools":[{"systemTool":{"name":"nova_grounding"}}],"toolChoice":{"any":{}}}}`,
		Request{HasTools: true, ToolCount: 1, OpenTools: true, ToolChoice: Object, Forces: true})
	f(`{"toolConfig":{"tools":[],"toolChoice":"auto"}}`, Request{HasTools: true, ToolChoice: String})
	f(`{"toolConfig":{"tools":[1,{"toolSpec":{}},{"toolSpec":{"name":"a"},"cachePoint":null}]}}`,
		Request{HasTools: true, ToolCount: 3, OpenTools: true, Tools: names("a")})
	f(`{"toolConfig":null,"messages":null,"system":"s","inferenceConfig":[],"additionalModelRequestFields":"x"}`, Request{MessagesKind: Null, System: String})
	f(`{"toolConfig":{"tools":[{"toolSpec":{"name":"a"}}]},"toolConfig":{}}`, Request{})
	f(`{"additionalModelRequestFields":{"top_k":5,"thinking":{"type":"enabled","budget_tokens":1024}}}`, Request{Thinking: ThinkingOn})
	f(`{"additionalModelRequestFields":{"thinking":{"type":"disabled"}}}`, Request{Thinking: ThinkingOff})
	f(`{"additionalModelRequestFields":{"reasoning_config":{"type":"enabled"}}}`, Request{Thinking: ThinkingOn})
	f(`{"additionalModelRequestFields":{"reasoningConfig":{"maxReasoningEffort":"low","type":"disabled"}}}`, Request{Thinking: ThinkingOff})
	// A prompt with variables has messages of its own.
	f(`{"promptVariables":{"topic":{"text":"x"}}}`, Request{Stored: true})
	f(`{"promptVariables":{}}`, Request{})
}

func TestBedrockRequestErrors(t *testing.T) {
	body := `{"messages":[{"role":"user","content":[{"text":"q\n"}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"t","signature":"s"}}},` +
		`{"citationsContent":{"content":[{"text":"c"}]}},{"toolUse":{"toolUseId":"t1","name":"f","input":{"a":[1,true]}}}]},{"role":"user","content":[{"toolResult":` +
		`{"toolUseId":"t1","content":[{"text":"ok"},{"json":{"a":null}}],"status":"error"}},{"odd":{}},{"image":{"format":"png"}}]}],"toolConfig":{"tools":[{"toolSpec":` +
		`{"name":"f"}}],"toolChoice":{"auto":{}}},"inferenceConfig":{"maxTokens":1},"promptVariables":{"a":1},"additionalModelRequestFields":{"thinking":{"type":"enabled"}}}`
	var f Request
	must.Do(t, ScanRequest(wire.Bedrock, []byte(body), &f))
	for n := 1; n < len(body); n++ {
		if err := ScanRequest(wire.Bedrock, []byte(body[:n]), &f); !errors.Is(err, ErrTruncated) {
			t.Fatalf("%s: %v", body[:n], err)
		}
	}
	for _, body := range []string{``, `[]`, `{"messages":[{"content":[{"toolUse":x}]}]}`, `{"messages":[{"content":[{"text" "a"}]}]}`, `{} x`} {
		if err := ScanRequest(wire.Bedrock, []byte(body), &f); !errors.Is(err, ErrNotJSON) || len(f.Messages) != 0 {
			t.Errorf("%s: %v, %d messages", body, err, len(f.Messages))
		}
	}
}
