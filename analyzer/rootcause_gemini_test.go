package analyzer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const gemini3URL = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro-preview:generateContent"

// geminiScene plays contents that are written as "u text", "m f1 f2" and "r f1=text f2=text": f1 is a call of the function f
// with the arguments {"n": 1}, f1=text is its reply. A model's text is written as "m 'text' f1". The first call of a message
// has a signature unless the message begins with "m-", or with "m$", which sends the arguments as strings.
type geminiScene struct {
	*stream
	instance          string
	answered, sending bool // whether answers and requests have call ids
	sent              []string
}

func (s *geminiScene) content(line string, ids bool) msg {
	kind, rest, _ := strings.Cut(line, " ")
	var parts []msg
	if kind == "u" {
		return msg{"role": "user", "parts": []msg{{"text": rest}}}
	}
	if text, after, ok := strings.Cut(strings.TrimPrefix(rest, "'"), "'"); ok {
		parts, rest = append(parts, msg{"text": text}), after
	}
	signed := kind == "m"
	for token := range strings.FieldsSeq(rest) {
		call, reply, _ := strings.Cut(token, "=")
		name, n := strings.TrimRight(call, "0123456789"), strings.TrimLeft(call, "abcdefghijklmnopqrstuvwxyz")
		id := func(m msg) msg {
			if ids {
				m["id"] = "fc-7Hk20Qz8L4-" + n
			}
			return m
		}
		if kind == "r" {
			parts = append(parts, msg{"functionResponse": id(msg{"name": name, "response": msg{"result": reply}})})
			continue
		}
		var args any = msg{"n": n}
		if kind == "m$" {
			args = string(body(args))
		}
		part := msg{"functionCall": id(msg{"name": name, "args": args})}
		if signed {
			part["thoughtSignature"] = "c2lnbmF0dXJl"
		}
		signed, parts = false, append(parts, part)
	}
	role := "model"
	if kind == "r" {
		role = "user"
	}
	return msg{"role": role, "parts": parts}
}

func (s *geminiScene) at(answer string, history ...string) {
	s.sent = history
	var contents []msg
	for _, line := range history {
		contents = append(contents, s.content(line, s.sending))
	}
	id := s.exchange()
	s.add(&event.Event{Kind: event.Request, Exchange: id, URL: gemini3URL, Method: "POST", Body: body(msg{"contents": contents})}).Instance = s.instance
	if answer == "" {
		s.response(id, 400, fault("Request contains an invalid argument.")).Instance = s.instance
		return
	}
	s.response(id, 200, body(msg{"candidates": []msg{{"content": s.content(answer, s.answered), "finishReason": "STOP"}}})).Instance = s.instance
}

// Each root cause in Gemini's dialect, where calls may have no ids and the same function is called again and again.
func TestGeminiRootCauses(t *testing.T) {
	f := func(name string, play func(s *geminiScene), want ...string) {
		t.Helper()
		for mode := range 4 {
			s := &geminiScene{
				stream: &stream{now: epoch, url: gemini3URL, labels: event.Labels{Service: "s", Conversation: "c"}}, instance: "i1",
				answered: mode&1 != 0, sending: mode&2 != 0,
			}
			play(s)
			surplus := "duplicate_tool_reply:" // a reply to a call that is gone looks like a second one, unless its id tells
			if s.sending {
				surplus = "unknown_tool_call_id:"
			}
			want := slices.Clone(want)
			if !s.sending { // a call without an id cannot share it, and a reply fits any call of its function
				want = slices.DeleteFunc(want, func(s string) bool {
					return strings.HasPrefix(s, "duplicate_call_id_") || strings.HasPrefix(s, "with ids: ")
				})
			}
			for i := range want {
				want[i] = strings.TrimPrefix(strings.Replace(want[i], "surplus:", surplus, 1), "with ids: ")
			}
			failed := false
			check := func(when string) {
				t.Helper()
				if failed {
					return
				}
				var got []string
				for _, line := range (&scene{stream: s.stream}).causes(t) {
					rule, rest, _ := strings.Cut(line, " ")
					_, root, _ := strings.Cut(rest, ": ")
					got = append(got, rule+": "+root)
				}
				less := func(a, b string) bool { return a < b }
				if diff := cmp.Diff(want, got, cmpopts.SortSlices(less), cmpopts.EquateEmpty()); diff != "" {
					failed = true
					t.Errorf("%s, ids in answers: %t, in requests: %t%s (-want +got):\n%s", name, s.answered, s.sending, when, diff)
				}
			}
			check("")
			s.at("", s.sent...)
			check(", sent again")
			s.at("", append(slices.Clip(s.sent), "m 'sorry'", "u well?")...)
			check(", a turn later")
		}
	}
	// The same function was called and answered before: one turn of three messages.
	before := []string{"u go", "m f1", "r f1=a"}
	h := func(more ...string) []string { return append(before[:3:3], more...) }
	start := func(s *geminiScene, answer string) {
		s.at("m f1", "u go")
		s.at(answer, h()...)
	}
	// rejected plays an answer, and a rejected request that continues with these messages.
	rejected := func(answer string, then ...string) func(s *geminiScene) {
		return func(s *geminiScene) {
			start(s, answer)
			s.at("", h(then...)...)
		}
	}
	f("healthy", func(s *geminiScene) {
		start(s, "m f2")
		s.at("m f3 f4", h("m f2", "r f2=b")...)
		s.at("m 'ok'", h("m f2", "r f2=b", "m f3 f4", "r f3=c f4=d")...)
	})
	f("calls dropped, text kept", rejected("m 'I look again.' f2", "m 'I look again.'", "r f2=b"),
		"orphan_tool_reply: tool_calls_dropped_on_save high")
	f("one of two calls dropped", rejected("m f2 f3", "m f2", "r f2=b f3=c"), "surplus: tool_calls_dropped_on_save high")
	f("one of two calls to different functions dropped", rejected("m f2 g3", "m f2", "r f2=b g3=c"),
		"unknown_tool_call_id: tool_calls_dropped_on_save high")
	f("the first of two calls dropped", rejected("m f2 f3", "m- f3", "r f2=b f3=c"),
		"surplus: tool_calls_dropped_on_save high", "thought_signature_missing: tool_calls_dropped_on_save high")
	f("head cut", func(s *geminiScene) {
		start(s, "m f2")
		s.at("m f3", h("m f2", "r f2=b")...)
		s.at("", "r f2=b", "m f3", "r f3=c")
	}, "orphan_tool_reply: history_truncated_mid_pair high")
	f("middle cut", func(s *geminiScene) {
		start(s, "m f2")
		s.at("m f3", h("m f2", "r f2=b")...)
		s.at("m 'x'", h("m f2", "r f2=b", "m f3", "r f3=c")...)
		s.at("", "u go", "r f2=b", "m f3", "r f3=c", "m 'x'", "u more")
	}, "orphan_tool_reply: history_truncated_mid_pair high")
	f("tail cut", func(s *geminiScene) {
		start(s, "m f2")
		s.at("m 'x'", h("m f2", "r f2=b")...)
		s.at("", h("m f2", "u more")...)
	}, "missing_tool_reply: history_truncated_mid_pair high")
	f("skipped", rejected("m f2 g3", "m f2 g3", "r f2=b"), "missing_tool_reply: tool_skipped medium")
	f("skipped, another function", rejected("m f2 g3", "m f2 g3", "r g3=c"), "missing_tool_reply: tool_skipped medium")
	f("the user goes on", rejected("m f2", "m f2", "u well?"), "missing_tool_reply: tool_skipped_or_interrupted medium")
	f("another process goes on", func(s *geminiScene) {
		start(s, "m f2")
		s.instance = "i2"
		s.at("", h("m f2", "u well?")...)
	}, "missing_tool_reply: crash_between_call_and_reply medium")
	f("one reply, again by the next process", func(s *geminiScene) {
		start(s, "m f2")
		s.at("", h("m f2", "r f2=b")...)
		s.instance = "i2"
		s.at("", h("m f2", "r f2=b", "r f2=b")...)
	}, "duplicate_tool_reply: duplicate_reply high")
	f("the same reply twice", rejected("m f2", "m f2", "r f2=b f2=b"), "duplicate_tool_reply: duplicate_reply medium")
	f("two replies, one other", rejected("m f2", "m f2", "r f2=b f2=c"), "duplicate_tool_reply: duplicate_reply medium")
	f("one of two parallel calls answered twice", rejected("m f2 f3", "m f2 f3", "r f2=b f2=b f3=c"), "duplicate_tool_reply: duplicate_reply medium")
	f("a message between", rejected("m f2", "m f2", "u Be brief.", "r f2=b"),
		"late_tool_reply: interleaved_injection medium", "missing_tool_reply: interleaved_injection medium")
	f("a message between, an older call of the function open", func(s *geminiScene) {
		s.at("m f1", "u go")
		s.at("m f2", "u go", "m f1", "u skip it")
		s.at("", "u go", "m f1", "u skip it", "m f2", "u Be brief.", "r f2=b")
	}, "late_tool_reply: interleaved_injection medium", "missing_tool_reply: interleaved_injection medium",
		"missing_tool_reply: tool_skipped_or_interrupted medium")
	f("a turn appended twice", rejected("m f2", "m f2", "m f2", "r f2=b"),
		"duplicate_call_id_in_message: turn_appended_twice high", "missing_tool_reply: turn_appended_twice high", "role_alternation_broken: ")
	f("arguments as a string", rejected("m f2 f3", "m$ f2 f3", "r f2=b f3=c"),
		"arguments_not_object: arguments_sent_as_string high", "arguments_not_object: arguments_sent_as_string high", "thought_signature_missing: reasoning_stripped high")
	f("signature stripped", rejected("m f2 f3", "m- f2 f3", "r f2=b f3=c"), "thought_signature_missing: reasoning_stripped high")
	f("signatures of all turns stripped", func(s *geminiScene) {
		start(s, "m f2")
		s.at("", "u go", "m- f1", "r f1=a", "m- f2", "r f2=b")
	}, "thought_signature_missing: reasoning_stripped high", "thought_signature_missing: reasoning_stripped high")
	f("replies before their call", func(s *geminiScene) {
		start(s, "m 'so' f2")
		s.at("", "u go", "m f1", "r f1=a", "u hm", "r f2=b", "m 'so' f2")
	}, "tool_reply_before_call: history_reordered high", "missing_tool_reply: history_reordered high")
	f("replies before their calls, turn after turn", func(s *geminiScene) {
		start(s, "m f2")
		s.at("m f3", h("r f2=b", "m f2")...)
		s.at("", h("r f2=b", "m f2", "r f3=c", "m f3")...)
	}, "surplus: history_reordered high", "with ids: unknown_tool_call_id: history_reordered high",
		"missing_tool_reply: history_reordered high", "missing_tool_reply: history_reordered high")
	f("head cut, equal replies", func(s *geminiScene) {
		start(s, "m f2")
		s.at("m f3", h("m f2", "r f2=[]")...)
		s.at("", "r f2=[]", "m f3", "r f3=[]")
	}, "orphan_tool_reply: history_truncated_mid_pair high")
	f("replies from storage without their calls", func(s *geminiScene) {
		start(s, "m 'done'")
		s.instance = "i2"
		s.at("", "u go", "r f1=a", "m 'done'", "u again")
	}, "orphan_tool_reply: replayed_history_without_binding medium")
	f("an answer in a loop never saved", rejected("m f2", "r f2=b"), "surplus: tool_calls_dropped_on_save high")
}
