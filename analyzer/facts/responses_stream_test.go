package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// eventStream makes a stream of these events, in which ' replaces ", each with its type as its name.
func eventStream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		name, data, ok := strings.Cut(e, " {")
		if data = ",'sequence_number':1," + data; !ok {
			data = "}"
		}
		b.WriteString("event: " + name + "\ndata: {'type':'" + name + "'" + data + "\n\n")
	}
	return b.String()
}

const (
	createdEvent   = `response.created {'response':{'id':'resp_1','status':'in_progress','error':null,'model':'gpt-5','output':[]}}`
	completedEvent = `response.completed {'response':{'id':'resp_1','status':'completed','error':null,'output':[],'usage':{'input_tokens':7,'output_tokens':3}}}`
)

func TestResponsesStream(t *testing.T) {
	f := func(text string, want Response, events ...string) {
		t.Helper()
		want.ID, want.Model, want.Choices = "resp_1", "gpt-5", 1
		if !want.Cut && want.FinishReason == "" {
			want.FinishReason, want.InputTokens, want.OutputTokens = "completed", 7, 3
			events = append(events, completedEvent)
		}
		checkItems(t, eventStream(append([]string{createdEvent}, events...)...), text, want)
	}
	whole := func(id, name, args string) ResponseCall {
		return ResponseCall{ID: id, Name: name, Arguments: args, ArgsKind: String, Args: ArgsObject}
	}
	const (
		callAdded = `response.output_item.added {'output_index':0,'item':{'id':'fc_1','type':'function_call','call_id':'c1','name':'f','arguments':''}}`
		callDelta = `response.function_call_arguments.delta {'item_id':'fc_1','output_index':0,'delta':'{\'a\':'}`
		callEnd   = `response.function_call_arguments.delta {'item_id':'fc_1','output_index':0,'delta':'1}'}`
		callDone  = `response.output_item.done {'output_index':0,'item':{'id':'fc_1','type':'function_call','call_id':'c1','name':'f','arguments':'{\'a\':1}'}}`
	)
	one := Response{Content: Null, Calls: []ResponseCall{whole("c1", "f", `{"a":1}`)}}
	cut := func(r Response) Response {
		r.Cut = true
		return r
	}
	f("", one, callAdded, callDelta, callEnd, callDone)
	f("", one, callAdded, callDone)
	f("", one, callDone, callEnd)
	f("", one, callAdded, callAdded, callDelta, callEnd)
	f("", cut(one), callAdded, callDelta, callEnd)
	f("", cut(one), callAdded, callDelta, `response.function_call_arguments.done {'item_id':'fc_1','arguments':'{\'a\':1}'}`)
	f("", cut(Response{Content: Null, Calls: []ResponseCall{{ID: "c1", Name: "f", Arguments: `{"a":`, ArgsKind: String, Args: ArgsTruncated}}}), callAdded, callDelta)
	// The event that adds a call has the whole call, and fragments repeat it.
	f("", one, strings.Replace(callAdded, `'arguments':''`, `'arguments':'{\'a\':1}'`, 1), callDelta, callEnd)
	// Interleaved calls: by id if all have index 0; by index if each event has another id.
	two := Response{Content: Null, Calls: []ResponseCall{whole("c1", "f", `{"a":1}`), whole("c2", "g", `{"b":2}`)}}
	second := func(event string) string {
		return strings.NewReplacer("fc_1", "fc_2", "'c1'", "'c2'", "'f'", "'g'", `\'a\':1`, `\'b\':2`, `\'a\':`, `\'b\':`, "'1}'", "'2}'").Replace(event)
	}
	f("", two, callAdded, second(callAdded), callDelta, second(callDelta), callEnd, second(callEnd))
	f("", two, callAdded, callDone, second(callAdded), second(callDone))
	var events []string
	for i, e := range []string{callAdded, callDelta, callEnd, callDone, second(callAdded), second(callDelta), second(callEnd), second(callDone)} {
		if i > 3 {
			e = strings.Replace(e, "'output_index':0", "'output_index':1", 1)
		}
		events = append(events, strings.NewReplacer("fc_1", fmt.Sprint("x", i), "fc_2", fmt.Sprint("x", i)).Replace(e))
	}
	f("", two, events...)
	f("", two, events[0], events[4], events[1], events[5], events[2], events[6])
	// Fragments without id and index belong to the last open call.
	guess := one
	guess.BadIndex = true
	f("", guess, callAdded, `response.function_call_arguments.delta {'delta':'{\'a\':1}'}`)
	f("", Response{Content: Null, Calls: []ResponseCall{{ID: "c", Name: "p", Arguments: "*** End", ArgsKind: String}}},
		`response.output_item.added {'output_index':0,'item':{'id':'ctc_1','type':'custom_tool_call','call_id':'c','name':'p','input':''}}`,
		`response.custom_tool_call_input.delta {'item_id':'ctc_1','delta':'***'}`, `response.custom_tool_call_input.done {'item_id':'ctc_1','input':'*** End'}`)
	// Fragments of other tools make no calls.
	f("", Response{Content: Null}, `response.output_item.added {'output_index':0,'item':{'id':'mcp_1','type':'mcp_call','name':'f','arguments':''}}`,
		`response.mcp_call_arguments.delta {'item_id':'mcp_1','delta':'{}'}`, `response.steer.accepted`)

	const messageAdded = `response.output_item.added {'output_index':0,'item':{'id':'msg_1','type':'message','content':[]}}`
	text := Response{Content: String}
	f("ab", text, messageAdded, `response.output_text.delta {'item_id':'msg_1','content_index':0,'delta':'a'}`, `response.output_text.delta {'item_id':'msg_1','content_index':0,'delta':'b'}`)
	f("ab", cut(text), `response.output_text.delta {'item_id':'msg_1','delta':'a'}`, `response.output_text.delta {'item_id':'msg_1','delta':'b'}`)
	f("abcd", cut(text), messageAdded, `response.output_text.delta {'item_id':'msg_1','content_index':1,'delta':'a'}`, `response.output_text.done {'item_id':'msg_1','content_index':1,'text':'ab'}`,
		`response.output_text.delta {'item_id':'msg_1','content_index':2,'delta':'c'}`, `response.output_text.done {'item_id':'msg_1','content_index':2,'text':'cd'}`)
	f("done", text, messageAdded, `response.output_text.delta {'item_id':'msg_1','delta':'x'}`,
		`response.output_item.done {'output_index':0,'item':{'id':'msg_1','type':'message','content':[{'type':'output_text','text':'done'}]}}`)
	f("", Response{Content: Null}, messageAdded, `response.refusal.delta {'item_id':'msg_1','delta':'no'}`)
	// Encrypted content counts only in a completed item.
	reasoning := `response.output_item.added {'output_index':0,'item':{'id':'rs_1','type':'reasoning','summary':[],'encrypted_content':'par'}}`
	f("", cut(Response{Content: Null, Reasoning: String, Signed: []Signed{{ID: "rs_1"}}}), reasoning)
	f("", Response{Content: Null, Reasoning: String, Signed: []Signed{{ID: "rs_1", Hash: xxh3.HashString("whole")}}},
		reasoning, strings.Replace(strings.Replace(reasoning, "added", "done", 1), "'par'", "'whole'", 1))
	// The last event may have another copy, encrypted anew.
	done := strings.Replace(reasoning, "added", "done", 1)
	last := `response.completed {'response':{'status':'completed','output':[{'id':'rs_1','type':'reasoning','encrypted_content':'par'}]}}`
	f("", Response{Content: Null, Reasoning: String, FinishReason: "completed", Signed: []Signed{{ID: "rs_1", Hash: xxh3.HashString("par")}}}, reasoning, done, last)
	f("", Response{Content: Null, Reasoning: String, FinishReason: "completed", Signed: []Signed{{ID: "rs_1"}}}, reasoning, strings.Replace(done, "par", "x", 1), last)
	// The output of the last event overrides all others.
	f("final", Response{Content: String, FinishReason: "max_output_tokens"}, messageAdded, callAdded,
		`response.incomplete {'response':{'status':'incomplete','incomplete_details':{'reason':'max_output_tokens'},'output':[{'type':'message','content':[{'type':'output_text','text':'final'}]}]}}`)
	f("", Response{FinishReason: "completed"}, `response.completed`)
}

func TestResponsesStreamErrors(t *testing.T) {
	f := func(want Response, body string) {
		t.Helper()
		want.ID, want.Model, want.Choices = "resp_1", "gpt-5", 1
		want.Error = bytes.ReplaceAll(want.Error, []byte("'"), []byte(`"`))
		checkItems(t, eventStream(createdEvent)+body, "", want)
	}
	f(Response{Error: []byte(`{'type':'error','sequence_number':1,'code':'server_error','message':'no'}`)}, eventStream(`error {'code':'server_error','message':'no'}`))
	f(Response{Error: []byte(`{'code':'too_many_requests'}`)}, eventStream(`error {'sequence_number':2,'error':{'code':'too_many_requests'}}`))
	f(Response{Error: []byte(`{'code':429}`)}, "data: {'error':{'code':429}}\n\n")
	f(Response{Error: []byte(`{'message':'no'}`)}, "event: error\ndata: {'message':'no'}\n\n")
	f(Response{Error: []byte(`overloaded`)}, "event: error\ndata: overloaded\n\n")
	f(Response{Error: []byte(`{'type':'error','mess`), Cut: true}, "data: {'type':'error','mess")
	f(Response{Error: []byte(`{'code':'server_error'}`), FinishReason: "failed"}, eventStream(`response.failed {'response':{'status':'failed','error':{'code':'server_error'},'output':[]}}`))
	f(Response{Error: []byte(`{'status':'failed','error':null}`), FinishReason: "failed"}, eventStream(`response.failed {'response':{'status':'failed','error':null}}`))
	// Cut streams, even with [DONE].
	f(Response{Cut: true}, "")
	f(Response{Cut: true}, "data: [DONE]\n\n")
	f(Response{Cut: true}, "data: {'type':'response.completed','response':{'status':'comp")
	// Two events without an empty line between them; a broken event.
	f(Response{FinishReason: "completed"}, "data: {'type':'response.in_progress'}\ndata: {'type':'response.completed'}\n\n")
	f(Response{FinishReason: "completed", Malformed: true}, "data: nonsense\n\ndata: {'type':'response.completed'}\n\n")
	// Not a stream of this API.
	checkItems(t, "data: {'choices':[{'delta':{'content':'x'}}]}\n\ndata: [DONE]\n\n", "", Response{Cut: true, Malformed: true})
}

// A long stream takes linear time and has a bounded number of calls.
func TestResponsesStreamBounds(t *testing.T) {
	var b strings.Builder
	for i := range 3 * maxAnswerCalls {
		b.WriteString(eventStream(fmt.Sprintf(`response.output_item.added {'output_index':%d,'item':{'id':'fc_%d','type':'function_call','call_id':'c'}}`, i, i),
			fmt.Sprintf(`response.function_call_arguments.delta {'item_id':'fc_%d','delta':'{}'}`, i)))
	}
	r := answerIn(t, wire.OpenAIResponses, "", strings.ReplaceAll(b.String(), "'", `"`))
	if len(r.Calls) != maxAnswerCalls || !r.Cut || !r.Malformed || r.Calls[maxAnswerCalls-1].Arguments != "{}" {
		t.Errorf("%d calls, cut %v, malformed %v", len(r.Calls), r.Cut, r.Malformed)
	}
}

// responsesAnswerSeeds are answers for the fuzz target.
var responsesAnswerSeeds = []string{
	`{'id':'r','model':'m','status':'completed','output':[{'type':'message','content':[{'type':'output_text','text':'a\n'}]},{'type':'function_call','call_id':'c','name':'f','arguments':'{\'a\':1}'}],'usage':{'input_tokens':1,'input_tokens_details':{'cached_tokens':1}}}`,
	`{'status':'incomplete','incomplete_details':{'reason':'content_filter'},'output':[{'type':'custom_tool_call','input':'x'},{'type':'reasoning','encrypted_content':'e'},7]}`,
	`{'error':{'message':'no'}}`, `{'type':'error'}`, `nonsense`,
	eventStream(createdEvent, `response.output_item.added {'output_index':0,'item':{'id':'fc_1','type':'function_call','call_id':'c1','name':'f','arguments':''}}`,
		`response.function_call_arguments.delta {'item_id':'fc_1','output_index':0,'delta':'{}'}`, `response.function_call_arguments.done {'item_id':'x','output_index':0,'arguments':{}}`, completedEvent),
	eventStream(`response.output_text.delta {'item_id':'m','content_index':1,'delta':'a'}`, `response.output_text.done {'content_index':2,'text':'b'}`, `response.output_item.done {'item':{'id':'m','type':'message'}}`,
		`response.failed {'response':{'error':{}}}`) + "data: [DONE]\n\n",
	"event: error\ndata: {'error':null}\ndata: {'type':'response.completed','response':{'output':[{'type':'message'}]}}\n\n",
}

func FuzzScanResponsesAnswer(f *testing.F) {
	for _, seed := range responsesAnswerSeeds {
		f.Add([]byte(strings.ReplaceAll(seed, "'", `"`)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := answerIn(t, wire.OpenAIResponses, "", string(body))
		if len(r.Calls) > maxAnswerCalls || len(r.Error) > len(body) || r.ContentBytes < 0 || (r.Content == String) != (r.ContentHash != 0) {
			t.Fatalf("%+v", r)
		}
		// A unary answer has the facts of a stream with one event.
		if !json.Valid(body) || parse(body).kind != Object || bytes.ContainsRune(body, '\r') || r.Malformed || len(r.Error) > 0 {
			return
		}
		data := append(append([]byte(`data: {"type":"response.completed","response":`), bytes.ReplaceAll(body, []byte("\n"), nil)...), "}\n\n"...)
		s := answerIn(t, wire.OpenAIResponses, "", string(data))
		if s.ContentHash != r.ContentHash || len(s.Calls) != len(r.Calls) || len(s.Signed) != len(r.Signed) || s.Cut {
			t.Fatalf("unary %+v, streamed %+v", r, s)
		}
	})
}
