package facts

import (
	"encoding/base64"
	"errors"
	"math/bits"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// geminiFacts scans a request body.
func geminiFacts(t *testing.T, body string) *Request {
	t.Helper()
	f := new(Request)
	must.Do(t, ScanRequest(wire.Gemini, []byte(body), f), body)
	return f
}

// rawFacts ignores the facts of every message about its bytes.
var rawFacts = cmp.Options{
	cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Request{}),
	cmpopts.IgnoreFields(Message{}, "Start", "End", "Hash", "ContentBytes"),
	cmpopts.IgnoreFields(Call{}, "Start", "End"), cmpopts.IgnoreFields(Reply{}, "Start", "End"),
}

func TestGeminiRequestMessage(t *testing.T) {
	f := func(body string, want Message) {
		t.Helper()
		got := geminiFacts(t, `{"contents":[`+body+`]}`)
		want.Kind = Object
		must.Agree(t, cmp.Diff([]Message{want}, got.Messages, rawFacts), body)
		if m := got.Messages[0]; body != "" && (m.Start != len(`{"contents":[`) || m.End-m.Start != len(body) || m.Hash != xxh3.HashString(body)) {
			t.Errorf("%s: span %d..%d", body, m.Start, m.End)
		}
	}
	user := func(m Message) Message {
		m.Role, m.RoleKind, m.RoleName = RoleUser, String, []byte("user")
		return m
	}
	model := func(m Message) Message {
		m.Role, m.RoleKind, m.RoleName = RoleAssistant, String, []byte("model")
		return m
	}
	parts := func(first, all Parts, n int) Message {
		return Message{Content: Array, FirstPart: first, Parts: all, PartCount: n}
	}
	text := parts(PartText, PartText, 1)

	// Roles.
	role := func(name string, want Role) {
		t.Helper()
		m := text
		m.Role, m.RoleKind, m.RoleName = want, String, []byte(name)
		f(`{"role":"`+name+`","parts":[{"text":"q"}]}`, m)
	}
	f(`{"role":"user","parts":[{"text":"q"}]}`, user(text))
	role("USER", RoleUser)
	role("function", RoleUser)
	role("", RoleUser)
	role("system", RoleSystem)
	role("tool", RoleTool)
	role("assistant", RoleOther)
	role("ipython", RoleOther)
	m := text
	m.Role = RoleUser
	f(`{"parts":[{"text":"q"}]}`, m)
	m.RoleKind = Null
	f(`{"parts":[{"text":"q"}],"role":null}`, m)
	m.Role, m.RoleKind = RoleNone, Number
	f(`{"parts":[{"text":"q"}],"role":1}`, m)

	// Values of parts: a list, one element, nothing, another type.
	f(`{"role":"user","parts":{"text":"q"}}`, user(text))
	f(`{"role":"user"}`, user(Message{}))
	f(`{"role":"user","parts":[]}`, user(Message{Content: Array}))
	f(`{"role":"user","parts":null}`, user(Message{Content: Null}))
	f(`{"role":"user","parts":"q"}`, user(Message{Content: String}))
	f(`{"role":"user","parts":["q",1,null]}`, user(parts(PartBad, PartBad, 3)))
	f(`{"role":"user","parts":[{"text":"a"}],"parts":[]}`, user(Message{Content: Array}))

	// Parts.
	part := func(body string, want Parts) {
		t.Helper()
		f(`{"role":"user","parts":[`+body+`]}`, user(parts(want, want, 1)))
	}
	part(`{"text":""}`, PartText|PartBlank)
	part(`{"text":"~0:0123456789abcdef"}`, PartText|PartBlank)
	part(`{"text":" "}`, PartText)
	part(`{}`, PartText|PartBlank)
	part(`{"text":null}`, PartText|PartBlank)
	part(`{"videoMetadata":{"fps":1}}`, PartText|PartBlank)
	part(`{"text":7}`, PartBad)
	part(`{"text":"","thoughtSignature":"c2ln"}`, PartText)
	part(`{"inlineData":{"mimeType":"image/png","data":"aGk="}}`, PartImage)
	part(`{"inline_data":{"data":"aGk=","mime_type":"image\/png"}}`, PartImage)
	part(`{"inlineData":{"mimeType":"audio/wav","data":""}}`, PartAudio)
	part(`{"fileData":{"mimeType":"application/pdf","fileUri":"gs://b/f"}}`, PartFile)
	part(`{"file_data":{"file_uri":"https://youtu.be/x"},"video_metadata":{},"media_resolution":{},"part_metadata":{}}`, PartFile)
	part(`{"inlineData":"x"}`, PartBad)
	part(`{"inlineData":null,"text":"q"}`, PartText)
	part(`{"executableCode":{"language":"PYTHON","code":"1"}}`, PartOther)
	part(`{"code_execution_result":{"outcome":"OUTCOME_OK"}}`, PartOther)
	part(`{"toolCall":null,"text":"a"}`, PartText)

	// Tools that the provider ran.
	server := func(body string, n int, want Fields) {
		t.Helper()
		m := parts(PartOther, PartOther, n)
		m.Fields = want
		f(`{"role":"user","parts":[`+body+`]}`, user(m))
	}
	server(`{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB"}}`, 1, FieldServerUse)
	server(`{"toolCall":{"id":"a"}},{"tool_response":{"id":"a"}}`, 2, FieldServerUse)
	server(`{"tool_call":{"id":"a"}},{"toolResponse":{"id":"b"}}`, 2, FieldServerUse|FieldServerOrphan)
	server(`{"toolResponse":{"id":"a"}},{"toolCall":{"id":"a"}}`, 2, FieldServerUse|FieldServerOrphan)
	server(`{"toolResponse":7}`, 1, FieldServerOrphan)

	// Thoughts and signatures.
	m = parts(PartReasoning, PartReasoning, 1)
	m.Reasoning = String
	f(`{"role":"user","parts":[{"thought":true,"text":"hm"}]}`, user(m))
	f(`{"role":"user","parts":[{"thought":true,"thoughtSignature":"c2ln"}]}`, user(m))
	f(`{"role":"user","parts":[{"thoughtSignature":"c2ln"}]}`, user(m))
	f(`{"role":"user","parts":[{"thought":false,"text":"q"}]}`, user(text))
	m = parts(PartReasoning, PartReasoning|PartText|PartCall, 4)
	m.Reasoning, m.ContentHash = String, xxh3.HashString("a<b>")
	m.Signed = bits.RotateLeft64(xxh3.HashString("c2ln"), 1) ^ xxh3.HashString("b25l")
	m.Calls = []Call{{Kind: Object, FuncKind: Object, Name: []byte("f"), NameKind: String, Signature: String}}
	f(`{"role":"model","parts":[{"thought":true,"text":"hm"},{"text":"a","thoughtSignature":"c2ln"},{"text":"\u003cb>"},{"functionCall":{"name":"f"},"thoughtSignature":"b25l"}]}`, model(m))
	f(`{"parts":[{"text":"hm","thought":true},{"text":"a","thought_signature":"c2ln"},{"text":"<b>"},{"thought_signature":"b25l","function_call":{"name":"f"}}],"role":"model"}`, model(m))

	// Calls.
	call := func(body string, want Call) {
		t.Helper()
		m := model(parts(PartCall, PartCall, 1))
		m.Calls = []Call{want}
		f(`{"role":"model","parts":[`+body+`]}`, m)
	}
	c := Call{Kind: Object, FuncKind: Object, Name: []byte("f"), NameKind: String}
	call(`{"functionCall":{"name":"f"}}`, c)
	call(`{"functionCall":{"name":"f","args":null}}`, c)
	call(`{"functionCall":{"name":"f","willContinue":true,"partialArgs":[]}}`, c)
	call(`{"functionCall":{"name":"f"},"thoughtSignature":""}`, c)
	call(`{"functionCall":{"name":"g"},"functionCall":{"name":"f"}}`, c)
	c.Fields = FieldUnknown
	call(`{"functionCall":{"name":"f","type":"function"}}`, c)
	c.Fields = 0
	c.ArgsKind, c.Args, c.ArgsBytes, c.ArgsHash = Object, ArgsObject, 7, xxh3.HashString(`{"a":1}`)
	call(`{"functionCall":{"name":"f","args":{"a":1}}}`, c)
	c.ID, c.IDKind = []byte("i"), String
	call(`{"functionCall":{"id":"i","args":{"a":1},"name":"f"}}`, c)
	call(`{"functionCall":{"name":"f","args":{"a":1}}}`, Call{
		Kind: Object, FuncKind: Object, Name: []byte("f"), NameKind: String, ArgsKind: Object, Args: ArgsObject, ArgsBytes: 7, ArgsHash: xxh3.HashString(`{"a":1}`),
	})
	call(`{"functionCall":{"name":"f","args":"{\"a\""}}`, Call{
		Kind: Object, FuncKind: Object, Name: []byte("f"), NameKind: String, ArgsKind: String, Args: ArgsTruncated, ArgsBytes: 6, ArgsHash: xxh3.HashString(`{\"a\"`),
	})
	call(`{"functionCall":{"name":null,"id":7,"args":[]}}`, Call{
		Kind: Object, FuncKind: Object, NameKind: Null, IDKind: Number, ArgsKind: Array, ArgsBytes: 2, ArgsHash: xxh3.HashString(`[]`),
	})
	call(`{"functionCall":"f"}`, Call{Kind: String, FuncKind: String})

	// Replies.
	reply := func(body string, want Reply) {
		t.Helper()
		m := user(parts(PartReply, PartReply, 1))
		m.Replies = []Reply{want}
		f(`{"role":"user","parts":[`+body+`]}`, m)
	}
	r := Reply{Name: []byte("f"), NameKind: String, Content: Object, ContentBytes: 10}
	reply(`{"functionResponse":{"name":"f","response":{"r":"ok"}}}`, r)
	reply(`{"function_response":{"response":{"r":"ok"},"name":"f","willContinue":false,"scheduling":"SILENT"}}`, r)
	r.ID, r.IDKind, r.PartCount, r.Parts = []byte("i"), String, 2, PartImage|PartBad
	reply(`{"functionResponse":{"id":"i","name":"f","response":{"r":"ok"},"parts":[{"inlineData":{"mimeType":"image/png"}},1]}}`, r)
	reply(`{"functionResponse":{"response":"ok"}}`, Reply{Content: String, ContentBytes: 2})
	reply(`{"functionResponse":{"name":null,"response":["ok"]}}`, Reply{NameKind: Null, Content: Array, ContentBytes: 6})
	reply(`{"functionResponse":{"name":"f","response":null}}`, Reply{Name: []byte("f"), NameKind: String, Content: Null, ContentBytes: 4})
	reply(`{"functionResponse":3}`, Reply{})
	m = user(parts(PartText, PartText|PartReply, 3))
	m.Replies = []Reply{{Name: []byte("f"), NameKind: String, After: PartText}, {Name: []byte("g"), NameKind: String, After: PartText | PartReply}}
	f(`{"role":"user","parts":[{"text":"a"},{"functionResponse":{"name":"f"}},{"functionResponse":{"name":"g"}}]}`, m)

	// Unknown keys in each of the three places.
	m = text
	m.Fields, m.OtherField = FieldUnknown, []byte("name")
	f(`{"role":"user","parts":[{"text":"q"}],"name":"x"}`, user(m))
	m.OtherField = []byte("type")
	f(`{"role":"user","parts":[{"type":"text","text":"q"}]}`, user(m))
	m.NullFields = FieldUnknown
	f(`{"role":"user","parts":[{"type":null,"text":"q"}]}`, user(m))
	m = parts(PartReply, PartReply, 1)
	m.Fields, m.OtherField = FieldUnknown, []byte("tool_call_id")
	m.Replies = []Reply{{Name: []byte("f"), NameKind: String}}
	f(`{"role":"user","parts":[{"functionResponse":{"name":"f","tool_call_id":"c"}}]}`, user(m))
}

func TestGeminiRequest(t *testing.T) {
	f := func(body string, want Request) {
		t.Helper()
		got := geminiFacts(t, body)
		must.Agree(t, cmp.Diff(want, *got, rawFacts), body)
	}
	names := func(names ...string) (all [][]byte) {
		for _, n := range names {
			all = append(all, []byte(n))
		}
		return all
	}
	f(`{}`, Request{})
	f(`{"model":"models/gemini-3-pro","contents":[],"safetySettings":[]}`, Request{MessagesKind: Array})
	f(`{"contents":"q"}`, Request{MessagesKind: String})
	f(`{"contents":["q",{"parts":[]}]}`, Request{MessagesKind: Array, Messages: []Message{{Kind: String}, {Kind: Object, Role: RoleUser, Content: Array}}})
	f(`{"contents":{"parts":[]}}`, Request{MessagesKind: Array, Messages: []Message{{Kind: Object, Role: RoleUser, Content: Array}}})
	f(`{"systemInstruction":{"parts":[{"text":"s"}]}}`, Request{System: Object})
	f(`{"system_instruction":"s"}`, Request{System: String})

	f(`{"tools":[]}`, Request{HasTools: true})
	f(`{"tools":null}`, Request{})
	f(`{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"name":1}},{"name":"g"}]},{"function_declarations":[{"name":""}]}]}`,
		Request{HasTools: true, ToolCount: 3, Tools: names("f", "g", ""), HasFunctions: true})
	f(`{"tools":{"functionDeclarations":{"name":"f"}}}`, Request{HasTools: true, ToolCount: 1, Tools: names("f"), HasFunctions: true})
	f(`{"tools":[{"googleSearch":{}},{"codeExecution":{},"urlContext":null}]}`, Request{HasTools: true, ToolCount: 2, OpenTools: true, Builtins: true})
	f(`{"tools":[{"computerUse":{},"google_search":null}],"toolConfig":{"includeServerSideToolInvocations":true}}`,
		Request{HasTools: true, ToolCount: 1, OpenTools: true, Combines: true})
	f(`{"tools":[{"functionDeclarations":[{}]},{"functionDeclarations":7},7]}`, Request{HasTools: true, ToolCount: 2, OpenTools: true, HasFunctions: true})
	f(`{"cachedContent":"cachedContents/x","tools":[{"functionDeclarations":[{"name":"f"}]}]}`,
		Request{HasTools: true, ToolCount: 1, Tools: names("f"), OpenTools: true, HasFunctions: true, Stored: true})
	f(`{"cachedContent":""}`, Request{})

	f(`{"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}}`, Request{ToolChoice: Object, Forced: []byte("f")})
	f(`{"tool_config":{"function_calling_config":{"allowed_function_names":["f"],"mode":"any"}}}`, Request{ToolChoice: Object, Forced: []byte("f")})
	f(`{"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}}}`, Request{ToolChoice: Object})
	f(`{"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["f"]}}}`, Request{ToolChoice: Object})
	f(`{"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[]}}}`, Request{ToolChoice: Object})
	f(`{"toolConfig":{"retrievalConfig":{}}}`, Request{})
	f(`{"toolConfig":"auto"}`, Request{ToolChoice: String})
	f(`{"toolConfig":{"functionCallingConfig":null}}`, Request{ToolChoice: Null})

	f(`{"generationConfig":{"maxOutputTokens":64,"temperature":0}}`, Request{MaxTokens: 64})
	f(`{"generation_config":{"max_output_tokens":64}}`, Request{MaxTokens: 64})
	thinking := func(config string, want Thinking) {
		t.Helper()
		f(`{"generationConfig":{"thinkingConfig":`+config+`}}`, Request{Thinking: want})
	}
	thinking(`{}`, ThinkingUnknown)
	thinking(`null`, ThinkingUnknown)
	thinking(`{"thinkingBudget":-1}`, ThinkingUnknown)
	thinking(`{"thinkingBudget":"0"}`, ThinkingUnknown)
	thinking(`{"includeThoughts":false}`, ThinkingUnknown)
	thinking(`{"thinkingBudget":0}`, ThinkingOff)
	thinking(`{"includeThoughts":true,"thinkingBudget":0}`, ThinkingOff)
	thinking(`{"thinking_budget":100}`, ThinkingOn)
	thinking(`{"include_thoughts":true}`, ThinkingOn)
	thinking(`{"thinkingLevel":"low","thinkingBudget":-1}`, ThinkingOn)
}

// A reused Request has no facts of the previous body.
func TestGeminiRequestReuse(t *testing.T) {
	var f Request
	for _, body := range geminiSeeds {
		for _, scan := range []func(wire.Dialect, []byte, *Request) error{ScanRequest, ScanMessages} {
			want := new(Request)
			wantErr, err := scan(wire.Gemini, []byte(body), want), scan(wire.Gemini, []byte(body), &f)
			if diff := cmp.Diff(*want, f, rawFacts); diff != "" || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v (-new +used):\n%s", body, err, diff)
			}
		}
	}
}

func TestGeminiMessages(t *testing.T) {
	var f Request
	must.Do(t, ScanMessages(wire.Gemini, []byte(`[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f"}}]}]`), &f))
	if len(f.Messages) != 2 || len(f.Messages[0].Calls) != 1 || len(f.Messages[1].Replies) != 1 {
		t.Errorf("messages %+v", f.Messages)
	}
	must.Is(t, ScanMessages(wire.Gemini, []byte(`{}`), &f), ErrNotJSON)
}

// One signature has many forms: two alphabets, with and without padding, escaped slashes. The values that disable the
// provider's check are not signatures.
func TestGeminiSigned(t *testing.T) {
	signature := []byte("\xfb\xff\xbf signed")
	standard, url := base64.StdEncoding.EncodeToString(signature), base64.URLEncoding.EncodeToString(signature)
	if !strings.ContainsAny(standard, "+/") || !strings.Contains(standard, "=") || standard == url {
		t.Fatalf("the two alphabets do not differ: %s, %s", standard, url)
	}
	signed := func(signatures ...string) uint64 {
		t.Helper()
		var parts []string
		for _, s := range signatures {
			parts = append(parts, `{"text":"a","thoughtSignature":"`+s+`"}`)
		}
		return geminiFacts(t, `{"contents":[{"role":"model","parts":[`+strings.Join(parts, ",")+`]}]}`).Messages[0].Signed
	}
	want := xxh3.HashString(strings.TrimRight(standard, "="))
	for _, s := range []string{standard, url, base64.RawURLEncoding.EncodeToString(signature), strings.ReplaceAll(standard, "/", `\/`)} {
		must.Equal(t, signed(s), want, "%s", s)
	}
	must.Equal(t, signed("skip_thought_signature_validator", standard, "context_engineering_is_the_way_to_go", ""), want, "with values that disable the check")
	if signed("YQ", "Yg") == signed("Yg", "YQ") {
		t.Error("the hash does not depend on the order")
	}
}
