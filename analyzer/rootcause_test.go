package analyzer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// scene is a stream of requests from several processes to several providers.
type scene struct {
	*stream
	instance string
	code     string // where the agent makes the next calls
	model    string
	sent     []msg // the last history
	previous string
}

func newScene(url string) *scene {
	return &scene{stream: &stream{now: epoch, url: url, labels: event.Labels{Service: "s", Conversation: "c"}}, instance: "i1", model: "m"}
}

// at adds an exchange of the current process; an answer that is no map is an error text.
func (s *scene) at(answer any, history ...msg) { s.end(s.begin(history...), answer) }

func (s *scene) begin(history ...msg) string {
	id := s.exchange()
	s.sent = history
	m := msg{"model": s.model}
	switch {
	case strings.Contains(s.url, "/responses"):
		m["input"] = history
		if s.previous != "" {
			m["previous_response_id"] = s.previous
		}
	default:
		m["messages"] = history
	}
	s.add(&event.Event{Kind: event.Request, Exchange: id, URL: s.url, Method: "POST", Code: s.code, Body: body(m)}).Instance = s.instance
	return id
}

func (s *scene) end(id string, said any) {
	b, status := []byte(nil), 200
	switch said := said.(type) {
	case msg:
		b = answer(said)
	case []msg: // items of a Responses output
		b = body(msg{"id": "resp_" + id, "object": "response", "status": "completed", "output": said})
	case []byte:
		b = said
	case string:
		b, status = fault(said), 400
	}
	s.response(id, status, b).Instance = s.instance
}

// causes returns the findings of the scene: rule, detail, root cause and confidence.
func (s *scene) causes(t *testing.T) []string {
	t.Helper()
	var list []string
	_, findings, _ := latest(run(t, analyzer.Default(), s.steps))
	for _, f := range findings {
		if f.Rule == "user_after_tool" || f.Severity == check.Signal {
			continue // of the turn that is added to see whether the rest stays as it is
		}
		if (f.RootCause != "") != (f.Evidence != "") || f.Fix == "" {
			t.Errorf("%s: root cause %q, evidence %q, fix %q", f.Rule, f.RootCause, f.Evidence, f.Fix)
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", f.Rule, f.ToolCallID, f.RootCause, f.Confidence)))
	}
	return list
}

const (
	deepSeekURL  = "https://api.deepseek.com/chat/completions"
	openAIURL    = "https://api.openai.com/v1/chat/completions"
	responsesURL = "https://api.openai.com/v1/responses"
	mistralURL   = "https://api.mistral.ai/v1/chat/completions"
)

// A root cause names the call whose request is broken and the call whose answer was not kept, also in a later turn from elsewhere.
func TestRootCauseNamesCode(t *testing.T) {
	const plan, work, later = "core/agent.py:97 Agent.plan", "core/agent.py:145 Agent.run", "core/agent.py:200 Agent.chat"
	f := func(name string, answer, copied msg, replies ...msg) {
		t.Helper()
		s := newScene(deepSeekURL)
		s.code = plan
		s.at(answer, user("u"))
		s.code = work
		s.at("x", append([]msg{user("u"), copied}, replies...)...)
		s.code = later
		s.at("x", append(slices.Clip(s.sent), user("Are you there?"))...)
		exchanges, findings, _ := latest(run(t, analyzer.Default(), s.steps))
		for _, e := range exchanges {
			if !slices.Contains([]string{plan, work, later}, e.Code) {
				t.Errorf("%s: the code of an exchange is %q", name, e.Code)
			}
		}
		n := 0
		for _, x := range findings {
			if x.RootCause == "" || x.Rule == "user_after_tool" {
				continue
			}
			n++
			if x.Code != work || x.AnswerCode != plan || exchanges[x.Exchange].Code != work {
				t.Errorf("%s: %s (%s) of the call at %q, answer of %q: %s", name, x.Rule, x.RootCause, x.Code, x.AnswerCode, x.Evidence)
			}
		}
		if n == 0 {
			t.Errorf("%s: no root cause", name)
		}
	}
	one, object := assistant("", "call_1 f"), assistant("", "call_1 f")
	object["tool_calls"].([]msg)[0]["function"].(msg)["arguments"] = msg{"path": "config.py"}
	f("calls dropped", one, assistant(""), tool("call_1", "a"))
	f("tool skipped", one, one, user("well?"))
	f("arguments as an object", one, object, tool("call_1", "a"))
	f("id changed", one, assistant("", "call_9 f"), tool("call_1", "a"))
}

// Each root cause, and cases that resemble it.
func TestRootCauses(t *testing.T) {
	f := func(name, url string, play func(s *scene), want ...string) {
		t.Helper()
		s := newScene(url)
		play(s)
		less := func(a, b string) bool { return a < b }
		check := func(when string) {
			t.Helper()
			must.Agree(t, cmp.Diff(want, s.causes(t), cmpopts.SortSlices(less), cmpopts.EquateEmpty()), name, when)
		}
		check("")
		// A defect is reported once: a retry of an SDK and a later turn show nothing new.
		s.at("x", s.sent...)
		check(", sent again")
		s.at("x", append(slices.Clip(s.sent), user("Are you there?"))...)
		check(", a turn later")
		s.instance = "i3"
		s.at("x", s.sent...)
		check(", by another process")
	}
	h := []msg{system("s"), user("u")}
	with := func(more ...msg) []msg { return append(h[:2:2], more...) }
	// rejected plays an answer, and a rejected request that continues with these messages.
	rejected := func(answer any, then ...msg) func(s *scene) {
		return func(s *scene) {
			s.at(answer, h...)
			s.at("x", with(then...)...)
		}
	}
	one, two := assistant("", "call_1 f"), assistant("", "call_1 f", "call_2 f")
	r1, r2 := tool("call_1", "a"), tool("call_2", "b")

	// Calls without replies.
	f("the first k of several calls of one tool", deepSeekURL, rejected(two, two, r1), "missing_tool_reply call_2: parallel_calls_truncated medium")
	f("the same in two turns", deepSeekURL, func(s *scene) {
		next := assistant("", "call_3 f", "call_4 f")
		s.at(two, h...)
		s.at(next, with(two, r1)...)
		s.at("x", with(two, r1, next, tool("call_3", "c"))...)
	}, "missing_tool_reply call_2: parallel_calls_truncated medium", "missing_tool_reply call_4: parallel_calls_truncated high")
	f("more calls were answered in another turn", deepSeekURL, func(s *scene) {
		next := assistant("", "call_3 f", "call_4 f")
		s.at(two, h...)
		s.at(next, with(two, r1, r2)...)
		s.at("x", with(two, r1, r2, next, tool("call_3", "c"))...)
	}, "missing_tool_reply call_4: tool_skipped medium")
	f("another tool has no reply", deepSeekURL, func(s *scene) {
		other := assistant("", "call_1 f", "call_2 g")
		s.at(other, h...)
		s.at("x", with(other, r1)...)
	}, "missing_tool_reply call_2: tool_skipped medium")
	f("the user wrote", deepSeekURL, rejected(one, one, user("well?")), "missing_tool_reply call_1: tool_skipped_or_interrupted medium")
	f("another process goes on", deepSeekURL, func(s *scene) {
		s.at(one, h...)
		s.instance = "i2"
		s.at("x", with(one, user("well?"))...)
	}, "missing_tool_reply call_1: crash_between_call_and_reply medium")
	f("a conversation that moves between processes anyway", deepSeekURL, func(s *scene) {
		s.at(assistant("hello"), h...)
		s.instance = "i2"
		s.at(one, with(assistant("hello"), user("go"))...)
		s.instance = "i1"
		s.at("x", with(assistant("hello"), user("go"), one, user("well?"))...)
	}, "missing_tool_reply call_1: tool_skipped_or_interrupted medium")
	f("the reply comes after the user's message of the request before", deepSeekURL, func(s *scene) {
		s.at(one, h...)
		s.at("x", with(one, user("well?"))...)
		s.at("x", with(one, user("well?"), r1)...)
	}, "late_tool_reply call_1: user_interrupt medium", "missing_tool_reply call_1: tool_skipped_or_interrupted medium")

	// Orphans.
	f("an answer of role and content alone", deepSeekURL, rejected(one, assistant(""), r1),
		"orphan_tool_reply call_1: tool_calls_dropped_on_save high")
	f("the next process loads replies without their calls", deepSeekURL, func(s *scene) {
		s.at(one, h...)
		s.at(assistant("ok"), with(one, r1)...)
		s.instance = "i2"
		s.at("x", with(r1, assistant("ok"), user("and now?"))...)
	}, "orphan_tool_reply call_1: replayed_history_without_binding medium")
	f("the same process drops the message in the same turn", deepSeekURL, func(s *scene) {
		s.at(one, h...)
		s.at(assistant("", "call_2 f"), with(one, r1)...)
		s.at("x", with(r1, assistant("", "call_2 f"), r2)...)
	}, "orphan_tool_reply call_1: tool_calls_dropped_on_save medium")
	f("a malformed call is taken out", deepSeekURL, rejected(assistant("", "call_1 "), r1),
		"orphan_tool_reply call_1: call_dropped_by_sanitizer medium")
	f("a malformed call is taken out of a message with text", deepSeekURL, rejected(assistant("let me see", "call_1 "), assistant("let me see"), r1),
		"orphan_tool_reply call_1: call_dropped_by_sanitizer medium")
	f("of two calls, one malformed, the message is saved without any", deepSeekURL, rejected(assistant("let me see", "call_1 ", "call_2 f"), assistant("let me see"), r2),
		"orphan_tool_reply call_2: tool_calls_dropped_on_save high")
	f("the calls of all turns are lost", deepSeekURL, func(s *scene) {
		second, third := assistant("", "call_2 f"), assistant("let me see", "call_3 f")
		s.at(one, h...)
		s.at(second, with(one, r1)...)
		s.at(third, with(one, r1, second, r2)...)
		s.at("x", with(assistant(""), r1, assistant(""), r2, assistant("let me see"), tool("call_3", "c"))...)
	}, "orphan_tool_reply call_1: tool_calls_dropped_on_save high", "orphan_tool_reply call_2: tool_calls_dropped_on_save high",
		"orphan_tool_reply call_3: tool_calls_dropped_on_save high")
	f("a call is taken out because its turn was incomplete", deepSeekURL, func(s *scene) {
		other := assistant("", "call_1 f", "call_2 g")
		s.at(other, h...)
		s.at("x", with(other, r1)...)
		s.at("x", with(r1)...)
	}, "missing_tool_reply call_2: tool_skipped medium", "orphan_tool_reply call_1: call_dropped_by_sanitizer medium")
	f("the head is cut off", deepSeekURL, func(s *scene) {
		s.at(two, h...)
		s.at(one, with(two, r1, r2)...)
		s.at("x", h[0], r2, user("go on"))
	}, "orphan_tool_reply call_2: history_truncated_mid_pair high")
	f("a reply that nobody knows", deepSeekURL, func(s *scene) { s.at("x", with(r1, user("?"))...) },
		"orphan_tool_reply call_1: replayed_history_without_binding medium")
	f("the same in the middle of a run", deepSeekURL, func(s *scene) { s.at("x", with(r1)...) }, "orphan_tool_reply call_1: unknown_no_history low")

	// Replies at the wrong place.
	f("a system message between call and reply", deepSeekURL, rejected(one, one, system("Be brief."), r1),
		"late_tool_reply call_1: interleaved_injection high", "missing_tool_reply call_1: interleaved_injection high")
	f("the calls of one answer as two messages", deepSeekURL, rejected(two, assistant("", "call_1 f"), assistant("", "call_2 f"), r1, r2),
		"late_tool_reply call_1: calls_split_over_messages high", "missing_tool_reply call_1: calls_split_over_messages high")
	f("two writers", deepSeekURL, func(s *scene) {
		second := assistant("", "call_2 f")
		left, right := s.begin(with(user("left"))...), ""
		right = s.begin(with(user("right"))...)
		s.end(left, one)
		s.end(right, second)
		s.at("x", with(user("left"), user("right"), one, second, r1, r2)...)
	}, "late_tool_reply call_1: concurrent_writers high", "missing_tool_reply call_1: concurrent_writers high")
	f("two agents of one conversation at once, one of them broken", deepSeekURL, func(s *scene) {
		second := assistant("", "call_2 f")
		left := s.begin(system("a"), user("left"))
		right := s.begin(system("b"), user("right"))
		s.end(left, one)
		s.end(right, second)
		s.at(assistant("ok"), system("b"), user("right"), second, r2)
		s.at("x", system("a"), user("left"), assistant(""), r1)
	}, "orphan_tool_reply call_1: tool_calls_dropped_on_save high")

	// Duplicates.
	f("two replies of one process", deepSeekURL, rejected(one, one, r1, tool("call_1", "other")),
		"duplicate_tool_reply call_1: duplicate_reply medium")
	f("one reply, again by the next process", deepSeekURL, func(s *scene) {
		s.at(one, h...)
		s.at(nil, with(one, r1)...)
		s.instance = "i2"
		s.at("x", with(one, r1, r1)...)
	}, "duplicate_tool_reply call_1: duplicate_reply high")
	f("a turn is appended twice", deepSeekURL, rejected(one, one, r1, one, r1), "duplicate_call_id_in_history call_1: turn_appended_twice high")
	f("the model uses an id again, for the same call", deepSeekURL, func(s *scene) {
		s.at(one, h...)
		s.at(one, with(one, r1)...)
		s.at("x", with(one, r1, one, r1)...)
	}, "duplicate_call_id_in_history call_1: duplicate_id_from_model high")
	f("the model gives two calls one id", deepSeekURL, func(s *scene) {
		both := assistant("", "call_1 f", "call_1 g")
		s.at(both, h...)
		s.at("x", with(both, r1)...)
	}, "duplicate_call_id_in_message call_1: duplicate_id_from_model high")

	// Ids.
	f("calls get new ids", openAIURL, rejected(one, assistant("", "other_1 f"), r1),
		"missing_tool_reply other_1: id_rewritten high", "unknown_tool_call_id call_1: id_rewritten high")
	f("the reply gets another id", openAIURL, rejected(one, one, tool("f", "a")),
		"missing_tool_reply call_1: id_rewritten high", "unknown_tool_call_id f: id_rewritten high")
	f("the reply to a call that is lost, behind another call", openAIURL, func(s *scene) {
		s.at(one, h...)
		s.at(assistant("", "call_2 f"), with(one, r1)...)
		s.at("x", with(one, r1, r2)...)
	}, "unknown_tool_call_id call_2: tool_calls_dropped_on_save high")
	f("the reply has no id", openAIURL, rejected(one, one, msg{"role": "tool", "content": "a"}),
		"missing_tool_call_id : id_dropped_on_save high", "missing_tool_reply call_1: id_dropped_on_save high")
	f("a provider whose ids are of another form", mistralURL, func(s *scene) {
		s.url = openAIURL
		s.at(one, h...)
		s.url = mistralURL
		s.at("x", with(one, r1)...)
	}, "tool_call_id_format call_1: provider_switched high")
	f("the same provider gave the id", mistralURL, rejected(one, one, r1), "tool_call_id_format call_1: id_regenerated_by_gateway low")

	// Arguments.
	args := func(v any) msg {
		return msg{"role": "assistant", "content": "", "tool_calls": []msg{{"id": "call_1", "type": "function", "function": msg{"name": "f", "arguments": v}}}}
	}
	f("arguments as an object", openAIURL, rejected(args(`{"b": [1.0, "\u00e9"], "a": null}`), args(msg{"a": nil, "b": []any{1, "é"}}), r1),
		"arguments_not_string call_1: arguments_reserialised_as_object high")
	f("an object as a string", anthropicURL, func(s *scene) {
		use := func(input any) msg {
			return msg{"role": "assistant", "content": []msg{{"type": "tool_use", "id": "toolu_01", "name": "f", "input": input}}}
		}
		reply := msg{"role": "user", "content": []msg{{"type": "tool_result", "tool_use_id": "toolu_01", "content": "a"}}}
		s.at(body(msg{"id": "msg_1", "type": "message", "role": "assistant", "content": use(msg{"a": 1, "b": "x"})["content"], "stop_reason": "tool_use"}), user("u"))
		s.at("x", user("u"), use(`{"b": "x", "a": 1.0}`), reply)
	}, "arguments_not_object toolu_01: arguments_sent_as_string high", "tools_missing_with_tool_history toolu_01:")
	f("a text before the reply in its message", anthropicURL, func(s *scene) {
		use := msg{"role": "assistant", "content": []msg{{"type": "tool_use", "id": "toolu_01", "name": "f", "input": msg{}}}}
		reply := msg{"role": "user", "content": []msg{{"type": "text", "text": "Be brief."}, {"type": "tool_result", "tool_use_id": "toolu_01", "content": "a"}}}
		s.at(body(msg{"id": "msg_1", "type": "message", "role": "assistant", "content": use["content"], "stop_reason": "tool_use"}), user("u"))
		s.at("x", user("u"), use, reply)
	}, "tool_result_not_first toolu_01: interleaved_injection medium", "tools_missing_with_tool_history toolu_01:")
	f("a signature is cut", anthropicURL, func(s *scene) {
		use := func(signature string) msg {
			return msg{"role": "assistant", "content": []msg{
				{"type": "thinking", "thinking": "I look.", "signature": signature}, {"type": "tool_use", "id": "toolu_01", "name": "f", "input": msg{}},
			}}
		}
		reply := msg{"role": "user", "content": []msg{{"type": "tool_result", "tool_use_id": "toolu_01", "content": "a"}}}
		s.at(body(msg{"id": "msg_1", "type": "message", "role": "assistant", "content": use("c2lnbmF0dXJl")["content"], "stop_reason": "tool_use"}), user("u"))
		s.at("x", user("u"), use("c2lnbm"), reply)
	}, "reasoning_signature_invalid : reasoning_edited medium", "tools_missing_with_tool_history toolu_01:")
	f("a signature is lost", anthropicURL, func(s *scene) {
		thought, call := msg{"type": "thinking", "thinking": "I look.", "signature": "c2lnbmF0dXJl"}, msg{"type": "tool_use", "id": "toolu_01", "name": "f", "input": msg{}}
		s.at(body(msg{"id": "msg_1", "type": "message", "role": "assistant", "content": []msg{thought, call}, "stop_reason": "tool_use"}), user("u"))
		kept := msg{"type": "thinking", "thinking": "I look."}
		s.at("x", user("u"), msg{"role": "assistant", "content": []msg{kept, call}}, msg{"role": "user", "content": []msg{{"type": "tool_result", "tool_use_id": "toolu_01", "content": "a"}}})
	}, "reasoning_signature_invalid : field_lost_on_save high", "tools_missing_with_tool_history toolu_01:")
	f("a string in a string", openAIURL, rejected(args(`{"a": 1}`), args(`"{\"a\": 1}"`), r1),
		"arguments_invalid_json call_1: arguments_sent_as_string high")
	f("complete arguments end early", openAIURL, rejected(args(`{"a": 1, "b": "text"}`), args(`{"a": 1, "b": "te`), r1),
		"arguments_invalid_json call_1: arguments_truncated_on_save high")
	f("another object", openAIURL, rejected(args(`{"a": 1}`), args(msg{"a": 2}), r1), "arguments_not_string call_1:")
	f("the model wrote bad arguments", openAIURL, rejected(args(`{'a': 1}`), args(`{'a': 1}`), r1),
		"arguments_invalid_json call_1: malformed_by_model high")
	f("the agent made them bad", openAIURL, rejected(args(`{"a": 1}`), args(`{'a': 1}`), r1), "arguments_invalid_json call_1:")
	f("the token limit", openAIURL, rejected(
		[]byte(`{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\""}}]},"finish_reason":"length"}]}`),
		args(`{"a"`), r1), "arguments_invalid_json call_1: arguments_truncated_stream high")
	f("two calls in one string", openAIURL, rejected(two, args(`{"path":"config.py"}{"path":"config.py"}`), r1),
		"arguments_invalid_json call_1: stream_assembly_bug high")

	// Fields.
	named := func(m msg) msg { return msg{"role": m["role"], "content": m["content"], "metadata": msg{}} }
	f("a field of the framework in all messages", mistralURL, func(s *scene) {
		s.at("x", named(h[0]), named(h[1]))
	}, "unexpected_message_field : sdk_field_leak medium")

	// Items: each call and reply is one.
	ask := msg{"role": "user", "content": "u"}
	call := func(n int) msg {
		return msg{"type": "function_call", "id": fmt.Sprint("fc_", n), "call_id": fmt.Sprint("call_", n), "name": "f", "arguments": "{}"}
	}
	out := func(n int) msg {
		return msg{"type": "function_call_output", "call_id": fmt.Sprint("call_", n), "output": "ok"}
	}
	items := func(answer []msg, then ...msg) func(s *scene) {
		return func(s *scene) {
			s.at(answer, ask)
			s.at("x", append([]msg{ask}, then...)...)
		}
	}
	thought := msg{"type": "reasoning", "id": "rs_1", "summary": []msg{}, "encrypted_content": "sealed"}
	f("items: one of two calls is not saved", responsesURL, items([]msg{call(1), call(2)}, call(1), out(1), out(2)),
		"unknown_tool_call_id call_2: tool_calls_dropped_on_save high")
	f("items: the calls are not saved", responsesURL, items([]msg{call(1)}, out(1)), "orphan_tool_reply call_1: tool_calls_dropped_on_save high")
	f("items: the history is cut", responsesURL, func(s *scene) {
		s.at([]msg{call(1)}, ask)
		s.at([]msg{call(2)}, ask, call(1), out(1))
		s.at("x", out(1), call(2), out(2))
	}, "orphan_tool_reply call_1: history_truncated_mid_pair high")
	f("items: reasoning without its call", responsesURL, items([]msg{thought, call(1)}, thought, out(1)),
		"orphan_tool_reply call_1: tool_calls_dropped_on_save high", "reasoning_item_unpaired : tool_calls_dropped_on_save high")
	f("items: older reasoning without its call", responsesURL, func(s *scene) {
		s.at([]msg{thought, call(1)}, ask)
		s.at([]msg{call(2)}, ask, thought, call(1), out(1))
		s.at("x", ask, thought, out(1), call(2), out(2))
	}, "orphan_tool_reply call_1: tool_calls_dropped_on_save high", "reasoning_item_unpaired : tool_calls_dropped_on_save high")
	f("items: the history ends with reasoning", responsesURL, func(s *scene) {
		s.at([]msg{thought, call(1)}, ask)
		s.at([]msg{call(2)}, ask, thought, call(1), out(1))
		s.at("x", ask, thought)
	}, "reasoning_item_unpaired : history_truncated_mid_pair high")
	f("items: reasoning after its call", responsesURL, items([]msg{thought, call(1)}, call(1), thought, out(1)),
		"reasoning_item_unpaired : history_reordered high")
	f("items: reasoning without its message", responsesURL, items(
		[]msg{thought, {"type": "message", "id": "msg_1", "role": "assistant", "content": []msg{{"type": "output_text", "text": "Done."}}}},
		thought, msg{"role": "user", "content": "well?"}), "reasoning_item_unpaired : tool_calls_dropped_on_save high")
	f("items: the call without its reasoning", responsesURL, items([]msg{thought, call(1)}, call(1), out(1)),
		"reasoning_item_unpaired : reasoning_stripped high")
	f("items: a turn is given up whose text an older message has", responsesURL, func(s *scene) {
		turn := func(n string) []msg {
			return []msg{
				{"type": "reasoning", "id": "rs_" + n, "encrypted_content": "e" + n, "summary": []msg{}},
				{"type": "message", "id": "msg_" + n, "role": "assistant", "content": []msg{{"type": "output_text", "text": "let me see"}}},
				{"type": "function_call", "id": "fc_" + n, "call_id": "call_" + n, "name": "f", "arguments": "{}"},
			}
		}
		more := append([]msg{user("u")}, append(turn("1"), msg{"type": "function_call_output", "call_id": "call_1", "output": "a"})...)
		s.at(turn("1"), user("u"))
		s.at(turn("2"), more...)
		s.at("x", append(slices.Clip(more), user("another way, please"))...)
	})
	f("items: a call goes on without its output", responsesURL, items([]msg{call(1)}, call(1), msg{"role": "user", "content": "well?"}),
		"missing_tool_reply call_1: tool_skipped_or_interrupted medium")
}

// A limit of parallel calls is certain once it shows in three conversations of a service, and then also for the first two of
// them when their defect is seen again.
func TestParallelCallsTruncated(t *testing.T) {
	f := func(name string, want []string, play func(s *scene)) {
		t.Helper()
		s := newScene(deepSeekURL)
		play(s)
		must.Agree(t, cmp.Diff(want, s.causes(t), cmpopts.SortSlices(func(a, b string) bool { return a < b })), name)
	}
	// in plays a conversation whose model makes calls; the first k have replies.
	in := func(s *scene, conversation string, k int, calls ...string) (history []msg) {
		s.labels.Conversation = conversation
		for i := range calls {
			calls[i] = fmt.Sprintf("call_%s%d %s", conversation, i+1, calls[i])
		}
		said := assistant("", calls...)
		history = []msg{system("s"), user("u " + conversation)}
		s.at(said, history...)
		history = append(history, said)
		for i := range k {
			id, _, _ := strings.Cut(calls[i], " ")
			history = append(history, tool(id, "ok"))
		}
		s.at("x", history...)
		return history
	}
	f("two conversations", []string{"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_b2: tool_skipped medium"}, func(s *scene) {
		in(s, "a", 1, "f", "g")
		in(s, "b", 1, "f", "h")
	})
	f("three conversations", []string{
		"missing_tool_reply call_a2: parallel_calls_truncated high", "missing_tool_reply call_b2: tool_skipped medium", "missing_tool_reply call_c2: parallel_calls_truncated high",
	}, func(s *scene) {
		a := in(s, "a", 1, "f", "g")
		in(s, "b", 1, "f", "h")
		in(s, "c", 1, "f", "g")
		s.labels.Conversation = "a"
		s.at("x", a...)
	})
	f("always the same call, of a tool that never runs", []string{
		"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_b2: tool_skipped medium", "missing_tool_reply call_c2: parallel_calls_truncated medium",
	}, func(s *scene) {
		in(s, "a", 1, "f", "g")
		in(s, "b", 1, "f", "g")
		in(s, "c", 1, "f", "g")
	})
	f("always the same calls, of tools that never run", []string{
		"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_a3: tool_skipped medium",
		"missing_tool_reply call_b2: tool_skipped medium", "missing_tool_reply call_b3: tool_skipped medium",
		"missing_tool_reply call_c2: parallel_calls_truncated high", "missing_tool_reply call_c3: parallel_calls_truncated high",
	}, func(s *scene) {
		in(s, "a", 1, "f", "g", "h")
		in(s, "b", 1, "f", "g", "h")
		in(s, "c", 1, "f", "g", "h")
	})
	f("always the same call, of a tool that does not run alone either", []string{
		"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_b2: tool_skipped medium", "missing_tool_reply call_c2: tool_skipped medium",
		"missing_tool_reply call_d1: tool_skipped medium",
	}, func(s *scene) {
		in(s, "d", 0, "g")
		in(s, "a", 1, "f", "g")
		in(s, "b", 1, "f", "g")
		in(s, "c", 1, "f", "g")
	})
	f("the last call of another conversation has a reply", []string{
		"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_b2: tool_skipped medium", "missing_tool_reply call_c2: tool_skipped medium",
		"missing_tool_reply call_d1: tool_skipped medium",
	}, func(s *scene) {
		s.labels.Conversation = "d"
		said := assistant("", "call_d1 g", "call_d2 f")
		s.at(said, user("u"))
		s.at("x", user("u"), said, tool("call_d2", "ok"))
		in(s, "a", 1, "f", "g")
		in(s, "b", 1, "f", "h")
		in(s, "c", 1, "f", "g")
	})
	f("another number of calls", []string{
		"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_b3: tool_skipped medium", "missing_tool_reply call_c2: tool_skipped medium",
	}, func(s *scene) {
		in(s, "a", 1, "f", "g")
		in(s, "b", 2, "f", "f", "h")
		in(s, "c", 1, "f", "g")
	})
	f("all calls of another conversation have replies", []string{
		"missing_tool_reply call_a2: tool_skipped medium", "missing_tool_reply call_b2: tool_skipped medium", "missing_tool_reply call_d2: tool_skipped medium",
	}, func(s *scene) {
		in(s, "a", 1, "f", "g")
		in(s, "b", 1, "f", "h")
		in(s, "c", 2, "f", "g")
		in(s, "d", 1, "f", "g")
	})
}
