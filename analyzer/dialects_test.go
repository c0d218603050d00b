package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// In each dialect an agent sends a request, gets a tool call, and sends the reply without the call (incident 0). The rows
// must name the target, the answer, the defect and its root cause.
func TestDialects(t *testing.T) {
	f := func(name, url, asked, answered, contentType, broken string, want ...string) {
		t.Helper()
		s := newStream("c1")
		send := func(body string, status int, answer, contentType string) {
			id := s.exchange()
			s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: []byte(body)})
			s.response(id, status, []byte(answer)).ContentType = contentType
		}
		send(asked, 200, answered, contentType)
		send(broken, 400, `{"message":"Request contains an invalid argument."}`, "application/json")
		out := run(t, analyzer.Default(), s.steps)
		exchanges, _, calls := latest(out)
		var got []string
		for i := range s.calls {
			e := exchanges[fmt.Sprintf("018f0000-0000-7000-8000-%012d", i+1)]
			got = append(got, fmt.Sprintf("%s/%s %s %s: %d messages, %s, %d+%d tokens, %d calls, %s %s", e.Dialect, e.Variant, e.Provider, e.Model,
				e.Messages, e.FinishReason, e.InputTokens, e.OutputTokens, e.ToolCalls, e.Cause, e.RootCause))
		}
		var states []string
		for _, c := range calls {
			states = append(states, fmt.Sprintf("call %s %s %s", c.CallID, c.Name, c.State))
		}
		slices.Sort(states)
		got = append(got, states...)
		for _, l := range brief(out) {
			if !strings.HasPrefix(l, "failed") && !strings.HasPrefix(l, "ok") && strings.Contains(l, " reject ") {
				got = append(got, l)
			}
		}
		must.Agree(t, cmp.Diff(want, got), name)
	}

	f("anthropic", "https://api.anthropic.com/v1/messages",
		`{"model":"claude-sonnet-4-5","max_tokens":99,"tools":[{"name":"read","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"read it"}]}`,
		`{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"I read the file."},`+
			`{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}],"stop_reason":"tool_use","usage":{"input_tokens":10,"output_tokens":5}}`, "application/json",
		`{"model":"claude-sonnet-4-5","max_tokens":99,"tools":[{"name":"read","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"read it"},`+
			`{"role":"assistant","content":"I read the file."},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}]}`,
		"anthropic/anthropic anthropic claude-sonnet-4-5: 1 messages, tool_use, 10+5 tokens, 1 calls,  ",
		"anthropic/anthropic anthropic claude-sonnet-4-5: 3 messages, , 0+0 tokens, 0 calls, orphan_tool_reply tool_calls_dropped_on_save",
		"call toolu_1 read rejected",
		"orphan_tool_reply reject 2 toolu_1 read tool_calls_dropped_on_save high")

	f("anthropic, streamed", "https://api.anthropic.com/v1/messages",
		`{"model":"claude-sonnet-4-5","stream":true,"messages":[{"role":"user","content":"read it"}]}`,
		`event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-sonnet-4-5","content":[],"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

`, "text/event-stream",
		`{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"read it"},{"role":"assistant","content":[]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}]}`,
		"anthropic/anthropic anthropic claude-sonnet-4-5: 1 messages, tool_use, 10+5 tokens, 1 calls,  ",
		"anthropic/anthropic anthropic claude-sonnet-4-5: 3 messages, , 0+0 tokens, 0 calls, orphan_tool_reply tool_calls_dropped_on_save",
		"call toolu_1 read rejected",
		"orphan_tool_reply reject 2 toolu_1 read tool_calls_dropped_on_save high",
		"empty_content reject 1 - - - -")

	// The provider stores the history: the request after an answer contains only the reply, which is no defect.
	f("responses", "https://api.openai.com/v1/responses",
		`{"model":"gpt-5","input":"read it","tools":[{"type":"function","name":"read"}]}`,
		`{"id":"resp_1","object":"response","status":"completed","model":"gpt-5","output":[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{}"},`+
			`{"type":"function_call","id":"fc_2","call_id":"call_2","name":"read","arguments":"{}"}],"usage":{"input_tokens":10,"output_tokens":5}}`, "application/json",
		`{"model":"gpt-5","previous_response_id":"resp_1","input":[{"type":"function_call_output","call_id":"call_1","output":"ok"}]}`,
		"openai_responses/openai openai gpt-5: 0 messages, completed, 10+5 tokens, 2 calls,  ",
		"openai_responses/openai openai gpt-5: 1 messages, , 0+0 tokens, 0 calls, previous_response_unresolved parallel_calls_truncated",
		"call call_1 read rejected", "call call_2 read missing",
		"previous_response_unresolved reject -1 call_2 read parallel_calls_truncated medium")

	f("gemini", "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent",
		`{"contents":[{"role":"user","parts":[{"text":"read it"}]}]}`,
		`{"responseId":"r1","modelVersion":"gemini-2.5-flash","candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a"}}}]},"finishReason":"STOP"}],`+
			`"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}`, "application/json",
		`{"contents":[{"role":"user","parts":[{"text":"read it"}]},{"role":"model","parts":[{"text":"I read."}]},{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"result":"ok"}}}]}]}`,
		"gemini/gemini gcp.gemini gemini-2.5-flash: 1 messages, STOP, 10+5 tokens, 1 calls,  ",
		"gemini/gemini gcp.gemini gemini-2.5-flash: 3 messages, , 0+0 tokens, 0 calls, orphan_tool_reply tool_calls_dropped_on_save",
		"call  read rejected",
		"orphan_tool_reply reject 2 read read tool_calls_dropped_on_save medium")

	f("interactions, streamed", "https://generativelanguage.googleapis.com/v1beta/interactions",
		`{"model":"gemini-2.5-flash","stream":true,"input":"read it","tools":[{"type":"function","name":"read"}]}`,
		`event: interaction.created
data: {"interaction":{"id":"v1_a","status":"in_progress","model":"gemini-2.5-flash"},"event_type":"interaction.created"}

event: step.start
data: {"index":0,"step":{"type":"function_call","id":"c1","name":"read","arguments":{}},"event_type":"step.start"}

event: step.delta
data: {"index":0,"delta":{"type":"arguments_delta","arguments":"{\"path\":\"a\"}"},"event_type":"step.delta"}

event: interaction.completed
data: {"interaction":{"id":"v1_a","status":"requires_action","usage":{"total_input_tokens":10,"total_output_tokens":5}},"event_type":"interaction.completed"}

`, "text/event-stream",
		`{"model":"gemini-2.5-flash","previous_interaction_id":"v1_a","input":[{"type":"function_result","call_id":"c1","name":"read","result":"ok"}]}`,
		"gemini_interactions/gemini gcp.gemini gemini-2.5-flash: 0 messages, requires_action, 10+5 tokens, 1 calls,  ",
		"gemini_interactions/gemini gcp.gemini gemini-2.5-flash: 1 messages, , 0+0 tokens, 0 calls, unexplained ", // the reply is no orphan
		"call c1 read rejected")

	f("interactions without state", "https://generativelanguage.googleapis.com/v1beta/interactions",
		`{"model":"gemini-2.5-flash","store":false,"input":[{"type":"user_input","content":[{"type":"text","text":"read it"}]}],"tools":[{"type":"function","name":"read"}]}`,
		`{"id":"v1_a","model":"gemini-2.5-flash","status":"requires_action","steps":[{"type":"function_call","id":"c1","name":"read","arguments":{"path":"a"}}],`+
			`"usage":{"total_input_tokens":10,"total_output_tokens":5}}`, "application/json",
		`{"model":"gemini-2.5-flash","store":false,"input":[{"type":"user_input","content":[{"type":"text","text":"read it"}]},{"type":"function_result","call_id":"c1","name":"read","result":"ok"}]}`,
		"gemini_interactions/gemini gcp.gemini gemini-2.5-flash: 1 messages, requires_action, 10+5 tokens, 1 calls,  ",
		"gemini_interactions/gemini gcp.gemini gemini-2.5-flash: 2 messages, , 0+0 tokens, 0 calls, orphan_tool_reply tool_calls_dropped_on_save",
		"call c1 read rejected",
		"orphan_tool_reply reject 1 c1 read tool_calls_dropped_on_save high")

	f("interactions, a thought was lost", "https://generativelanguage.googleapis.com/v1beta/interactions",
		`{"model":"gemini-3.6-flash","store":false,"input":[{"type":"user_input","content":[{"type":"text","text":"read it"}]}]}`,
		`{"id":"v1_a","model":"gemini-3.6-flash","status":"requires_action","steps":[{"type":"thought","signature":"AA=="},{"type":"function_call","id":"c1","name":"read","arguments":{}}]}`,
		"application/json",
		`{"model":"gemini-3.6-flash","store":false,"input":[{"type":"user_input","content":[{"type":"text","text":"read it"}]},{"type":"function_call","id":"c1","name":"read","arguments":{}},`+
			`{"type":"function_result","call_id":"c1","name":"read","result":"ok"}]}`,
		"gemini_interactions/gemini gcp.gemini gemini-3.6-flash: 1 messages, requires_action, 0+0 tokens, 1 calls,  ",
		"gemini_interactions/gemini gcp.gemini gemini-3.6-flash: 3 messages, , 0+0 tokens, 0 calls, thought_signature_missing reasoning_stripped",
		"call c1 read rejected",
		"thought_signature_missing reject 1 c1 read reasoning_stripped high")

	f("interactions, a search was lost", "https://generativelanguage.googleapis.com/v1beta/interactions",
		`{"model":"gemini-2.5-flash","store":false,"input":[{"type":"user_input","content":[{"type":"text","text":"read it"}]}]}`,
		`{"id":"v1_a","model":"gemini-2.5-flash","status":"completed","steps":[{"type":"google_search_call","id":"s"},{"type":"google_search_result","call_id":"s"},`+
			`{"type":"model_output","content":[{"type":"text","text":"a"}]}]}`, "application/json",
		`{"model":"gemini-2.5-flash","store":false,"input":[{"type":"user_input","content":[{"type":"text","text":"read it"}]},{"type":"google_search_result","call_id":"s"},`+
			`{"type":"model_output","content":[{"type":"text","text":"a"}]},{"type":"user_input","content":[{"type":"text","text":"and?"}]}]}`,
		"gemini_interactions/gemini gcp.gemini gemini-2.5-flash: 1 messages, completed, 0+0 tokens, 0 calls,  ",
		"gemini_interactions/gemini gcp.gemini gemini-2.5-flash: 4 messages, , 0+0 tokens, 0 calls, orphan_tool_reply tool_calls_dropped_on_save",
		"orphan_tool_reply reject 1 - - tool_calls_dropped_on_save high")

	f("bedrock", "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse",
		`{"messages":[{"role":"user","content":[{"text":"read it"}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"read"}}]}}`,
		`{"output":{"message":{"role":"assistant","content":[{"text":"I read the file."},{"toolUse":{"toolUseId":"tooluse_1","name":"read","input":{"path":"a"}}}]}},"stopReason":"tool_use",`+
			`"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15}}`, "application/json",
		`{"messages":[{"role":"user","content":[{"text":"read it"}]},{"role":"assistant","content":[{"text":"I read the file."}]},`+
			`{"role":"user","content":[{"toolResult":{"toolUseId":"tooluse_1","content":[{"text":"ok"}]}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"read"}}]}}`,
		"bedrock/bedrock aws.bedrock anthropic.claude-3-haiku-20240307-v1:0: 1 messages, tool_use, 10+5 tokens, 1 calls,  ",
		"bedrock/bedrock aws.bedrock anthropic.claude-3-haiku-20240307-v1:0: 3 messages, , 0+0 tokens, 0 calls, orphan_tool_reply tool_calls_dropped_on_save",
		"call tooluse_1 read rejected",
		"orphan_tool_reply reject 2 tooluse_1 read tool_calls_dropped_on_save high")

	f("ollama", "http://localhost:11434/api/chat",
		`{"model":"llama3.2","messages":[{"role":"user","content":"read it"}]}`,
		`{"model":"llama3.2","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read","arguments":{"path":"a"}}}]},"done":false}
{"model":"llama3.2","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":10,"eval_count":5}
`, "application/x-ndjson",
		`{"model":"llama3.2","messages":[{"role":"user","content":"read it"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read","arguments":"{}"}}]},{"role":"tool","content":"ok","tool_name":"read"}]}`,
		"openai_chat/ollama ollama llama3.2: 1 messages, stop, 10+5 tokens, 1 calls,  ",
		"openai_chat/ollama ollama llama3.2: 3 messages, , 0+0 tokens, 0 calls, arguments_not_object ",
		"call  read open",
		"arguments_not_object reject 1 - read - -")
}
