package facts

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

var sameFacts = cmp.Options{cmpopts.IgnoreUnexported(Request{}), cmpopts.EquateEmpty()}

// diffFacts returns the differences between the facts of a reference and of a scan. If there are none, it takes a tenth of the time of cmp.Diff.
func diffFacts(want, got *Request) string {
	w, g := plainFacts(want), plainFacts(got)
	if w.setup, w.cache, g.setup, g.cache = (Setup{}), (Cache{}), (Setup{}), (Cache{}); reflect.DeepEqual(w, g) {
		return ""
	}
	return cmp.Diff(*want, *got, sameFacts)
}

// checkRequest compares the facts of body with the reference. A body that is not valid JSON may fail, a valid object must
// not.
func checkRequest(t *testing.T, d wire.Dialect, reference func([]byte) Request, f *Request, body []byte) {
	t.Helper()
	err := ScanRequest(d, body, f)
	if !json.Valid(body) || !utf8.Valid(body) {
		for _, m := range f.Messages {
			if m.Start < 0 || m.End <= m.Start || m.End > len(body) {
				t.Fatalf("%q: message span %d..%d", body, m.Start, m.End)
			}
		}
		return
	}
	if parse(body).kind != Object {
		if !errors.Is(err, ErrNotJSON) {
			t.Fatalf("%q: error %v, want ErrNotJSON", body, err)
		}
		return
	}
	must.Do(t, err, string(body))
	want := reference(body)
	if diff := diffFacts(&want, f); diff != "" {
		t.Fatalf("%s\nfacts (-reference +scan):\n%s", body, diff)
	}
}

func checkChat(t *testing.T, f *Request, body []byte) {
	t.Helper()
	checkRequest(t, wire.OpenAIChat, refRequest, f, body)
}

func TestScanRequestFacts(t *testing.T) {
	var f Request
	scan := func(t *testing.T, body string) *Request {
		t.Helper()
		must.Do(t, ScanRequest(wire.OpenAIChat, []byte(body), &f), body)
		return &f
	}
	const before = `{"messages":[`
	message := func(body string, want Message) {
		t.Helper()
		f := scan(t, before+body+`]}`)
		want.Start, want.End = len(before), len(before)+len(body)
		want.Hash = xxh3.HashString(body)
		for i := range want.Replies {
			want.Replies[i].Start, want.Replies[i].End = want.Start, want.End
		}
		must.Agree(t, cmp.Diff([]Message{want}, f.Messages, sameFacts), body)
	}
	by := func(role string, m Message) Message {
		m.Kind, m.RoleKind, m.RoleName, m.Role = Object, String, []byte(role), roleOf([]byte(role), String)
		return m
	}
	// Wrong types are facts.
	message(`null`, Message{Kind: Null})
	message(`"x"`, Message{Kind: String})
	message(`{}`, Message{Kind: Object})
	message(`{"role":1,"content":2}`, Message{Kind: Object, RoleKind: Number, Content: Number, ContentBytes: 1})
	message(`{"role":"narrator"}`, by("narrator", Message{}))
	message(`{"role":"tool","tool_call_id":"a\"b","content":{"k":1}}`, by("tool", Message{
		Content: Object, ContentBytes: 7, Replies: []Reply{{IDKind: String, ID: []byte(`a"b`), Content: Object, ContentBytes: 7}},
	}))
	message(`{"role":"tool"}`, by("tool", Message{Replies: []Reply{{}}}))
	message(`{"role":"tool","name":"f","tool_call_id":"c","content":[{"type":"text","text":"a"}]}`, by("tool", Message{
		Name: []byte("f"), NameKind: String, Fields: FieldName, Content: Array, ContentBytes: 28, Parts: PartText, PartCount: 1, FirstPart: PartText,
		Replies: []Reply{{ID: []byte("c"), IDKind: String, Name: []byte("f"), NameKind: String, Content: Array, ContentBytes: 28, Parts: PartText, PartCount: 1}},
	}))
	// Ollama: replies name the function; reasoning and images have their own keys.
	message(`{"role":"tool","tool_name":"f","content":"ok"}`, by("tool", Message{
		Fields: FieldToolName, Content: String, ContentBytes: 2, Replies: []Reply{{Name: []byte("f"), NameKind: String, Content: String, ContentBytes: 2}},
	}))
	message(`{"role":"assistant","content":"","thinking":"hm","images":[]}`, by("assistant", Message{
		Content: String, ContentHash: xxh3.HashString(""), Reasoning: String, Fields: FieldUnknown, OtherField: []byte("thinking"),
	}))
	// Escaped keys and values; the last of two equal keys wins.
	message(`{"rol\u0065":"\u0075ser","content":[],"content":"ab"}`, by("user", Message{Content: String, ContentBytes: 2}))
	message(`{"role":"user","content":[{"type":"text"},{"type":"image_url"},{"type":"x"},{"type":null},7]}`, by("user", Message{
		Content: Array, ContentBytes: 67, PartCount: 5, Parts: PartText | PartImage | PartOther | PartBad, FirstPart: PartText,
	}))
	message(`{"role":"user","content":[{"type":"text","text":""}]}`, by("user", Message{
		Content: Array, ContentBytes: 27, PartCount: 1, Parts: PartText | PartBlank, FirstPart: PartText | PartBlank,
	}))
	message(`{"role":"assistant","content":"a","tool_calls":[{}],"tool_calls":null}`, by("assistant", Message{
		Content: String, ContentBytes: 1, ContentHash: xxh3.HashString("a"), ToolCalls: Null,
	}))
	message(`{"role":"tool","name":"a","name":null,"tool_call_id":"a","tool_call_id":3}`, by("tool", Message{
		NameKind: Null, Fields: FieldName, Replies: []Reply{{IDKind: Number, NameKind: Null}},
	}))
	// The role follows the content, or changes.
	message(`{"content":"\u003cb>\/\ud83d\ude00","role":"assistant"}`, by("assistant", Message{
		Content: String, ContentBytes: 22, ContentHash: xxh3.HashString("<b>/😀"),
	}))
	const parts = `[{"type":"text","text":"a\n"},{"type":"image_url"},{"text":"\u0062","type":"text"}]`
	twoTexts := Message{
		Content: Array, ContentBytes: len(parts), ContentHash: xxh3.HashString("a\nb"), PartCount: 3, Parts: PartText | PartImage, FirstPart: PartText,
	}
	message(`{"content":`+parts+`,"role":"assistant"}`, by("assistant", twoTexts))
	message(`{"role":"user","content":`+parts+`,"role":"assistant"}`, by("assistant", twoTexts))
	// The shape of a text states its length.
	message(`{"role":"user","content":"~1234:0123456789abcdef"}`, by("user", Message{Content: String, ContentBytes: 1234}))
	message(`{"role":"user","content":[{"type":"text","text":"~0:0123456789abcdef"}]}`, by("user", Message{
		Content: Array, ContentBytes: 46, PartCount: 1, Parts: PartText | PartBlank, FirstPart: PartText | PartBlank,
	}))
	// Reasoning, and null keys.
	message(`{"role":"assistant","reasoning":null,"reasoning_details":[]}`, by("assistant", Message{
		Reasoning: Array, Fields: FieldReasoning | FieldReasoningDetails, NullFields: FieldReasoning,
	}))
	message(`{"role":"assistant","reasoning_content":null}`, by("assistant", Message{
		Reasoning: Null, Fields: FieldReasoningContent, NullFields: FieldReasoningContent,
	}))
	message(`{"role":"assistant","content":[{"type":"thinking","thinking":[]}]}`, by("assistant", Message{
		Content: Array, ContentBytes: 35, PartCount: 1, Parts: PartReasoning, FirstPart: PartReasoning, Reasoning: Array,
	}))
	message(`{"role":"user","prefix":false,"odd":1,"strange":null,"refusal":null,"name":false}`, by("user", Message{
		NameKind: Bool, Fields: FieldPrefix | FieldUnknown | FieldRefusal | FieldName, NullFields: FieldPrefix | FieldRefusal | FieldName, OtherField: []byte("odd"),
	}))

	call := func(body string, want Call) {
		t.Helper()
		f := scan(t, `{"messages":[{"tool_calls":[`+body+`]}]}`)
		want.Start = len(`{"messages":[{"tool_calls":[`)
		want.End = want.Start + len(body)
		must.Agree(t, cmp.Diff([]Call{want}, f.Messages[0].Calls, sameFacts), body)
	}
	call(`3`, Call{Kind: Number})
	call(`{"id":null,"type":1,"function":"f","x":0}`, Call{Kind: Object, IDKind: Null, TypeKind: Number, FuncKind: String, Fields: FieldUnknown})
	call(`{"type":null}`, Call{Kind: Object, TypeKind: Null})
	call(`{"type":"function","type":""}`, Call{Kind: Object, TypeKind: String, Type: TypeOther})
	call(`{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`, Call{
		Kind: Object, IDKind: String, ID: []byte("c"), TypeKind: String, Type: TypeFunction, FuncKind: Object, NameKind: String, Name: []byte("f"),
		ArgsKind: String, Args: ArgsObject, ArgsBytes: 9, ArgsHash: xxh3.HashString(`{\"a\":1}`), Fields: FieldIndex,
	})
	call(`{"function":{"name":null,"arguments":{"a":1},"index":1,"parsed":{}}}`, Call{
		Kind: Object, FuncKind: Object, NameKind: Null, ArgsKind: Object, Args: ArgsObject, ArgsBytes: 7, ArgsHash: xxh3.HashString(`{"a":1}`),
		Fields: FieldIndex | FieldUnknown,
	})
	call(`{"function":{"name":"f","arguments":"{"},"function":{}}`, Call{Kind: Object, FuncKind: Object})
	// A custom call's input is free text, not JSON.
	call(`{"type":"custom","custom":{"name":"sql","input":"select {"}}`, Call{
		Kind: Object, TypeKind: String, Type: TypeCustom, NameKind: String, Name: []byte("sql"), ArgsKind: String, ArgsBytes: 8,
		ArgsHash: xxh3.HashString("select {"),
	})
	call(`{"extra_content":{"google":{"thought_signature":"s"}}}`, Call{Kind: Object, Fields: FieldExtraContent, Signature: String})
	call(`{"extra_content":{"google":{"thought_signature":"s"},"google":7}}`, Call{Kind: Object, Fields: FieldExtraContent})

	request := func(body string, want Request) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, *scan(t, body), sameFacts), body)
	}
	request(`{"functions":[],"function_call":"auto","tools":[{"type":"x"},{"function":{"name":"f"}},{"custom":{"name":""}},1]}`, Request{
		Functions: Array, HasTools: true, ToolCount: 4, OpenTools: true, Tools: [][]byte{[]byte("f"), {}}, HasFunctions: true,
	})
	request(`{"tool_choice":{"type":"custom","custom":{"name":"sql"}},"parallel_tool_calls":false,"function_call":null}`, Request{
		ToolChoice: Object, Forced: []byte("sql"), Forces: true, ParallelCalls: Bool, Functions: Null,
	})
	request(`{"thinking":{"type":"enabled"}}`, Request{Thinking: ThinkingOn})
	request(`{"thinking":{"type":"disabled"},"enable_thinking":true}`, Request{Thinking: ThinkingOff})
	request(`{"thinking":{"type":"enabled"},"thinking":7}`, Request{})
	request(`{"enable_thinking":null,"think":"high"}`, Request{Thinking: ThinkingOn})
	request(`{"think":false}`, Request{Thinking: ThinkingOff})
	request(`{"tool_choice":"required","reasoning_effort":"none"}`, Request{ToolChoice: String, Forces: true, Effort: ThinkingOff})
	request(`{"tool_choice":"auto","reasoning_effort":"low"}`, Request{ToolChoice: String, Effort: ThinkingOn})
	request(`{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required"}}}`, Request{ToolChoice: Object})

	body := `{"model":"a\/b","stream":true,"tools":[{},{}],"tool_choice":{"type":"function","function":{"name":"fi\u006eal"}},
		"max_tokens":7,"messages":[{"role":"user","odd":1}]}`
	got := *scan(t, body)
	got.Messages = nil
	want := Request{
		Model: []byte("a/b"), Stream: true, HasTools: true, ToolCount: 2, OpenTools: true, ToolChoice: Object, Forced: []byte("final"), Forces: true,
		MaxTokens: 7, MessagesKind: Array,
	}
	must.Agree(t, cmp.Diff(want, got, sameFacts), "request")
}

func TestScanRequestErrors(t *testing.T) {
	var f Request
	check := func(body string, want error, messages int) {
		t.Helper()
		must.Is(t, ScanRequest(wire.OpenAIChat, []byte(body), &f), want, body)
		must.Equal(t, len(f.Messages), messages, "%s: messages", body)
	}
	check(``, ErrNotJSON, 0)
	check(`[]`, ErrNotJSON, 0)
	check(`"{}"`, ErrNotJSON, 0)
	check(`{}}`, ErrNotJSON, 0)
	check(`{"messages":[{"role":"user"},{"role":"user","content":"x`, ErrTruncated, 1)
	check(`{"messages":[{"role":"user"} {"role":"user"}]}`, ErrNotJSON, 1)
	check(`{"messages":[{"role":"user"},]}`, ErrNotJSON, 1)
	check(`{"messages":[{"role":user}]}`, ErrNotJSON, 0)
	check(`{"messages":[{"role":nil}]}`, ErrNotJSON, 0)
	check(`{"messages":[{"role" "user"}]}`, ErrNotJSON, 0)
	check(`{'messages':[]}`, ErrNotJSON, 0)
	must.Is(t, ScanRequest(wire.Other, []byte(`{}`), &f), ErrDialect, "other dialect")
}

func TestScanMessages(t *testing.T) {
	var f Request
	body := []byte(` [{"role":"user","content":"q"}, {"role":"assistant","content":"a"}] `)
	must.Do(t, ScanMessages(wire.OpenAIChat, body, &f))
	want := refMessages(body, parse(body))
	want.Bare = true
	must.Agree(t, cmp.Diff(want, f, sameFacts), "facts (-reference +scan)")
	must.Is(t, ScanMessages(wire.OpenAIChat, []byte(`{}`), &f), ErrNotJSON, "object")
	if err := ScanMessages(wire.Other, body, &f); !errors.Is(err, ErrDialect) || len(f.Messages) != 0 {
		t.Errorf("other dialect: error %v, %d messages", err, len(f.Messages))
	}
}

// Decoded strings remain valid while scratch grows.
func TestScanKeepsDecodedStrings(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var b strings.Builder
	b.WriteString(`{"model":"m\u006fdel","messages":[`)
	for i := range 100 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"content":"` + strings.Repeat(`\u003c`, i) + `","role":"assistant","tool_calls":[{"id":"id\/` + strings.Repeat("x", i) + `"}]}`)
	}
	b.WriteString(`]}`)
	var f Request
	for range 2 {
		checkChat(t, &f, []byte(b.String()))
	}
}

func TestScanKeepsBound(t *testing.T) {
	var f Request
	body := []byte(`{"messages":[` + strings.Repeat(`1,`, maxKept+9) + `1]}`)
	if err := ScanRequest(wire.OpenAIChat, body, &f); err != nil || len(f.Messages) != maxKept || f.Dropped != 10 {
		t.Errorf("error %v, %d messages, %d dropped", err, len(f.Messages), f.Dropped)
	}
	body = []byte(`{"messages":[{"tool_calls":[` + strings.Repeat(`{},`, maxKept) + `{}]}]}`)
	if err := ScanRequest(wire.OpenAIChat, body, &f); err != nil || len(f.Messages[0].Calls) != maxKept || f.Dropped != 1 {
		t.Errorf("error %v, %d calls, %d dropped", err, len(f.Messages[0].Calls), f.Dropped)
	}
}

func TestScanArguments(t *testing.T) {
	var f Request
	for _, args := range argsSeeds {
		quoted := must.Get(json.Marshal(args))(t)
		checkChat(t, &f, []byte(`{"messages":[{"tool_calls":[{"function":{"arguments":`+string(quoted)+`}}]}]}`))
	}
}

func TestScanRecordedRequests(t *testing.T) {
	slowtest.SkipShort(t, "one goroutine, and slow under the race detector")
	var f Request
	var n, size int
	exchanges(t, "openai.chat", func(e *exchange) {
		checkChat(t, &f, e.Request)
		n++
		size += len(e.Request)
	})
	t.Logf("%d requests, %d bytes", n, size)
}
