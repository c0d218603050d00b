package facts

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// anthropicSeeds are requests that are difficult for a scanner.
var anthropicSeeds = []string{
	`{"cache_control":{"type":"ephemeral"},"tools":[{"name":"f","cache_control":{"type":"ephemeral","ttl":"1h"}}],"system":[{"type":"text","text":"s","cache_control":{"ttl":"1h"}}],"messages":[{"role":"user","content":[{"type":"text","text":"q"},{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}]}`,
	`{}`,
	`{"container":"c","thinking":{"type":"adaptive"},"tool_choice":{"type":"any"},"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"server_tool_use","id":"a"},{"type":"tool_use","id":"b","caller":{"type":"code_execution_1"}},{"type":"x_tool_result","tool_use_id":"a"},{"type":"server_tool_use","id":"c","caller":{"type":"direct"}}]}]}`,
	`{"messages":[]}`,
	` { "model" : "claude" , "max_tokens" : 9 , "messages" : [ { "role" : "user" , "content" : [ { "type" : "text" , "text" : "q" } ] } ] } `,
	`{"model":"claude-sonnet-4-5","stream":true,"max_tokens":1024,"system":[{"type":"text","text":"s"}],"thinking":{"type":"enabled","budget_tokens":1},"messages":[{"role":"user","content":"q"}]}`,
	`{"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"custom","name":"\u0067"},{"type":"web_search_20250305","name":"web_search"},{"type":"mcp_toolset"},3,null],"tool_choice":{"type":"tool","name":"f"},"mcp_servers":[{}]}`,
	`{"tools":{},"tool_choice":{"type":"any","name":"f"},"thinking":{"type":"disabled"},"mcp_servers":null,"system":"s","stream":"true","max_tokens":1e3}`,
	`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"redacted_thinking","data":"\u0061"},{"type":"text","text":"a"},{"type":"text","text":"\u003cb\n"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":[1,{"b":"}"}]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok","is_error":true},{"type":"text","text":""}]}]}`,
	`{"messages":[{"content":[{"input":{"x":1},"name":"f\"g","id":"a\u005fb","type":"tool_use"},{"text":"t","type":"text"},{"signature":"s","type":"thinking","thinking":null}],"role":"assistant"}]}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"n"},{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"","annotations":null},{"type":"image","source":{}},{"type":"tool_result","content":[{"type":"text"}]},{"type":"document"},7]},{"type":"tool_result"}]}]}`,
	`{"messages":[{"role":"user","content":[{"type":"image","source":{}},{"type":"document","source":{},"title":"t","context":"c","citations":{}},{"type":"video"},{"type":1},{},"s",null,{"type":"server_tool_use","id":"i","name":"n","input":{}},{"type":"web_search_tool_result","tool_use_id":"i","content":[{"type":"web_search_result"}]},{"type":"tool_addition"}]}]}`,
	`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":"{\"a\":1}","text":"x","partial_json":null},{"type":"text","text":"a","id":null,"index":false,"cache_control":{}}],"id":"msg","usage":null,"cache_control":null}]}`,
	`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":1,"name":null,"input":[]},{"type":"tool_use","type":"text","text":1},{"type":"text","type":"tool_use","input":1,"input":{}}],"content":"last"}]}`,
	`{"messages":[{"role":"assistant","content":[{"type":"compaction","content":"s","signature":"c2ln"},{"type":"text","text":"a"}]}],"compaction":{"type":"summarize"},"thread":{"type":"continue","previous_message_id":"ms\u0067_1"}}`,
	`{"thread":{"type":"create","previous_message_id":null},"messages":[{"role":"user","content":[{"type":"compaction","type":"text","text":"b"}]}],"compaction":null,"compaction":true}`,
	`{"messages":[{"role":"x","content":null},{"role":null,"content":{"a":1}},{"role":"system","content":""},{"r\u006fle":"us\u0065r","conten\u0074":5},null,"x",[1],{}]}`,
	`{"messages":[{"role":"x"}],"messages":[{"role":"assistant","content":"~12:0123456789abcdef"}],"model":"\u006d","anthropic_version":"bedrock-2023-05-31"}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"~0:0123456789abcdef"},{"type":"tool_result","content":"~5:0123456789abcdef","content":[]}],"clear_at":"x","output_config":{}}]}`,
}

func checkAnthropic(t *testing.T, f *Request, body []byte) {
	t.Helper()
	checkRequest(t, wire.Anthropic, refAnthropic, f, body)
}

func TestAnthropicMessage(t *testing.T) {
	var f Request
	check := func(role, content string, want Message) {
		t.Helper()
		const before = `{"messages":[`
		body := `{"role":"` + role + `","content":` + content + `}`
		must.Do(t, ScanRequest(wire.Anthropic, []byte(before+body+`]}`), &f), body)
		want.Kind, want.RoleKind, want.RoleName, want.Role = Object, String, []byte(role), roleOf([]byte(role), String)
		want.Start, want.End, want.Hash = len(before), len(before)+len(body), xxh3.HashString(body)
		if want.ContentBytes == 0 && want.Content == Array {
			want.ContentBytes = len(content)
		}
		shift := len(before) + len(`{"role":"","content":[`) + len(role)
		for i := range want.Calls {
			c := &want.Calls[i]
			c.Kind, c.FuncKind, c.Start, c.End = Object, Object, c.Start+shift, c.End+shift
		}
		for i := range want.Replies {
			want.Replies[i].Start += shift
			want.Replies[i].End += shift
		}
		must.Agree(t, cmp.Diff([]Message{want}, f.Messages, sameFacts), body)
	}
	check("user", `"q"`, Message{Content: String, ContentBytes: 1})
	check("system", `""`, Message{Content: String})
	check("narrator", `null`, Message{Content: Null, ContentBytes: 4})
	check("user", `[]`, Message{Content: Array})
	check("assistant", `"\u003cb>"`, Message{Content: String, ContentBytes: 8, ContentHash: xxh3.HashString("<b>")})
	check("assistant", `[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]`, Message{
		Content: Array, PartCount: 2, Parts: PartText, FirstPart: PartText, ContentHash: xxh3.HashString("a\nb"),
	})
	check("assistant", `[{"type":"text","text":""}]`, Message{
		Content: Array, PartCount: 1, Parts: PartText | PartBlank, FirstPart: PartText | PartBlank, ContentHash: xxh3.HashString(""),
	})
	check("assistant", `[{"type":"text","text":"~0:0123456789abcdef"}]`, Message{
		Content: Array, PartCount: 1, Parts: PartText | PartBlank, FirstPart: PartText | PartBlank, ContentHash: xxh3.HashString("~0:0123456789abcdef"),
	})
	check("user", `[{"type":"image","source":{}},{"type":"document","source":{}},{"type":"search_result"},{"type":2},3]`, Message{
		Content: Array, PartCount: 5, Parts: PartImage | PartFile | PartOther | PartBad, FirstPart: PartImage,
	})
	// A call whose input precedes its type.
	check("assistant", `[{"input":{"a":1},"id":"toolu_1","name":"f","type":"tool_use"}]`, Message{
		Content: Array, PartCount: 1, Parts: PartCall, FirstPart: PartCall, Calls: []Call{{
			ID: []byte("toolu_1"), IDKind: String, Name: []byte("f"), NameKind: String, ArgsKind: Object, Args: ArgsObject, ArgsBytes: 7,
			ArgsHash: xxh3.HashString(`{"a":1}`), End: 61,
		}},
	})
	check("assistant", `[{"type":"tool_use","input":"{"}]`, Message{
		Content: Array, PartCount: 1, Parts: PartCall, FirstPart: PartCall,
		Calls: []Call{{ArgsKind: String, Args: ArgsTruncated, ArgsBytes: 1, ArgsHash: xxh3.HashString(`{`), End: 31}},
	})
	// Replies and the parts before them.
	check("user", `[{"type":"text","text":"n"},{"type":"tool_result","tool_use_id":"t","content":"ok","is_error":true},{"type":"tool_result"}]`, Message{
		Content: Array, PartCount: 3, Parts: PartText | PartReply, FirstPart: PartText, Replies: []Reply{
			{ID: []byte("t"), IDKind: String, Content: String, ContentBytes: 2, IsError: true, After: PartText, Start: 27, End: 98},
			{After: PartText | PartReply, Start: 99, End: 121},
		},
	})
	check("user", `[{"type":"tool_result","tool_use_id":7,"content":[{"type":"text","text":""},{"type":"image"},4]}]`, Message{
		Content: Array, PartCount: 1, Parts: PartReply, FirstPart: PartReply, Replies: []Reply{{
			IDKind: Number, Content: Array, ContentBytes: 46, Parts: PartText | PartBlank | PartImage | PartBad, PartCount: 3, End: 95,
		}},
	})
	// Tools that the provider runs make no calls.
	check("assistant", `[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"mcp_tool_use","id":"m"},{"type":"mcp_tool_result","tool_use_id":"m"}]`, Message{
		Content: Array, PartCount: 4, Parts: PartOther, FirstPart: PartOther, Fields: FieldServerUse,
	})
	// Thinking: the signatures of all blocks, in order; an empty one is ignored.
	one, two := xxh3.HashString("s1"), xxh3.HashString("d2")
	check("assistant", `[{"type":"thinking","thinking":"t","signature":"s1"},{"type":"thinking","thinking":"","signature":""},{"type":"redacted_thinking","data":"\u00642"}]`, Message{
		Content: Array, PartCount: 3, Parts: PartReasoning, FirstPart: PartReasoning, Reasoning: String, Signed: one<<1 | one>>63 ^ two,
		Thought: xxh3.HashString("t"),
	})
	check("user", `[{"type":"thinking","thinking":null,"signature":"s1"}]`, Message{
		Content: Array, PartCount: 1, Parts: PartReasoning, FirstPart: PartReasoning, Reasoning: Null,
	})
}

func TestAnthropicFields(t *testing.T) {
	var f Request
	check := func(message string, fields, null Fields, other string) {
		t.Helper()
		must.Do(t, ScanMessages(wire.Anthropic, []byte(`[`+message+`]`), &f), message)
		m := f.Messages[0]
		if m.Fields != fields || m.NullFields != null || string(m.OtherField) != other {
			t.Errorf("%s: fields %b, null %b, other %q", message, m.Fields, m.NullFields, m.OtherField)
		}
	}
	content := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	check(`{"role":"user","content":"q","clear_at":"next_user_message","output_config":{}}`, 0, 0, "")
	check(`{"role":"user","content":"q","cache_control":{}}`, FieldCacheControl, 0, "")
	check(`{"id":"msg_1","role":"user","content":"q","type":"message"}`, FieldUnknown, 0, "id")
	check(`{"role":"user","name":null}`, FieldUnknown, FieldUnknown, "name")
	check(`{"role":"user","a":null,"b":1}`, FieldUnknown, 0, "a")
	check(`{"role":"user","b":1,"a":null}`, FieldUnknown, 0, "b")
	check(content(`{"type":"text","text":"a","citations":null,"cache_control":{"type":"ephemeral"}}`), FieldCacheControl, 0, "")
	check(content(`{"type":"compaction","content":"s","encrypted_content":"e","signature":"g","tool_changes":[]}`), 0, 0, "")
	check(content(`{"type":"text","text":"a","parsed_output":null}`), FieldUnknown, FieldUnknown, "parsed_output")
	check(content(`{"type":"tool_use","id":"t","name":"f","input":{},"caller":{"type":"direct"},"toolset_name":"x"}`), 0, 0, "")
	check(content(`{"x":1,"text":"a","type":"tool_use","id":"t","name":"f","input":{}}`), FieldUnknown, 0, "x")
	check(content(`{"type":"tool_use","id":"t","name":"f","input":{},"te\u0078t":"a"}`), FieldUnknown, 0, "text")
	check(content(`{"type":"thinking","thinking":"a","signature":"s"},{"type":"redacted_thinking","data":"d"}`), 0, 0, "")
	check(content(`{"type":"thinking","thinking":"a","signature":"s","text":"x"}`), FieldUnknown, 0, "text")
	check(content(`{"type":"tool_result","tool_use_id":"t","name":"f"}`), FieldUnknown, 0, "name")
	check(content(`{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a","annotations":null}]}`), FieldUnknown, FieldUnknown, "annotations")
	// Unknown types may have any key, and so may the results of a provider's tools.
	check(content(`{"type":"new","a":1,"text":"b"},{"type":"server_tool_use","x":1},{"x":1}`), FieldServerUse|FieldServerOpen, 0, "")
	check(content(`{"type":"web_search_tool_result","content":[{"type":"text","x":1}]}`), FieldServerOrphan, 0, "")
	check(content(`{"type":"web_search_tool_result","tool_use_id":"a"},{"type":"server_tool_use","id":"a"}`), FieldServerUse|FieldServerOrphan|FieldServerOpen, 0, "")
	check(content(`{"type":"server_tool_use","id":"a"},{"type":"web_search_tool_result","tool_use_id":"a"}`), FieldServerUse, 0, "")
	// Code in a container makes calls, too, whose results it receives.
	code := `{"type":"server_tool_use","id":"a","name":"code_execution","caller":{"type":"direct"}}`
	check(content(code+`,{"type":"tool_use","id":"b","caller":{"type":"code_execution_20260120","tool_id":"a"}}`), FieldServerUse|FieldServerOpen|FieldSandboxCall, 0, "")
	check(content(`{"type":"server_tool_use","id":"b","caller":{"type":"code_execution_20260120","tool_id":"a"}}`), FieldServerUse, 0, "")
	check(content(`{"type":"tool_use","id":"b","caller":{"type":"direct"}}`), 0, 0, "")
	check(content(`{"type":"thinking","thinking":"t","signature":"s"}`), 0, 0, "")
	check(content(`{"type":"thinking","thinking":"t"},{"type":"redacted_thinking"}`), FieldUnsigned, 0, "")
}

func TestAnthropicRequest(t *testing.T) {
	var f Request
	check := func(body string, want Request) {
		t.Helper()
		must.Do(t, ScanRequest(wire.Anthropic, []byte(body), &f), body)
		must.Agree(t, cmp.Diff(want, f, sameFacts), body)
	}
	check(`{"model":"claude\/x","max_tokens":7,"stream":true,"system":[],"thinking":{"type":"adaptive"}}`, Request{
		Model: []byte("claude/x"), MaxTokens: 7, Stream: true, System: Array, Thinking: ThinkingOn, Adaptive: true,
	})
	check(`{"anthropic_version":"vertex-2023-10-16","system":"s","messages":{},"thinking":{"type":"disabled"}}`, Request{
		System: String, MessagesKind: Object, Thinking: ThinkingOff,
	})
	check(`{"tools":[{"name":"f"},{"type":"custom","name":"g"},{"type":null,"name":"h"}],"tool_choice":{"type":"tool","name":"g"}}`, Request{
		HasTools: true, ToolCount: 3, Tools: [][]byte{[]byte("f"), []byte("g"), []byte("h")}, ToolChoice: Object, Forced: []byte("g"), Forces: true,
	})
	check(`{"tools":[],"tool_choice":{"type":"any","name":"g"}}`, Request{HasTools: true, ToolChoice: Object, Forces: true})
	check(`{"container":{"id":"c"},"thinking":{"type":"enabled"}}`, Request{Container: Object, Thinking: ThinkingOn})
	check(`{"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":"auto"}`, Request{
		HasTools: true, ToolCount: 1, Tools: [][]byte{[]byte("web_search")}, OpenTools: true, ToolChoice: String,
	})
	check(`{"mcp_servers":[{"name":"m"}]}`, Request{OpenTools: true})
	check(`{"tools":null,"mcp_servers":null}`, Request{})
	check(`{"thread":{"type":"create"},"compaction":null}`, Request{Threaded: true})
	check(`{"thread":{"type":"continue","previous_message_id":"msg_1"}}`, Request{Threaded: true, Stored: true, PreviousResponse: []byte("msg_1")})
	check(`{"thread":null,"compaction":{"type":"summarize"}}`, Request{Compacts: true})
}

func TestAnthropicRequestErrors(t *testing.T) {
	var f Request
	check := func(body string, want error, messages int) {
		t.Helper()
		if err := ScanRequest(wire.Anthropic, []byte(body), &f); !errors.Is(err, want) || len(f.Messages) != messages {
			t.Errorf("%s: error %v, want %v; %d messages, want %d", body, err, want, len(f.Messages), messages)
		}
	}
	check(``, ErrNotJSON, 0)
	check(`[]`, ErrNotJSON, 0)
	check(`{}}`, ErrNotJSON, 0)
	check(`{"messages":[{"role":"user"},{"role":"user","content":[{"type":"text"`, ErrTruncated, 1)
	check(`{"messages":[{"role":"user"},{"role":"user","content":[{"type" "text"}]}]}`, ErrNotJSON, 1)
	check(`{"messages":[{"role":"user","content":[{"type":text}]}]}`, ErrNotJSON, 0)
	check(`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{]}]}]}`, ErrNotJSON, 0)
}

func TestAnthropicBounds(t *testing.T) {
	var f Request
	body := `[{"role":"assistant","content":[` + strings.Repeat(`{"type":"tool_use"},`, maxKept+1) + `{}]},{"role":"user","content":[` +
		strings.Repeat(`{"type":"tool_result"},`, maxKept+1) + `{}]}]`
	if err := ScanMessages(wire.Anthropic, []byte(body), &f); err != nil || f.Dropped != 2 {
		t.Errorf("error %v, %d dropped", err, f.Dropped)
	}
	if len(f.Messages[0].Calls) != maxKept || len(f.Messages[1].Replies) != maxKept || f.Messages[0].PartCount != maxKept+2 {
		t.Errorf("%d calls, %d replies, %d parts", len(f.Messages[0].Calls), len(f.Messages[1].Replies), f.Messages[0].PartCount)
	}
}

// anthropicExchanges calls f with the recorded exchanges of the Messages API and of Claude models on Bedrock.
func anthropicExchanges(tb testing.TB, f func(e *exchange)) {
	tb.Helper()
	recordedtest.Lines(tb, recordedtest.Exchanges, func(_ int, line []byte) {
		e := must.JSON[exchange](tb, line)
		if e.API == "anthropic.messages" || e.API == "bedrock.invoke" && strings.Contains(string(e.Request), `"anthropic_version"`) {
			f(&e)
		}
	})
}

func TestAnthropicRecordedRequests(t *testing.T) {
	var f Request
	var n, calls, replies, strange int
	anthropicExchanges(t, func(e *exchange) {
		checkAnthropic(t, &f, e.Request)
		n++
		for _, m := range f.Messages {
			calls += len(m.Calls)
			replies += len(m.Replies)
			if e.Status < 300 && m.Fields&FieldUnknown != 0 {
				strange++
				t.Errorf("%s: accepted with the unknown field %q", e.ID, m.OtherField)
			}
		}
	})
	t.Logf("%d requests, %d calls, %d replies", n, calls, replies)
}
