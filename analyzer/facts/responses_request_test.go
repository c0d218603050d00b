package facts

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// responsesSeeds are requests that are difficult for a scanner.
var responsesSeeds = []string{
	`{"prompt_cache_key":"k","prompt_cache_retention":"24h","input":[{"role":"user","content":[{"type":"input_text","text":"q","prompt_cache_breakpoint":{"mode":"explicit"}}]}]}`,
	`{}`,
	`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"a"},{"name":"\u0062"},1]},{"type":"function","name":"a"}],"tool_choice":"required","input":[{"type":"function_call","call_id":"c","name":"a","namespace":"n","arguments":"{}"}]}`,
	`{"model":"gpt-5","input":"q","stream":true,"instructions":"s","max_output_tokens":9,"reasoning":{"effort":"low"},"parallel_tool_calls":false}`,
	` { "input" : [ { "role" : "user" , "content" : [ { "type" : "input_text" , "text" : "q" } , { "type" : "input_image" } ] } ] } `,
	`{"input":[{"type":"message","role":"assistant","id":"msg_1","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"\u003cb","annotations":[]},{"text":"c\n","type":"output_text"},{"type":"refusal","refusal":"no"},{"type":"output_text","text":""}]}]}`,
	`{"input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gA\/\u0041"},{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"a\":\"\\n\"}"},{"type":"function_call_output","call_id":"call_1","output":"ok"}]}`,
	`{"input":[{"arguments":"{}","call_id":"a\u005fb","name":"f","metadata":null,"x":1,"type":"function_call"},{"output":[{"type":"input_text","text":"","cache_control":{}},{"type":"input_file","cache_control":null},3],"call_id":"a_b","type":"function_call_output"}]}`,
	`{"input":[{"type":"custom_tool_call","call_id":"c","name":"patch","input":"*** Begin"},{"type":"custom_tool_call","input":{},"call_id":1},{"type":"custom_tool_call_output","call_id":"c","output":null}]}`,
	`{"input":[{"type":"tool_search_call","call_id":null,"arguments":{"q":1}},{"type":"function_call","call_id":null,"arguments":{}},{"type":"function_call_output","call_id":null},{"type":"function_call_output","name":"f"},{"type":"function_call_output","name":null},{"type":"tool_search_output","tools":[]},{"type":"compaction","encrypted_content":"x"},{"type":7},{"type":"web_search_call","id":"ws_1","x":[{"cache_control":1}]}]}`,
	`{"input":[{"type":"shell_call","call_id":"s","environment":{"type":"container_reference"},"environment":null},{"type":"local_sh\u0065ll_call","call_id":"l","action":{"a":1}},{"type":"local_shell_call_output","id":"l","output":"x"},{"type":"shell_call_output","call_id":"s","output":[{"stdout":""}]},{"operation":null,"type":"apply_patch_call","call_id":"p\n"},{"type":"tool_search_call","execution":"server","call_id":"t","arguments":[1]},{"type":"tool_search_output","call_id":"u","tools":[2],"name":"n"}]}`,
	`{"input":[{"type":"computer_call","call_id":"k","action":{"x":1},"actions":[]},{"type":"computer_call_output","call_id":"k","output":{"type":"computer_screenshot"}},{"type":"shell_call","call_id":"m","environment":{"type":"local"},"action":"y","name":3},{"type":"unknown_call","call_id":"o"}]}`,
	`{"input":[{"type":"item_reference","id":"msg_1"},{"id":"msg_2"},{"id":"msg_3","role":"user"},{"id":null},{"type":null,"content":null,"role":null}],"previous_response_id":null,"conversation":null,"prompt":null}`,
	`{"input":[{"type":"message","role":"user","content":"a","tool_calls":[],"name":"n","name":null,"metadata":false,"metadata":{},"b":null,"c":false},{"type":"reasoning","role":"x","summary":null,"content":[{"type":"reasoning_text","cache_control":false}]}]}`,
	`{"input":[{"role":"user","content":[{"type":"output_text","text":"a"},{"type":"text","text":"b"}],"role":"assistant","content":[{"type":"output_text"},{"type":"output_text","text":"c"},{"text":1}],"typ\u0065":"message"},null,"x",[1],{}]}`,
	`{"tools":[{"type":"function","name":"a"},{"name":"\u0062","type":"custom"},{"type":"mcp","name":"m"},{"type":"web_search"},{"type":"function"},3],"tool_choice":{"type":"function","name":"fo\u0072ced"},"previous_response_id":"resp_1","conversation":{"id":"c"}}`,
	`{"tools":{},"tool_choice":{"type":"mcp","name":"x"},"reasoning":{"effort":null},"max_output_tokens":1e3,"input":{"a":1},"prompt":{"id":"p"}}`,
	`{"input":[{"type":"compaction"}],"tools":[{}],"tools":[],"input":[{"role":"assistant","content":"~12:0123456789abcdef"},{"role":"assistant","content":[{"type":"output_text","text":"~0:0123456789abcdef"}]}],"reasoning":{"effort":"none"},"tool_choice":"auto"}`,
}

func checkResponses(t *testing.T, f *Request, body []byte) {
	t.Helper()
	checkRequest(t, wire.OpenAIResponses, refResponses, f, body)
}

func TestResponsesItems(t *testing.T) {
	var f Request
	item := func(body string, want Message) {
		t.Helper()
		body = strings.ReplaceAll(body, "'", `"`)
		before := `{"input":[null,`
		must.Do(t, ScanRequest(wire.OpenAIResponses, []byte(before+body+`]}`), &f), body)
		want.Kind, want.Start, want.End, want.Hash = Object, len(before), len(before)+len(body), xxh3.HashString(body)
		for i := range want.Calls {
			c := &want.Calls[i]
			c.Kind, c.FuncKind, c.TypeKind, c.Start, c.End = Object, Object, String, want.Start, want.End
		}
		for i := range want.Replies {
			want.Replies[i].Start, want.Replies[i].End = want.Start, want.End
		}
		must.Agree(t, cmp.Diff([]Message{{Kind: Null, Start: 10, End: 14, Hash: xxh3.HashString("null")}, want}, f.Messages, sameFacts), body)
	}
	user := Message{Item: ItemMessage, Role: RoleUser, RoleKind: String, RoleName: []byte("user"), Content: String, ContentBytes: 1}
	item(`{'role':'user','content':'q'}`, user)
	item(`{'content':'q','type':'message','role':'user'}`, user)
	parts := user
	parts.Content, parts.ContentBytes, parts.PartCount, parts.FirstPart = Array, 161, 6, PartText
	parts.Parts = PartText | PartImage | PartFile | PartAudio | PartOther | PartBad
	item(`{'role':'user','content':[{'type':'input_text','text':'q'},{'type':'input_image','image_url':'u'},{'type':'input_file','file_id':'f'},{'type':'input_audio'},{'type':'video','x':1},'bad']}`, parts)
	// All text parts of an assistant are one text.
	assistant := Message{Item: ItemMessage, Role: RoleAssistant, RoleKind: String, RoleName: []byte("assistant"), ID: []byte("msg_1")}
	text := assistant
	text.Content, text.ContentBytes, text.PartCount, text.FirstPart = Array, 107, 3, PartText
	text.Parts, text.ContentHash = PartText|PartRefusal, xxh3.HashString("one\ntwo")
	item(`{'id':'msg_1','content':[{'type':'output_text','text':'one\n'},{'type':'refusal','refusal':''},{'type':'output_text','text':'two'}],'role':'assistant','status':'completed','type':'message'}`, text)
	// Wrong types are facts.
	item(`{}`, Message{Item: ItemMessage})
	item(`{'type':null,'role':1,'content':2}`, Message{Item: ItemMessage, RoleKind: Number, Content: Number, ContentBytes: 1})
	item(`{'type':1,'role':'user'}`, Message{Item: ItemOther, Unpaired: true})

	call := Call{ID: []byte("call_1"), IDKind: String, Name: []byte("f"), NameKind: String, Type: TypeFunction, ArgsKind: String, Args: ArgsObject, ArgsBytes: 2, ArgsHash: xxh3.HashString("{}")}
	spaced := call
	spaced.Fields = FieldNamespace
	item(`{'type':'function_call','id':'fc_1','call_id':'call_1','name':'f','arguments':'{}','status':'completed','namespace':'n','caller':null}`,
		Message{Item: ItemCall, Role: RoleAssistant, ID: []byte("fc_1"), Calls: []Call{spaced}})
	item(`{'arguments':'{}','name':'f','call_id':'call_1','type':'function_call'}`, Message{Item: ItemCall, Role: RoleAssistant, Calls: []Call{call}})
	call.ArgsKind, call.ArgsBytes, call.ArgsHash = Object, 7, xxh3.HashString(`{"a":1}`)
	item(`{'arguments':{'a':1},'name':'f','call_id':'call_1','type':'function_call'}`, Message{Item: ItemCall, Role: RoleAssistant, Calls: []Call{call}})
	item(`{'type':'function_call'}`, Message{Item: ItemCall, Role: RoleAssistant, Calls: []Call{{Type: TypeFunction}}})
	item(`{'type':'custom_tool_call','call_id':'','input':'{}','arguments':'x'}`, Message{Item: ItemCall, Role: RoleAssistant, Calls: []Call{{
		IDKind: String, Type: TypeCustom, ArgsKind: String, ArgsBytes: 2, ArgsHash: xxh3.HashString("{}"),
	}}})
	item(`{'type':'function_call_output','call_id':'call_1','output':'done'}`, Message{
		Item: ItemReply, Role: RoleTool, Content: String, ContentBytes: 4,
		Replies: []Reply{{ID: []byte("call_1"), IDKind: String, Content: String, ContentBytes: 4}},
	})
	item(`{'type':'custom_tool_call_output','call_id':7,'output':[{'type':'input_image'}]}`, Message{
		Item: ItemReply, Role: RoleTool, Content: Array, ContentBytes: 24, Parts: PartImage, FirstPart: PartImage, PartCount: 1,
		Replies: []Reply{{IDKind: Number, Content: Array, ContentBytes: 24, Parts: PartImage, PartCount: 1}},
	})
	item(`{'type':'function_call_output'}`, Message{Item: ItemReply, Role: RoleTool, Replies: []Reply{{}}})
	// The provider's own calls, and replies without a call id by design.
	item(`{'type':'function_call_output','call_id':null,'output':''}`, Message{Item: ItemOther})
	item(`{'type':'function_call_output','name':'f','output':''}`, Message{Item: ItemOther})
	item(`{'type':'function_call','call_id':null,'arguments':{}}`, Message{Item: ItemOther, Unpaired: true})
	for _, typ := range []string{"web_search_call", "mcp_call", "mcp_approval_response", "program"} {
		item(`{'type':'`+typ+`','id':'x','call_id':'c','arguments':{},'odd':[],'role':'user','content':'q'}`, Message{Item: ItemOther, ID: []byte("x")})
	}
	item(`{'type':'later','id':'x','call_id':'c','output':'x'}`, Message{Item: ItemOther, ID: []byte("x"), Unpaired: true, CallID: []byte("c")})
	item(`{'type':'reasoning','id':'rs_1','summary':[],'encrypted_content':'gA\/A'}`,
		Message{Item: ItemReasoning, ID: []byte("rs_1"), Reasoning: String, Signed: xxh3.HashString("gA/A")})
	item(`{'type':'reasoning','summary':[],'encrypted_content':null,'content':null}`, Message{Item: ItemReasoning, Reasoning: Array})
	if f.Stored || f.OpenTools {
		t.Error("Stored is set without stored items")
	}
	item(`{'id':'msg_1'}`, Message{Item: ItemReference, ID: []byte("msg_1")})
	item(`{'type':'item_reference','id':'msg_1'}`, Message{Item: ItemReference, ID: []byte("msg_1")})
	if !f.Stored {
		t.Error("Stored is not set for an item reference")
	}
}

// TestResponsesOtherItems reads the calls and outputs of tools that are neither functions nor custom tools.
func TestResponsesOtherItems(t *testing.T) {
	var f Request
	item := func(body string, want Message) {
		t.Helper()
		body = strings.ReplaceAll(body, "'", `"`)
		must.Do(t, ScanRequest(wire.OpenAIResponses, []byte(`{"input":[`+body+`]}`), &f), body)
		want.Kind, want.Start, want.End, want.Hash = Object, 10, 10+len(body), xxh3.HashString(body)
		for i := range want.Calls {
			c := &want.Calls[i]
			c.ID, c.IDKind, c.Kind, c.TypeKind, c.Start, c.End = []byte("c"), String, Object, String, want.Start, want.End
		}
		for i := range want.Replies {
			r := &want.Replies[i]
			r.ID, r.IDKind, r.Content, r.ContentBytes, r.Start, r.End = []byte("c"), String, String, want.ContentBytes, want.Start, want.End
			want.Content = String
		}
		must.Agree(t, cmp.Diff([]Message{want}, f.Messages, sameFacts), body)
	}
	call := func(body, name string, typ CallType, args string) {
		t.Helper()
		c := Call{Name: []byte(name), Type: typ}
		if args != "" {
			args = strings.ReplaceAll(args, "'", `"`)
			c.ArgsKind, c.ArgsBytes, c.ArgsHash = Object, len(args), xxh3.HashString(args)
		}
		item(body, Message{Item: ItemCall, Role: RoleAssistant, ID: []byte("x"), Calls: []Call{c}})
	}
	reply := func(body, name string, size int) {
		t.Helper()
		item(body, Message{Item: ItemReply, Role: RoleTool, ContentBytes: size, Replies: []Reply{{Name: []byte(name)}}})
	}
	call(`{'type':'local_shell_call','id':'x','call_id':'c','status':'completed','action':{'type':'exec'}}`, "local_shell", TypeOther, `{'type':'exec'}`)
	call(`{'action':{},'environment':{'type':'local'},'call_id':'c','id':'x','type':'shell_call'}`, "shell", TypeOther, `{}`)
	call(`{'action':{},'environment':null,'call_id':'c','id':'x','type':'shell_call'}`, "shell", TypeOther, `{}`)
	call(`{'action':{},'call_id':'c','id':'x','type':'shell_call'}`, "shell", TypeEither, `{}`)
	call(`{'type':'apply_patch_call','id':'x','call_id':'c','operation':{'diff':''},'name':'odd'}`, "apply_patch", TypeOther, `{'diff':''}`)
	call(`{'type':'computer_call','id':'x','call_id':'c','action':{},'actions':null}`, "computer", TypeOther, `{}`)
	call(`{'type':'tool_search_call','id':'x','call_id':'c','execution':'client','arguments':{'q':1}}`, "tool_search", TypeOther, `{'q':1}`)
	call(`{'type':'tool_search_call','id':'x','call_id':'c'}`, "tool_search", TypeOther, ``)

	reply(`{'type':'local_shell_call_output','call_id':'c','output':'done'}`, "local_shell", 4)
	reply(`{'type':'shell_call_output','call_id':'c','max_output_length':9,'output':[{'stdout':'','outcome':{'type':'timeout'}}]}`, "shell", 44)
	reply(`{'type':'apply_patch_call_output','call_id':'c','status':'completed'}`, "apply_patch", 0)
	reply(`{'type':'computer_call_output','call_id':'c','output':{'type':'computer_screenshot'}}`, "computer", 30)
	reply(`{'type':'tool_search_output','call_id':'c','execution':'client','tools':[1]}`, "tool_search", 3)
	item(`{'type':'local_shell_call_output','id':'c','output':'x'}`, Message{
		Item: ItemReply, Role: RoleTool, ID: []byte("c"), ContentBytes: 1, Replies: []Reply{{Name: []byte("local_shell")}},
	})

	// The provider runs them, or the call_id is missing.
	item(`{'type':'shell_call','call_id':'c','environment':{'type':'container_reference','container_id':'k'}}`, Message{Item: ItemOther, Unpaired: true, CallID: []byte("c")})
	item(`{'type':'tool_search_call','call_id':'c','execution':'server'}`, Message{Item: ItemOther})
	item(`{'type':'tool_search_output','call_id':'c','execution':'server','tools':[]}`, Message{Item: ItemOther})
	item(`{'type':'tool_search_call','call_id':null,'arguments':{}}`, Message{Item: ItemOther})
	item(`{'type':'tool_search_output','call_id':null,'tools':[]}`, Message{Item: ItemOther})
	item(`{'type':'local_shell_call'}`, Message{Item: ItemOther, Unpaired: true})
	item(`{'type':'shell_call_output','output':[]}`, Message{Item: ItemOther})
}

func TestResponsesFields(t *testing.T) {
	var f Request
	check := func(item string, fields, null Fields, other string) {
		t.Helper()
		item = strings.ReplaceAll(item, "'", `"`)
		must.Do(t, ScanMessages(wire.OpenAIResponses, []byte(`[`+item+`]`), &f), item)
		if m := f.Messages[0]; m.Fields != fields || m.NullFields != null || string(m.OtherField) != other {
			t.Errorf("%s: fields %b, null %b, other %q; want %b, %b, %q", item, m.Fields, m.NullFields, m.OtherField, fields, null, other)
		}
	}
	check(`{'type':'message','id':'m','role':'user','content':'','status':'completed','phase':null}`, 0, 0, "")
	check(`{'role':'user','metadata':{}}`, FieldUnknown, 0, "metadata")
	check(`{'role':'user','name':'n'}`, FieldUnknown, 0, "name")
	check(`{'role':'assistant','tool_calls':null,'namespace':'n'}`, FieldUnknown, 0, "tool_calls")
	check(`{'role':'assistant','tool_calls':null,'parsed':false}`, FieldUnknown, FieldUnknown, "tool_calls")
	check(`{'role':'user','name':'n','content':[{'type':'input_text','text':'q','cache_control':{}}]}`, FieldUnknown, 0, "cache_control")
	check(`{'type':'function_call','call_id':'c','name':'f','arguments':'{}','parsed_arguments':{},'index':0}`, FieldUnknown, 0, "parsed_arguments")
	check(`{'role':'assistant','output':'','type':'function_call_output','call_id':'c'}`, FieldUnknown, 0, "role")
	check(`{'type':'reasoning','summary':[],'text':'x'}`, FieldUnknown, 0, "text")
	check(`{'type':'web_search_call','metadata':{},'odd':1,'content':[{'cache_control':{}}]}`, 0, 0, "")
}

func TestResponsesRequest(t *testing.T) {
	var f Request
	check := func(body string, want Request) {
		t.Helper()
		body = strings.ReplaceAll(body, "'", `"`)
		must.Do(t, ScanRequest(wire.OpenAIResponses, []byte(body), &f), body)
		must.Agree(t, cmp.Diff(want, f, sameFacts), body)
	}
	check(`{'model':'gpt-5','input':'q','stream':true,'instructions':'s','max_output_tokens':9,'parallel_tool_calls':false,'reasoning':{'effort':'minimal'}}`, Request{
		Model: []byte("gpt-5"), MessagesKind: String, Stream: true, System: String, MaxTokens: 9, ParallelCalls: Bool, Thinking: ThinkingOn,
	})
	check(`{'tools':[{'tools':[{'type':'function','name':'a'},1,{}],'type':'namespace','name':'n'}],'tool_choice':'required'}`, Request{
		HasTools: true, ToolCount: 1, OpenTools: true, Spaced: [][]byte{[]byte("a")}, ToolChoice: String, Forces: true,
	})
	check(`{'reasoning':{'effort':'none'}}`, Request{Thinking: ThinkingOff})
	check(`{'reasoning':{'effort':'later','summary':'auto'}}`, Request{})
	check(`{'tools':[{'type':'function','name':'a','parameters':{}},{'name':'b','type':'custom'}],'tool_choice':{'type':'custom','name':'b'}}`, Request{
		HasTools: true, ToolCount: 2, Tools: [][]byte{[]byte("a"), []byte("b")}, ToolChoice: Object, Forced: []byte("b"), HasFunctions: true, Forces: true,
	})
	for _, tool := range []string{`{'type':'web_search'}`, `{'type':'mcp','server_label':'s'}`, `{'type':'namespace','name':'n','tools':[]}`, `{'type':'function'}`} {
		check(`{'tools':[`+tool+`],'tool_choice':'auto'}`, Request{HasTools: true, ToolCount: 1, OpenTools: true, ToolChoice: String})
	}
	check(`{'tools':[],'tool_choice':{'type':'mcp','name':'x'}}`, Request{HasTools: true, ToolChoice: Object})
	check(`{'previous_response_id':'resp_1'}`, Request{PreviousResponse: []byte("resp_1"), Stored: true})
	check(`{'store':false}`, Request{Unstored: true})
	check(`{'store':true}`, Request{})
	check(`{'store':null}`, Request{})
	check(`{'conversation':{'id':'conv_1'}}`, Request{Stored: true})
	check(`{'conversation':'conv_1'}`, Request{Stored: true})
	check(`{'previous_response_id':null,'conversation':null,'prompt':null}`, Request{})
	// Invisible parts: messages of a template, compacted messages, tools of an item.
	check(`{'prompt':{'id':'pmpt_1'}}`, Request{Stored: true, OpenTools: true})
	must.Do(t, ScanMessages(wire.OpenAIResponses, []byte(`[{"type":"compaction","encrypted_content":"x"},{"type":"additional_tools","tools":[]}]`), &f))
	if !f.Stored || !f.OpenTools {
		t.Errorf("stored %v, open tools %v", f.Stored, f.OpenTools)
	}
}

func TestResponsesRequestErrors(t *testing.T) {
	var f Request
	check := func(body string, want error, items int) {
		t.Helper()
		if err := ScanRequest(wire.OpenAIResponses, []byte(body), &f); !errors.Is(err, want) || len(f.Messages) != items {
			t.Errorf("%s: error %v, %d items; want %v, %d", body, err, len(f.Messages), want, items)
		}
	}
	check(``, ErrNotJSON, 0)
	check(`[]`, ErrNotJSON, 0)
	check(`{"input":[{"role":"user"} 1]}`, ErrNotJSON, 1)
	check(`{"input":[{"role":"user"},{"type":"function_call","call_id":"c"`, ErrTruncated, 1)
	must.Is(t, ScanMessages(wire.OpenAIResponses, []byte(`{}`), &f), ErrNotJSON, "object")
}

func TestResponsesBounds(t *testing.T) {
	var f Request
	body := []byte(`{"input":[` + strings.Repeat(`{"type":"function_call"},{"type":"function_call_output"},`, maxKept) + `1]}`)
	if err := ScanRequest(wire.OpenAIResponses, body, &f); err != nil || len(f.Messages) != maxKept || f.Dropped != maxKept+1 {
		t.Errorf("error %v, %d items, %d dropped", err, len(f.Messages), f.Dropped)
	}
}

// Decoded strings remain valid while scratch grows.
func TestResponsesKeepDecodedStrings(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"model":"m\u006fdel","input":[`)
	for i := range 300 {
		fmt.Fprintf(&b, `{"content":[{"type":"output_text","text":"%s"},{"type":"output_text","text":"x"}],"role":"assist\u0061nt","odd\/%d":1},`, strings.Repeat(`\u003c`, i), i)
		fmt.Fprintf(&b, `{"type":"functi\u006fn_call","call_id":"id\/%d","name":"f\/%d"},`, i, i)
	}
	b.WriteString(`{}]}`)
	var f Request
	for range 2 {
		checkResponses(t, &f, []byte(b.String()))
	}
}
