package facts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

func TestScanInteractionsRequest(t *testing.T) {
	var f Request
	scan := func(body string) {
		t.Helper()
		must.Do(t, ScanRequest(wire.Interactions, []byte(body), &f), body)
	}
	scan(`{"model":"gemini-3.8-flash","stream":true,"store":false,"system_instruction":"s","previous_interaction_id":"v1_a",
		"tools":[{"type":"function","name":"f"},{"type":"google_search"}],
		"generation_config":{"max_output_tokens":7,"thinking_level":"low","tool_choice":{"allowed_tools":{"mode":"any","tools":["f"]}}},
		"input":[{"content":[{"type":"text","text":"q"}],"type":"user_input"},{"type":"thought","signature":"E-o=","summary":[]},
		{"arguments":{"a":1},"id":"c1","name":"f","type":"function_call"},{"type":"google_search_call","id":"s"},
		{"call_id":"c1","result":[{"type":"text","text":"r"}],"is_error":true,"name":"f","type":"function_result"},
		{"type":"model_output","content":[{"type":"text","text":"a"},{"type":"text","text":"\u0062"}]},{"type":"image","data":"AA"},{"type":"text","text":"t"}]}`)
	if string(f.Model) != "gemini-3.8-flash" || !f.Stream || !f.Unstored || f.System != String || string(f.PreviousResponse) != "v1_a" || !f.Stored ||
		f.ToolCount != 2 || len(f.Tools) != 1 || !f.OpenTools || !f.HasFunctions || f.MaxTokens != 7 || f.Thinking != ThinkingOn || string(f.Forced) != "f" || !f.Forces {
		t.Errorf("%+v", f)
	}
	var roles []Role
	var items []Item
	for i := range f.Messages {
		roles, items = append(roles, f.Messages[i].Role), append(items, f.Messages[i].Item)
	}
	must.Agree(t, cmp.Diff([]Item{ItemMessage, ItemReasoning, ItemCall, ItemOther, ItemReply, ItemMessage, ItemMessage, ItemMessage}, items))
	must.Agree(t, cmp.Diff([]Role{RoleUser, RoleNone, RoleAssistant, RoleNone, RoleTool, RoleAssistant, RoleUser, RoleUser}, roles))
	c, r := &f.Messages[2].Calls[0], &f.Messages[4].Replies[0]
	if string(c.ID) != "c1" || string(c.Name) != "f" || c.Args != ArgsObject || string(r.ID) != "c1" || string(r.Name) != "f" || !r.IsError || r.Content != Array {
		t.Errorf("%+v %+v", c, r)
	}
	if f.Messages[5].ContentHash != xxh3.HashString("ab") || f.Messages[1].Signed != xxh3.HashString("E+o") || f.Messages[3].Unpaired {
		t.Errorf("%+v", f.Messages)
	}
	scan(`{"input":"q"}`)
	must.Equal(t, f.MessagesKind, String, "input")
	scan(`{"agent":"deep-research","input":{"type":"text","text":"q"}}`)
	if string(f.Model) != "deep-research" || f.MessagesKind != String || len(f.Messages) != 0 {
		t.Errorf("%+v", f)
	}
}

func TestScanInteractionsResponse(t *testing.T) {
	f := func(body string, want Response) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, answerIn(t, wire.Interactions, "", body), cmpopts.EquateEmpty()), body)
	}
	usage := `,"usage":{"total_tokens":33,"total_input_tokens":20,"total_cached_tokens":16,"total_output_tokens":7,"total_thought_tokens":3,"total_tool_use_tokens":3}`
	want := Response{
		ID: "v1_b", Model: "g", Content: String, ContentBytes: 2, ContentHash: xxh3.HashString("ab"), Reasoning: String,
		Calls:  []ResponseCall{{ID: "c1", Name: "f", Arguments: `{"a": 1}`, ArgsKind: Object, Args: ArgsObject}},
		Signed: []Signed{{Hash: xxh3.HashString("E+o")}}, FinishReason: "requires_action",
		InputTokens: 23, OutputTokens: 10, CachedTokens: 16, CacheReported: true, Choices: 1, ServerUse: true,
	}
	f(`{"id":"v1_b","model":"g","status":"requires_action","steps":[{"type":"user_input","content":[{"type":"text","text":"q"}]},
		{"type":"thought","signature":"E+o"},{"type":"google_search_call","id":"s"},
		{"type":"function_call","id":"c1","name":"f","arguments":{"a": 1}},{"type":"model_output","content":[{"type":"text","text":"ab"}]}]`+usage+`}`, want)

	event := func(name, data string) string {
		return "event: " + name + "\ndata: {" + data + `,"event_type":"` + name + "\"}\n\n"
	}
	open := event("interaction.created", `"interaction":{"id":"v1_b","status":"in_progress","model":"g"}`) +
		event("step.start", `"index":0,"step":{"signature":"","summary":[{"text":"so","type":"text"}],"type":"thought"}`) +
		event("step.delta", `"index":0,"delta":{"signature":"E+o","type":"thought_signature"}`) + event("step.stop", `"index":0`) +
		event("step.start", `"index":1,"step":{"type":"google_search_call","id":"s"}`) +
		event("step.start", `"index":2,"step":{"type":"function_call","id":"c1","name":"f","arguments":{}}`) +
		event("step.delta", `"index":2,"delta":{"arguments":"{\"a\"","type":"arguments_delta"}`) +
		event("step.delta", `"index":2,"delta":{"arguments":": 1}","type":"arguments_delta"}`) +
		event("step.start", `"index":3,"step":{"content":[{"text":"a","type":"text"}],"type":"model_output"}`) +
		event("step.delta", `"index":3,"delta":{"text":"\u0062","type":"text"}`)
	f(open+event("interaction.completed", `"interaction":{"id":"v1_b","status":"requires_action"`+usage+`}`)+"event: done\ndata: [DONE]\n\n", want)

	cut := answerIn(t, wire.Interactions, "", open)
	if !cut.Cut || cut.Malformed || cut.FinishReason != "" || len(cut.Calls) != 1 {
		t.Errorf("%+v", cut)
	}
	failed := answerIn(t, wire.Interactions, "", open+event("error", `"error":{"message":"m","code":"c"}`))
	if string(failed.Error) != `{"message":"m","code":"c"}` || failed.Malformed || failed.Cut {
		t.Errorf("%+v", failed)
	}
	f(`{"id":"v","status":"in_progress"}`, Response{ID: "v", FinishReason: "in_progress", Choices: 1})
	f(`{"error":{"message":"m","code":"invalid_request"}}`, Response{Error: []byte(`{"message":"m","code":"invalid_request"}`)})
	f(`{"status":"failed","errors":[{"message":"m"}]}`, Response{Error: []byte(`{"message":"m"}`), FinishReason: "failed", Choices: 1})
	f(`{"output":[]}`, Response{Error: []byte(`{"output":[]}`), Malformed: true})
	f(`<html>`, Response{Error: []byte(`<html>`), Malformed: true})
	if r := answerIn(t, wire.Interactions, "", `{"status":"completed","steps":[{"type":"model_out`); !r.Cut || !r.Malformed {
		t.Errorf("%+v", r)
	}
}

// stepSeeds are requests whose steps TestMemo recombines.
var stepSeeds = []string{
	`{"model":"g","store":false,"tools":[{"type":"function","name":"f"},{"type":"url_context"}],"input":[
		{"type":"user_input","content":[{"type":"text","text":"q"},{"type":"image","data":"A"}]},{"type":"thought","signature":"E-o","summary":[]},
		{"arguments":{"a":1},"id":"c\u0031","name":"f","type":"function_call","call_id":"c"},{"type":"function_result","call_id":"c1","id":"x","name":"f","result":"r"},
		{"type":"function_result","call_id":"c2","is_error":true,"result":[{"type":"text","text":"\n"}]},{"type":"model_output","content":[{"type":"text","text":"a"}]},
		{"type":"later_thing"},{"type":"text","text":"t"},{"type":"audio","data":"A"},{"role":"model","content":"a"},7]}`,
}

func TestScanInteractionsAllocates(t *testing.T) {
	var f Request
	if n := testing.AllocsPerRun(20, func() { must.Do(t, ScanRequest(wire.Interactions, []byte(stepSeeds[0]), &f)) }); n > 1 { // the copy of the body
		t.Errorf("%v allocations", n)
	}
}
