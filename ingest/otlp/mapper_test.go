package otlp

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// The same conversation in the spellings of each instrumentation.
var (
	current = m{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4.1", "gen_ai.response.model": "gpt-4.1-2025",
		"gen_ai.response.id": "chatcmpl-1", "gen_ai.response.finish_reasons": []any{"tool_calls"}, "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 7,
		"gen_ai.usage.cache_read.input_tokens": 100, "gen_ai.conversation.id": "order-17", "gen_ai.agent.name": "planner", "user.id": "jane",
		"server.address": "api.openai.com", "server.port": 443,
		"gen_ai.system_instructions": `[{"type":"text","content":"You plan."}]`,
		"gen_ai.input.messages": `[{"role":"user","parts":[{"type":"text","content":"read both"}]},
			{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"read","arguments":{"path":"a"}},{"type":"tool_call","id":"call_2","name":"read","arguments":{"path":"b"}}]},
			{"role":"tool","parts":[{"type":"tool_call_response","id":"call_1","response":"x"},{"type":"tool_call_response","id":"call_2","response":"y"}]}]`,
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"tool_call","id":"call_3","name":"read","arguments":{"path":"c"}}],"finish_reason":"tool_call"}]`,
	}
	openLLMetry = m{
		"llm.request.type": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4.1", "gen_ai.response.model": "gpt-4.1-2025", "gen_ai.response.id": "chatcmpl-1",
		"gen_ai.usage.prompt_tokens": 120, "gen_ai.usage.completion_tokens": 7, "llm.usage.total_tokens": 127, "llm.is_streaming": true,
		"gen_ai.openai.api_base": "https://api.openai.com/v1/", "gen_ai.completion.0.finish_reason": "tool_calls",
		"traceloop.association.properties.session_id": "order-17", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "read both",
		"gen_ai.prompt.1.role": "assistant", "gen_ai.prompt.1.tool_calls.0.id": "call_1", "gen_ai.prompt.1.tool_calls.0.name": "read",
		"gen_ai.prompt.1.tool_calls.0.arguments": `{"path":"a"}`, "gen_ai.prompt.2.role": "tool", "gen_ai.prompt.2.tool_call_id": "call_1", "gen_ai.prompt.2.content": "x",
		"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.id": "call_3", "gen_ai.completion.0.tool_calls.0.name": "read",
	}
	openInference = m{
		"openinference.span.kind": "LLM", "llm.system": "openai", "llm.provider": "openai", "llm.model_name": "gpt-4.1", "session.id": "order-17",
		"llm.token_count.prompt": 120, "llm.token_count.completion": 7, "llm.invocation_parameters": `{"model":"gpt-4.1","stream":true}`,
		"output.value": `{"id":"chatcmpl-1","model":"gpt-4.1-2025","choices":[{"finish_reason":"tool_calls"}]}`, "output.mime_type": "application/json",
		"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "read both",
		"llm.input_messages.1.message.role": "assistant", "llm.input_messages.1.message.tool_calls.0.tool_call.id": "call_1",
		"llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "read", "llm.input_messages.2.message.role": "tool",
		"llm.input_messages.2.message.tool_call_id": "call_1", "llm.output_messages.0.message.role": "assistant",
		"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "read",
	}
	vercel = m{
		"ai.operationId": "ai.streamText.doStream", "gen_ai.system": "openai.chat", "gen_ai.request.model": "gpt-4.1", "gen_ai.response.model": "gpt-4.1-2025",
		"gen_ai.response.id": "chatcmpl-1", "gen_ai.response.finish_reasons": []any{"tool-calls"}, "gen_ai.usage.input_tokens": 120, "gen_ai.usage.output_tokens": 7,
		"ai.prompt.messages":    `[{"role":"user","content":[{"type":"text","text":"read both"}]},{"role":"assistant","content":[{"type":"tool-call","toolCallId":"call_1","toolName":"read","input":{}}]},{"role":"tool","content":[{"type":"tool-result","toolCallId":"call_1","toolName":"read","output":{"type":"text","value":"x"}}]}]`,
		"ai.response.toolCalls": `[{"toolCallId":"call_3","toolName":"read","input":"{}"}]`, "ai.response.msToFirstChunk": 250.5,
	}
)

// Each spelling yields the same row.
func TestSpellings(t *testing.T) {
	f := func(cfg Config, s testSpan, want string) {
		t.Helper()
		must.Equal(t, summary(one(t, cfg, s)), want, "%s", s.name)
	}
	for _, capture := range []string{event.CaptureShape, event.CaptureFull} {
		cfg := Config{Capture: capture}
		f(cfg, testSpan{name: "chat gpt-4.1", attrs: current},
			"openai_chat/openai api.openai.com/v1/chat/completions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=5 calls=1")
		f(cfg, testSpan{name: "openai.chat", attrs: openLLMetry},
			"openai_chat/openai api.openai.com/v1/chat/completions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/0 messages=3 calls=1 stream")
		f(cfg, testSpan{name: "ChatCompletion", attrs: openInference},
			"openai_chat/openai /openai/v1/chat/completions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/0 messages=3 calls=1 stream")
		f(cfg, testSpan{name: "ai.streamText.doStream", attrs: vercel},
			"openai_chat/openai /openai/v1/chat/completions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool-calls tokens=120/7/0 messages=3 calls=1")
		// Span events of openai-v2 without log records, and of the first conventions.
		f(cfg, testSpan{name: "chat", attrs: m{"gen_ai.operation.name": "chat", "gen_ai.system": "deepseek", "gen_ai.request.model": "deepseek-chat"}, events: []testEvent{
			{"gen_ai.user.message", m{"content": "hi"}},
			{"gen_ai.assistant.message", m{"tool_calls": `[{"id":"c","function":{"name":"read","arguments":"{}"}}]`}},
			{"gen_ai.tool.message", m{"id": "c", "content": "x"}},
			{"gen_ai.choice", m{"finish_reason": "stop", "message": `{"content":"done"}`}},
		}}, "openai_chat/deepseek /deepseek/v1/chat/completions deepseek-chat> id= finish= tokens=0/0/0 messages=3 calls=0")
		f(cfg, testSpan{name: "chat", attrs: m{"gen_ai.system": "mistral_ai", "gen_ai.request.model": "m", "gen_ai.usage.prompt_tokens": "9"}, events: []testEvent{
			{"gen_ai.content.prompt", m{"gen_ai.prompt": `[{"role":"user","content":"hi"}]`}}, {"gen_ai.content.completion", m{"gen_ai.completion": `[{"role":"assistant","content":"x"}]`}},
		}}, "openai_chat/mistral_ai /mistral/v1/chat/completions m> id= finish= tokens=9/0/0 messages=1 calls=0")
		// Other dialects.
		with := func(changes m) m {
			a := maps.Clone(current)
			delete(a, "server.address")
			maps.Copy(a, changes)
			return a
		}
		f(cfg, testSpan{name: "chat", attrs: with(m{"gen_ai.provider.name": "anthropic"})},
			"anthropic/anthropic /anthropic/v1/messages gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=4 calls=1")
		f(cfg, testSpan{name: "chat", attrs: with(m{"gen_ai.provider.name": "gcp.gemini", "gen_ai.operation.name": "generate_content"})},
			"gemini/gcp.gemini /v1beta/models/gpt-4.1:generateContent gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=4 calls=1")
		for _, changes := range []m{ // of opentelemetry-instrumentation-google-genai, and of the Vercel AI SDK
			{"gen_ai.provider.name": "gemini", "gen_ai.operation.name": "interactions.create"}, {"gen_ai.provider.name": "google.generative-ai.interactions"},
		} {
			f(cfg, testSpan{name: "chat", attrs: with(changes)},
				"gemini_interactions/gcp.gemini /v1beta/interactions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=5 calls=1")
		}
		f(cfg, testSpan{name: "chat", attrs: with(m{"gen_ai.provider.name": "aws.bedrock"})},
			"bedrock/aws.bedrock /model/gpt-4.1/converse gpt-4.1> id= finish=tool_calls tokens=120/7/100 messages=4 calls=1")
		f(cfg, testSpan{name: "chat", attrs: with(m{"gen_ai.provider.name": "cohere"})},
			"cohere/cohere /cohere/v2/chat gpt-4.1> id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=5 calls=1")
		f(cfg, testSpan{name: "chat", attrs: with(m{"openai.api.type": "responses"})},
			"openai_responses/openai /openai/v1/responses gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=completed tokens=120/7/100 messages=6 calls=1")
		f(cfg, testSpan{name: "chat", attrs: with(m{"gen_ai.provider.name": "acme", "server.address": "llm.acme.example", "server.port": 8443})},
			"openai_chat/other llm.acme.example/v1/chat/completions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=5 calls=1")
	}
	f(Config{Capture: event.CaptureNone}, testSpan{name: "no messages", attrs: current},
		"openai_chat/openai api.openai.com/v1/chat/completions gpt-4.1>gpt-4.1-2025 id=chatcmpl-1 finish=tool_calls tokens=120/7/100 messages=0 calls=0")
}

func TestLabels(t *testing.T) {
	x := one(t, defaultConfig(), testSpan{name: "chat", attrs: current})
	want := event.Labels{
		Service: "checkout", ServiceVersion: "1.2.3", Environment: "prod", Agent: "planner", Stage: x.Labels.Stage, Conversation: "order-17",
		Run: "00000000000000000000000000000001", User: event.HashUser(nil, "jane"),
	}
	must.Agree(t, cmp.Diff(want, x.Labels))
	if x.Conversation != "order-17" || x.Inferred || x.Duration != 1500*time.Millisecond || !x.StartedAt.Equal(started) || x.SDK != "test.instrumentation/0.1" || !x.Degraded ||
		x.Origin != event.OriginOTLP || x.Instance != "pod-1" {
		t.Errorf("%+v", x)
	}
	must.Equal(t, one(t, Config{Capture: event.CaptureShape, KeepUser: true}, testSpan{attrs: current}).Labels.User, "jane", "user")
	if x := one(t, defaultConfig(), testSpan{attrs: vercel}); x.FirstByte != 250500*time.Microsecond || x.Conversation != "" || x.Inferred {
		t.Errorf("first byte %v, conversation %q", x.FirstByte, x.Conversation)
	}
	must.Equal(t, one(t, defaultConfig(), testSpan{attrs: openInference, events: []testEvent{{"First Token Stream Event", nil}}}).FirstByte, 100*time.Millisecond, "first byte")
}

// Texts are published only in the mode full; the ids of calls remain in a shape.
func TestCapture(t *testing.T) {
	f := func(capture string, wantText, wantID bool) {
		t.Helper()
		r := NewMapper(Config{Capture: capture}).Traces(payload(t, testSpan{id: 2, attrs: current}))
		request, answer := string(r.Events[0].Body), string(r.Events[1].Body)
		must.Equal(t, strings.Contains(request, "read both"), wantText, "%s: %s", capture, request)
		must.Equal(t, strings.Contains(request, "call_1") && strings.Contains(answer, "call_3"), wantID, "%s: %s %s", capture, request, answer)
		must.Contain(t, answer, `"prompt_tokens":120`, capture)
	}
	f(event.CaptureFull, true, true)
	f(event.CaptureShape, false, true)
	f(event.CaptureNone, false, false)
}

const python400 = `Error code: 400 - {'error': {'message': "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1", 'type': 'invalid_request_error', 'param': 'messages.[3].role', 'code': None}}`

// Statuses and causes come from what instrumentations say about an SDK's error.
func TestFailures(t *testing.T) {
	base := m{"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "gpt-4.1", "server.address": "api.openai.com"}
	f := func(name string, s testSpan, status int, class, cause string) {
		t.Helper()
		a := maps.Clone(base)
		maps.Copy(a, s.attrs)
		s.attrs = a
		x := one(t, defaultConfig(), s)
		if !x.Failed || x.Status != status || x.ErrorType != class || x.Cause != cause {
			t.Errorf("%s: failed %v, status %d, %q, cause %q (%s)", name, x.Failed, x.Status, x.ErrorType, x.Cause, x.ErrorText)
		}
	}
	f("openai-v2", testSpan{failed: python400, attrs: m{"error.type": "BadRequestError"}}, 400, "BadRequestError", "missing_tool_reply")
	f("record_exception", testSpan{failed: "BadRequestError: " + python400, events: []testEvent{{"exception", m{"exception.type": "openai.BadRequestError", "exception.message": python400}}}},
		400, "openai.BadRequestError", "missing_tool_reply")
	f("stack trace", testSpan{failed: "OpenAIInvalidRequestError('" + python400 + "')Traceback (most recent call last):\n  File \"a.py\", line 1\nRateLimitError: Error code: 429"}, 400, "error", "missing_tool_reply")
	f("node", testSpan{failed: "400 Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."}, 400, "error", "orphan_tool_reply")
	f("go", testSpan{failed: `POST "https://api.openai.com/v1/chat/completions": 429 Too Many Requests {"message":"Rate limit reached for gpt-4.1"}`, attrs: m{"error.type": "*openai.Error"}}, 429, "*openai.Error", "rate_limit")
	f("status", testSpan{failed: "upstream", attrs: m{"http.response.status_code": 503}}, 503, "error", "server_error")
	f("error.type is the status", testSpan{attrs: m{"error.type": "401"}}, 401, "401", "auth")
	f("class", testSpan{failed: "An error occurred", attrs: m{"error.type": "anthropic.RateLimitError"}}, 429, "anthropic.RateLimitError", "rate_limit")
	f("timeout", testSpan{failed: "Request timed out.", attrs: m{"error.type": "APITimeoutError"}}, 0, "no_response", "no_response")

	// The caller failed, not the call: the span has what only an answer has.
	td := payload(t, testSpan{id: 2, attrs: current})
	td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).Status().SetCode(ptrace.StatusCodeError)
	got := analyze(t, NewMapper(defaultConfig()).Traces(td).Events...).Exchanges[0]
	if got.Failed || got.Status != 200 || got.InputTokens != 120 || got.OutputTokens != 7 {
		t.Errorf("status ERROR without a description: %+v", got)
	}

	x := one(t, defaultConfig(), testSpan{attrs: base, failed: "CancelledError()"})
	if x.Failed || x.ErrorType != "cancelled" {
		t.Errorf("cancelled: %+v", x)
	}
	x = one(t, defaultConfig(), testSpan{attrs: base, failed: "Error code: 401 - Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"})
	if strings.Contains(x.ErrorText, "abcdef") || x.Cause != "auth" {
		t.Errorf("%s: %s", x.Cause, x.ErrorText)
	}
}

// The span of a framework around the span of an SDK does not count twice, whether they arrive together or not.
func TestWrappers(t *testing.T) {
	chat, chain := m{"gen_ai.operation.name": "chat", "gen_ai.request.model": "x"}, m{"traceloop.span.kind": "task"}
	agent := m{"gen_ai.operation.name": "invoke_agent"}
	f := func(want string, payloads ...[]testSpan) {
		t.Helper()
		for _, killed := range []bool{false, true} { // after each payload
			mapper, got, stored := NewMapper(defaultConfig()), "", [][]byte(nil)
			for _, p := range payloads {
				r := mapper.Traces(payload(t, p...))
				for _, e := range r.Events {
					if e.Kind == event.Request {
						got += e.Traceparent[len(e.Traceparent)-4 : len(e.Traceparent)-3]
					}
				}
				if stored = append(stored, r.memory.messages()...); killed {
					mapper = NewMapper(defaultConfig())
					for _, data := range stored {
						mapper.restore(data)
					}
				}
			}
			must.Equal(t, got, want, "got the spans (killed: %v)", killed)
		}
	}
	outer, between, inner := testSpan{id: 1, attrs: chat}, testSpan{id: 2, parent: 1, attrs: chain}, testSpan{id: 3, parent: 2, attrs: chat}
	f("3", []testSpan{outer, between, inner})
	f("3", []testSpan{inner}, []testSpan{between}, []testSpan{outer})
	f("3", []testSpan{inner, between}, []testSpan{outer})
	f("3", []testSpan{inner}, []testSpan{outer, between}, []testSpan{outer, between}) // sent again
	f("31", []testSpan{inner}, []testSpan{{id: 2, parent: 1, attrs: agent}}, []testSpan{outer})
	f("13", []testSpan{outer, {id: 2, parent: 1, attrs: agent}, inner})
	f("45", []testSpan{{id: 4, parent: 9, attrs: chat}, {id: 5, parent: 9, attrs: chat}}, []testSpan{{id: 9, attrs: chat}})
	f("13", []testSpan{outer, {id: 3, parent: 1, attrs: chat, service: "gateway"}}) // another service

	// The outer one first: it is stored already.
	f("1", []testSpan{outer}, []testSpan{between}, []testSpan{inner})
	f("111", []testSpan{outer, between}, []testSpan{inner}, []testSpan{outer}, []testSpan{inner}, []testSpan{outer})                             // sent again
	f("14", []testSpan{outer, between}, []testSpan{inner, {id: 4, parent: 2, attrs: chat}})                                                      // two calls
	f("13", []testSpan{outer, between}, []testSpan{{id: 3, parent: 2, attrs: chat, failed: "429"}}, []testSpan{{id: 5, parent: 2, attrs: chat}}) // repeated
	f("1", []testSpan{{id: 1, attrs: chat, failed: "x"}}, []testSpan{between}, []testSpan{inner})

	// Side by side: of another instrumentation, and with the same tokens.
	counted := func(tokens int, model string) m {
		return m{"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.usage.input_tokens": tokens}
	}
	framework := testSpan{id: 4, parent: 9, attrs: counted(7, "x"), scope: "langchain"}
	sdk := testSpan{id: 5, parent: 9, attrs: counted(7, "x-2025-04-14"), shorter: true}
	f("5", []testSpan{framework, sdk})
	f("55", []testSpan{sdk}, []testSpan{framework}, []testSpan{sdk}, []testSpan{framework}) // sent again
	f("44", []testSpan{framework}, []testSpan{sdk}, []testSpan{framework}, []testSpan{sdk}) // the other first
	f("45", []testSpan{framework, {id: 5, parent: 9, attrs: counted(8, "x"), shorter: true}})
	f("45", []testSpan{framework, {id: 5, parent: 9, attrs: counted(7, "y"), shorter: true}})
	f("45", []testSpan{framework, {id: 5, parent: 9, attrs: counted(7, "x"), shorter: true, scope: "langchain"}})
	f("45", []testSpan{framework, {id: 5, parent: 8, attrs: counted(7, "x"), shorter: true}})
	f("45", []testSpan{framework, {id: 5, parent: 9, attrs: counted(7, "x"), shorter: true, failed: "x"}})
}

// Of three layers of spans, one counts, in whatever order and number of payloads they arrive. If the link between two calls
// comes last, it is known that both count.
func TestOrders(t *testing.T) {
	chat, task := m{"gen_ai.operation.name": "chat"}, m{"traceloop.span.kind": "task"}
	f := func(spans []testSpan, order []int, payloads, want, wantTwice int) {
		t.Helper()
		mapper, counted, twice := NewMapper(defaultConfig()), map[string]bool{}, 0
		for len(order) > 0 {
			n := (len(order) + payloads - 1) / payloads
			var p []testSpan
			for _, i := range order[:n] {
				p = append(p, spans[i])
			}
			order = order[n:]
			r := mapper.Traces(payload(t, p...))
			for _, e := range r.Events {
				counted[e.Exchange] = true
			}
			twice += r.Twice
		}
		if len(counted) != want || twice != wantTwice {
			t.Errorf("%v: %d calls count, %d twice, want %d, %d", order, len(counted), twice, want, wantTwice)
		}
	}
	layers := []testSpan{{id: 1, attrs: chat}, {id: 2, parent: 1, attrs: chat}, {id: 3, parent: 2, attrs: chat}}
	linked := []testSpan{{id: 1, attrs: chat}, {id: 2, parent: 1, attrs: task}, {id: 3, parent: 2, attrs: chat}}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		last := 0
		if order[2] == 1 {
			last = 1
		}
		f(layers, order, 1, 1, 0)
		f(linked, order, 1, 1, 0)
		f(linked, order, 3, 1+last, last)
		if last == 0 {
			f(layers, order, 3, 1, 0)
		}
	}
}

// Spans about anything else are left out, those without ids or times are rejected.
func TestOthers(t *testing.T) {
	f := func(attrs m) {
		t.Helper()
		if r := NewMapper(defaultConfig()).Traces(payload(t, testSpan{id: 2, attrs: attrs})); len(r.Events) > 0 || r.Others != 1 || r.Rejected > 0 {
			t.Errorf("%v: %+v", attrs, r)
		}
	}
	f(m{"http.request.method": "POST"})
	f(m{"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "x"})
	f(m{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read"})
	f(m{"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "x", "gen_ai.usage.input_tokens": 900})
	f(m{"gen_ai.operation.name": "invoke_workflow", "gen_ai.agent.name": "orders", "gen_ai.usage.input_tokens": 900})
	f(m{"gen_ai.operation.name": "plan", "gen_ai.agent.name": "orders", "gen_ai.request.model": "x"})
	f(m{"openinference.span.kind": "CHAIN", "llm.model_name": "x"})
	f(m{"traceloop.span.kind": "workflow"})
	f(m{"llm.request.type": "embedding", "gen_ai.system": "openai"})
	f(m{"ai.operationId": "ai.generateText", "ai.model.id": "x", "ai.usage.promptTokens": 3})

	r := NewMapper(defaultConfig()).Traces(payload(t, testSpan{attrs: current}))
	if len(r.Events) > 0 || r.Rejected != 1 || r.Why == "" {
		t.Errorf("no span id: %+v", r)
	}
	td := payload(t, testSpan{id: 2, attrs: current})
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
	s.SetStartTimestamp(0)
	s.SetEndTimestamp(0)
	if r := NewMapper(defaultConfig()).Traces(td); len(r.Events) > 0 || r.Rejected != 1 {
		t.Errorf("no time: %+v", r)
	}
}

// A span that is sent again has the same message ids.
func TestIDs(t *testing.T) {
	mapper := NewMapper(defaultConfig())
	first, again := mapper.Traces(payload(t, testSpan{id: 2, attrs: current})), mapper.Traces(payload(t, testSpan{id: 2, attrs: current}))
	other := mapper.Traces(payload(t, testSpan{id: 3, attrs: current}))
	for i := range first.Events {
		if first.Events[i].MessageID() != again.Events[i].MessageID() || first.Events[i].MessageID() == other.Events[i].MessageID() {
			t.Errorf("%s, %s, %s", first.Events[i].MessageID(), again.Events[i].MessageID(), other.Events[i].MessageID())
		}
	}
	must.Equal(t, len(analyze(t, append(first.Events, again.Events...)...).Exchanges), 1, "rows")
}

// Log records are used only for calls without a span.
func TestLogs(t *testing.T) {
	f := func(name string, sampled, span bool, want int) {
		t.Helper()
		ld := plog.NewLogs()
		rl := ld.ResourceLogs().AppendEmpty()
		fill(t, rl.Resource().Attributes(), m{"service.name": "checkout"})
		l := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
		l.SetEventName(name)
		l.SetTimestamp(pcommon.NewTimestampFromTime(started))
		l.SetFlags(plog.DefaultLogRecordFlags.WithIsSampled(sampled))
		if span {
			l.SetTraceID(pcommon.TraceID{15: 1})
			l.SetSpanID(pcommon.SpanID{7: 2})
		}
		fill(t, l.Attributes(), current)
		r := NewMapper(defaultConfig()).Logs(ld)
		if len(r.Events) != want {
			t.Fatalf("%s: %+v", name, r)
		}
		if want > 0 {
			x := analyze(t, r.Events...).Exchanges[0]
			if x.InputTokens != 120 || x.Messages != 5 || x.Conversation != "order-17" || x.Failed {
				t.Errorf("%+v", x)
			}
		}
	}
	const details = "gen_ai.client.inference.operation.details"
	f(details, false, false, 2)
	f(details, false, true, 2)
	f(details, true, true, 0)
	f("gen_ai.user.message", false, false, 0)
}

// An incomplete history accuses nobody: spans that sampling, attribute limits and lost payloads left without calls, replies
// or the ends of their messages.
func TestIncomplete(t *testing.T) {
	const history = `[{"role":"user","parts":[{"type":"text","content":"read both"}]},{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"read"},{"type":"tool_call","id":"call_2","name":"read"}]},{"role":"tool","parts":[{"type":"tool_call_response","id":"call_1","response":"x"}]}]`
	f := func(change func(a m)) {
		t.Helper()
		for _, capture := range []string{event.CaptureShape, event.CaptureFull} {
			a := maps.Clone(current)
			change(a)
			one(t, Config{Capture: capture}, testSpan{name: "chat", attrs: a}) // has no findings
		}
	}
	for n := 0; n < len(history); n += 7 { // OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT
		f(func(a m) { a["gen_ai.input.messages"] = history[:n] })
	}
	f(func(a m) { delete(a, "gen_ai.input.messages") }) // OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT
	f(func(a m) {                                       // the call was in a message that is missing
		a["gen_ai.input.messages"] = `[{"role":"tool","parts":[{"type":"tool_call_response","id":"call_9","response":"x"}]}]`
	})
	for _, missing := range []string{"gen_ai.prompt.1.role", "gen_ai.prompt.1.tool_calls.0.id", "gen_ai.prompt.2.tool_call_id", "gen_ai.prompt.0.content"} {
		a := maps.Clone(openLLMetry)
		delete(a, missing)
		one(t, Config{Capture: event.CaptureFull}, testSpan{name: "chat", attrs: a})
	}
	// The spans of a conversation, of which sampling left some, in any order, and with dropped attributes and events.
	mapper := NewMapper(Config{Capture: event.CaptureFull})
	var events []*event.Event
	for _, id := range []byte{9, 3, 5} {
		a := maps.Clone(current)
		a["gen_ai.input.messages"] = history[:len(history)-int(id)*9]
		td := payload(t, testSpan{id: id, name: "chat", attrs: a})
		s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		s.SetDroppedAttributesCount(7)
		s.SetDroppedEventsCount(3)
		events = append(events, mapper.Traces(td).Events...)
	}
	if out := analyze(t, events...); len(out.Exchanges) != 3 || len(out.Findings) > 0 {
		t.Errorf("%d rows, findings: %+v", len(out.Exchanges), out.Findings)
	}
}
