package facts

import (
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// checkItems compares the facts of an answer, in which ' replaces ", with want, and its content with text if want has a
// string.
func checkItems(t *testing.T, body, text string, want Response) {
	t.Helper()
	checkAnswerIn(t, wire.OpenAIResponses, "", strings.ReplaceAll(body, "'", `"`), text, want)
}

func TestResponsesUnary(t *testing.T) {
	f := func(body, text string, want Response) {
		t.Helper()
		want.Choices = 1
		checkItems(t, body, text, want)
	}
	f(`{'id':'resp_1','object':'response','status':'completed','error':null,'incomplete_details':null,'model':'gpt-5','output':[
		{'id':'rs_1','type':'reasoning','summary':[],'encrypted_content':'gA\/A'},
		{'id':'msg_1','type':'message','status':'completed','role':'assistant','content':[{'type':'output_text','annotations':[],'text':'\u003cb\u003e '},{'text':'😀','type':'output_text'}]}],
		'usage':{'input_tokens':10,'input_tokens_details':{'cached_tokens':4},'output_tokens':2,'output_tokens_details':{'reasoning_tokens':1},'total_tokens':12}}`, "<b> 😀", Response{
		ID: "resp_1", Model: "gpt-5", Content: String, Reasoning: String, FinishReason: "completed", InputTokens: 10, OutputTokens: 2, CachedTokens: 4, CacheReported: true,
		Signed: []Signed{{ID: "rs_1", Hash: xxh3.HashString("gA/A")}},
	})
	// Calls with keys in any order; the provider's own tools make none.
	f(`{'output':[{'type':'web_search_call','id':'ws_1'},{'type':'reasoning','id':'rs_1','content':[{'type':'reasoning_text','text':'x'}],'summary':[]},
		{'arguments':'{\'a\':1}','call_id':'c1','name':'f','type':'function_call','item_id':'fc_1'},{'type':'custom_tool_call','call_id':'c2','name':'p','input':'*** Begin'},
		{'type':'function_call','call_id':'c3','name':'g','arguments':{}},{'type':'function_call','call_id':'c4'},
		{'type':'function_call','call_id':null,'name':'h','arguments':'{}'},7],'status':'completed'}`, "", Response{
		Content: Null, Reasoning: Array, FinishReason: "completed", Signed: []Signed{{ID: "rs_1"}}, Calls: []ResponseCall{
			{ID: "c1", Name: "f", Arguments: `{"a":1}`, ArgsKind: String, Args: ArgsObject},
			{ID: "c2", Name: "p", Arguments: "*** Begin", ArgsKind: String},
			{ID: "c3", Name: "g", Arguments: "{}", ArgsKind: Object, Args: ArgsObject},
			{ID: "c4"},
		},
	})
	f(`{'output':[{'type':'function_call','call_id':'c','arguments':null},{'type':'function_call','call_id':'d','arguments':'{\'a\':'}]}`, "", Response{
		Content: Null, Calls: []ResponseCall{{ID: "c", ArgsKind: Null}, {ID: "d", Arguments: `{"a":`, ArgsKind: String, Args: ArgsTruncated}},
	})
	// The last of several messages with text: each is sent back as an item of its own.
	f(`{'output':[{'type':'message','content':[{'type':'output_text','text':'a'}]},{'type':'message','content':[{'type':'output_text','text':'b'}]},
		{'type':'message','content':[{'type':'output_text','text':''}]},{'type':'message','content':[{'type':'refusal','refusal':'no'}]}]}`, "b", Response{Content: String, Refused: true})
	f(`{'output':[{'type':'message','content':[{'type':'refusal','refusal':'no'}]}]}`, "", Response{Content: Null, Refused: true})
	f(`{'output':[{'type':'message','content':[{'type':'refusal','refusal':''}]}]}`, "", Response{Content: Null})
	f(`{'output':[]}`, "", Response{})
	f(`{'status':'incomplete','incomplete_details':{'reason':'max_output_tokens'},'output':[{'type':'message','content':'odd'}]}`, "",
		Response{Content: Null, FinishReason: "max_output_tokens"})
	f(`{'status':'queued','output':[],'background':true}`, "", Response{FinishReason: "queued"})
	// Calls of tools that are neither functions nor custom tools.
	f(`{'output':[{'type':'shell_call','id':'sh_1','call_id':'c1','environment':null,'action':{'commands':['ls']}},{'type':'apply_patch_call','call_id':'c2','operation':{}},
		{'type':'tool_search_call','call_id':'c3','execution':'client','arguments':{'q':'x'}},{'type':'computer_call','call_id':'c4','action':null,'actions':[1]},{'type':'local_shell_call','call_id':'c5'}]}`, "", Response{
		Content: Null, Calls: []ResponseCall{
			{ID: "c1", Name: "shell", Arguments: `{"commands":["ls"]}`, ArgsKind: Object},
			{ID: "c2", Name: "apply_patch", Arguments: `{}`, ArgsKind: Object},
			{ID: "c3", Name: "tool_search", Arguments: `{"q":"x"}`, ArgsKind: Object},
			{ID: "c4", Name: "computer", Arguments: `[1]`, ArgsKind: Array},
			{ID: "c5", Name: "local_shell"},
		},
	})
	// The provider runs them.
	f(`{'output':[{'type':'shell_call','call_id':'c1','environment':{'type':'container_reference','container_id':'k'},'action':{}},{'type':'shell_call_output','call_id':'c1','output':[]},
		{'type':'tool_search_call','call_id':null,'execution':'server'},{'type':'tool_search_call','call_id':'c2','execution':'server'},{'type':'program','call_id':'c3'},{'type':'program_output','call_id':'c3'}]}`, "", Response{Content: Null})
	// A call of an unknown type, which the agent may have to answer.
	f(`{'output':[{'type':'later_call','call_id':'c1'}]}`, "", Response{Content: Null, OtherCalls: true})
	// An error inside a 200.
	f(`{'status':'failed','output':[],'error':{'code':'server_error'}}`, "", Response{FinishReason: "failed", Error: []byte(`{"code":"server_error"}`)})
	f(`{'output':[],'status':'failed','error':null}`, "", Response{FinishReason: "failed", Error: []byte(`{"output":[],"status":"failed","error":null}`)})
}

func TestResponsesError(t *testing.T) {
	f := func(body, want string, malformed bool) {
		t.Helper()
		checkItems(t, body, "", Response{Error: []byte(strings.ReplaceAll(want, "'", `"`)), Malformed: malformed})
	}
	f(`{'error':{'message':'no','code':null}}`, `{'message':'no','code':null}`, false)
	f(`{'code':'invalid-argument','error':'no'}`, `'no'`, false) // xAI
	f(`{'type':'error','code':'x','message':'no'}`, `{'type':'error','code':'x','message':'no'}`, false)
	f(`{'object':'error','message':'no'}`, `{'object':'error','message':'no'}`, false)
	f(`{'detail':'no'}`, `{'detail':'no'}`, true)
	f(`{'error':null}`, `{'error':null}`, true)
	f(`{'output':{}}`, `{'output':{}}`, true)
	f("Failed to deserialize the JSON body\n", "Failed to deserialize the JSON body", true)
	f("<html>401</html>", "<html>401</html>", true)
	f("", "", true)
	f("[]", "[]", true)
}

func TestResponsesCut(t *testing.T) {
	f := func(contentType, body string, want Response) {
		t.Helper()
		checkAnswerIn(t, wire.OpenAIResponses, contentType, body, "", want)
	}
	f("", `{"error":{"message":"long te`, Response{Error: []byte(`{"message":"long te`), Cut: true, Malformed: true})
	f("", `{`, Response{Error: []byte(`{`), Cut: true, Malformed: true})
	f("", `{"id":"r","output":[{"type":"function_call","call_id":"c"},{"type":"function_call","call_id":"d"`, Response{
		ID: "r", Content: Null, Choices: 1, Calls: []ResponseCall{{ID: "c"}}, Cut: true, Malformed: true,
	})
	f("text/event-stream; charset=utf-8", "", Response{Cut: true})
	f("text/event-stream", `{"error":"no"}`, Response{Error: []byte(`"no"`)})
}

// A text of an answer, unary or streamed, and its copy in the next request have one hash, however escaped; so have the
// encrypted content of a reasoning item and its copy.
func TestResponsesHashesAgree(t *testing.T) {
	for _, text := range []string{"", "plain", "<b>\"q\" & \\ /", "你好 😀\n\t\u2028", strings.Repeat("long \"line\"\n", 500)} {
		plain, escaped := `"`+string(appendQuoted(nil, []byte(text)))+`"`, `"`+escapeAll(text)+`"`
		var q Request
		body := `[{"role":"assistant","content":` + escaped + `},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":` + plain + `},{"type":"output_text","text":` + escaped + `}]},
			{"type":"reasoning","encrypted_content":` + plain + `}]`
		must.Do(t, ScanMessages(wire.OpenAIResponses, []byte(body), &q))
		var whole, pieces Response
		body = `{"output":[{"type":"reasoning","encrypted_content":` + escaped + `},{"type":"message","content":[{"type":"output_text","text":` + plain + `}]}]}`
		must.Do(t, ScanResponse(wire.OpenAIResponses, "", []byte(body), &whole))
		piece := `data: {"type":"response.output_text.delta","item_id":"m","delta":`
		must.Do(t, ScanResponse(wire.OpenAIResponses, "", []byte(piece+plain+"}\n\n"+piece+escaped+"}\n\n"), &pieces))
		if q.Messages[0].ContentHash != whole.ContentHash || q.Messages[1].ContentHash != pieces.ContentHash || q.Messages[2].Signed != whole.Signed[0].Hash {
			t.Errorf("%q: hashes differ: request %+v, answers %+v, %+v", text, q.Messages, whole, pieces)
		}
	}
}
