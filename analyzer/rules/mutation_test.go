package rules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer/check"
	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/wire"
)

// A mutation breaks a history at a site. It returns the broken history, the atom whose message the finding must name,
// and the rules that may name it; ok is false where it does not apply.
type mutation struct {
	name string
	do   func(d wire.Dialect, list []*atom, s site) (broken []*atom, at *atom, want []string, ok bool)
}

// A reply without its call is an orphan, or an unknown one where an earlier group is open.
var noCall = []string{"orphan_tool_reply", "unknown_tool_call_id"}

var mutations = []mutation{
	{"drop tool_calls", func(_ wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		m := list[s.call].message
		first := slices.IndexFunc(list, func(a *atom) bool { return a.kind == reply && a.id == list[s.call].id })
		out := without(list, func(_ int, a *atom) bool { return a.message == m && a.kind == call })
		return out, list[first], noCall, slices.ContainsFunc(out, func(a *atom) bool { return a.message == m })
	}},
	{"drop a reply", func(_ wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		return without(list, func(i int, _ *atom) bool { return i == s.reply }), list[s.call], []string{"missing_tool_reply"}, true
	}},
	{"drop the calling assistant", func(_ wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		m := list[s.call].message
		return without(list, func(_ int, a *atom) bool { return a.message == m }), list[s.reply], noCall, true
	}},
	{"duplicate a reply", func(_ wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		again := *list[s.reply]
		if again.raw[0] == '{' && list[s.reply].role == "tool" {
			again.message = -2
		}
		return slices.Insert(slices.Clone(list), s.reply+1, &again), &again, []string{"duplicate_tool_reply"}, true
	}},
	{"rename the call", func(d wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		out, _ := change(list, s.call, func(a *atom) { rename(d, a, "renamed_by_hand") })
		return out, list[s.reply], []string{"unknown_tool_call_id"}, true
	}},
	{"rename the reply", func(d wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		out, at := change(list, s.reply, func(a *atom) { rename(d, a, "renamed_by_hand") })
		return out, at, []string{"unknown_tool_call_id"}, true
	}},
	{"reply before its call", func(_ wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		early := *list[s.reply]
		early.message = -2
		first := slices.IndexFunc(list, func(a *atom) bool { return a.message == list[s.call].message })
		out := slices.Insert(without(list, func(i int, _ *atom) bool { return i == s.reply }), first, &early)
		return out, &early, []string{"tool_reply_before_call", "unknown_tool_call_id"}, true
	}},
	{"user message inside a group", func(d wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		out := slices.Clone(list)
		// What stood beside the reply in its message, and after it, is a message of its own now.
		for i := s.reply; i < len(out) && out[i].message == list[s.reply].message; i++ {
			out, _ = change(out, i, func(a *atom) { a.message = -3 })
		}
		at := out[s.reply]
		return slices.Insert(out, s.reply, user(d)), at, []string{"late_tool_reply"}, true
	}},
	{"arguments of the wrong type", func(d wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		rule, ok := "arguments_not_string", false
		out, at := change(list, s.call, func(a *atom) {
			ok = arguments(d, a, func(raw json.RawMessage) json.RawMessage {
				if d == wire.Anthropic || d == wire.Bedrock {
					rule = "arguments_not_object"
					return write(string(raw))
				}
				var inside string
				if json.Unmarshal(raw, &inside) != nil || !strings.HasPrefix(inside, "{") || !json.Valid([]byte(inside)) {
					return nil
				}
				return json.RawMessage(inside)
			})
		})
		return out, at, []string{rule}, ok
	}},
	{"arguments cut", func(d wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		ok := false
		out, at := change(list, s.call, func(a *atom) {
			ok = arguments(d, a, func(raw json.RawMessage) json.RawMessage {
				var inside string
				if json.Unmarshal(raw, &inside) != nil || len(inside) < 2 {
					return nil
				}
				return write(strings.ToValidUTF8(inside[:len(inside)-1-len(inside)/3], ""))
			})
		})
		return out, at, []string{"arguments_invalid_json"}, ok
	}},
	{"head truncated", func(_ wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		out := without(list, func(i int, a *atom) bool { return i < s.reply && a.role != "system" && a.role != "developer" })
		return out, list[s.reply], []string{"orphan_tool_reply"}, true
	}},
	{"splice across turns", func(d wire.Dialect, list []*atom, s site) ([]*atom, *atom, []string, bool) {
		// Behind the last reply of the next group.
		next := -1
		for i := s.reply + 1; i < len(list) && next < 0; i++ {
			if list[i].kind == call && list[i].message != list[s.call].message {
				next = i
			}
		}
		// Where neighbours are one turn, calls that only this reply stood between may share their replies.
		if d != wire.OpenAIChat && next >= 0 && !slices.ContainsFunc(list[s.call:next], func(a *atom) bool {
			return a != list[s.reply] && (a.kind == reply || a.kind == other && a.role == "user")
		}) {
			return nil, nil, nil, false
		}
		for next >= 0 && next < len(list) && list[next].kind != reply {
			next++
		}
		if next < 0 || next == len(list) {
			return nil, nil, nil, false
		}
		for next < len(list) && list[next].kind == reply {
			next++
		}
		late := *list[s.reply]
		late.message = -2
		out := slices.Insert(slices.Clone(list), next, &late)
		return without(out, func(i int, _ *atom) bool { return i == s.reply }), &late, []string{"late_tool_reply"}, true
	}},
}

// TestMutations breaks recorded conversations that use tools, and generated ones with parallel calls, in all the ways
// that agents do. At least 99.5 % of the faults must be found, by their rule and at their message, and no history may be
// found at fault before.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short: one goroutine, and slow under the race detector")
	}
	r := rand.New(rand.NewPCG(4, 2))
	s := suite{t: t, checker: check.NewChecker(InOrder), r: r, tried: map[string]int{}, missed: map[string]int{}}
	t.Run("generated", func(t *testing.T) {
		s.t = t
		for _, d := range []wire.Dialect{wire.OpenAIChat, wire.OpenAIResponses, wire.Anthropic, wire.Bedrock} {
			for i := range 500 {
				s.play(d, fmt.Sprintf("generated %s %d", d, i), generate(d, r))
			}
		}
		s.report()
	})
	t.Run("recorded", func(t *testing.T) {
		s.t = t
		formats := map[string]wire.Dialect{"openai.chat": wire.OpenAIChat, "openai.responses": wire.OpenAIResponses, "anthropic.messages": wire.Anthropic}
		recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
			var x struct {
				ID, Format string
				Status     int
				Messages   json.RawMessage
				Previous   json.RawMessage `json:"previous_response_id"`
				State      json.RawMessage `json:"conversation_state"`
			}
			if err := json.Unmarshal(line, &x); err != nil {
				t.Fatalf("decode conversation: %v", err)
			}
			if d, ok := formats[x.Format]; ok && x.Status < 300 && len(x.Previous) == 0 && len(x.State) == 0 {
				s.play(d, x.ID, x.Messages)
			}
		})
		s.report()
	})
}

type suite struct {
	t             *testing.T
	checker       *check.Checker
	r             *rand.Rand
	facts         facts.Request
	tried, missed map[string]int
	histories     int
}

// maxSites bounds the sites at which one history is broken.
const maxSites = 4

func (s *suite) play(d wire.Dialect, id string, messages json.RawMessage) {
	list, ok := atoms(d, messages)
	if !ok {
		return
	}
	all := sites(list)
	if len(all) == 0 {
		return
	}
	whole, _ := render(d, list)
	if found := s.findings(d, whole); slices.ContainsFunc(found, func(v check.Violation) bool { return v.Predicted == check.Reject }) {
		return // broken as it was recorded; TestAcceptedTraffic judges that
	}
	s.histories++
	s.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, at := range all[:min(len(all), maxSites)] {
		for _, m := range mutations {
			broken, where, want, ok := m.do(d, list, at)
			if !ok {
				continue
			}
			body, index := render(d, broken)
			found := s.findings(d, body)
			name := string(d) + ": " + m.name
			s.tried[name]++
			if slices.ContainsFunc(found, func(v check.Violation) bool {
				return v.Message == index[where] && slices.Contains(want, v.Rule.ID)
			}) {
				continue
			}
			if s.missed[name]++; s.missed[name] <= 2 {
				var got []string
				for _, v := range found {
					got = append(got, fmt.Sprintf("%s@%d", v.Rule.ID, v.Message))
				}
				s.t.Logf("%s: %s of %s: want one of %v at message %d, found %v", id, m.name, list[at.call], want, index[where], got)
			}
		}
	}
}

func (s *suite) findings(d wire.Dialect, messages json.RawMessage) []check.Violation {
	if err := facts.ScanMessages(d, messages, &s.facts); err != nil {
		s.t.Fatalf("scan %s: %v", d, err)
	}
	return s.checker.Check(&s.facts, wire.Target{Dialect: d, Variant: d.Variants()[0]}, nil)
}

func (s *suite) report() {
	s.t.Helper()
	tried, missed := 0, 0
	for name, n := range s.tried {
		tried, missed = tried+n, missed+s.missed[name]
		if s.missed[name] > 0 {
			s.t.Logf("%-50s %d of %d missed", name, s.missed[name], n)
		}
	}
	s.t.Logf("%d histories, %d faults, %d not found: %.2f %%", s.histories, tried, missed, 100*float64(tried-missed)/float64(max(tried, 1)))
	if tried == 0 || missed*200 > tried {
		s.t.Errorf("%d of %d faults not found", missed, tried)
	}
	clear(s.tried)
	clear(s.missed)
	s.histories = 0
}

// generate makes a history of 2 to 5 turns with 2 to 8 parallel calls each.
func generate(d wire.Dialect, r *rand.Rand) json.RawMessage {
	var all []any
	n := 0
	for turn := range 2 + r.IntN(4) {
		all = append(all, said(d, "user", fmt.Sprintf("task %d", turn)))
		calls, replies := []any{}, []any{}
		for range 2 + r.IntN(7) {
			n++
			id, name, city := fmt.Sprintf("call_%d_%x", n, r.Uint32()), fmt.Sprintf("tool_%d", r.IntN(5)), map[string]any{"city": fmt.Sprint(r.IntN(99))}
			args := string(write(city))
			result := fmt.Sprintf("result %d", n)
			switch d {
			case wire.OpenAIChat:
				calls = append(calls, map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": args}})
				replies = append(replies, map[string]any{"role": "tool", "tool_call_id": id, "content": result})
			case wire.OpenAIResponses:
				calls = append(calls, map[string]any{"type": "function_call", "call_id": id, "name": name, "arguments": args})
				replies = append(replies, map[string]any{"type": "function_call_output", "call_id": id, "output": result})
			case wire.Anthropic:
				calls = append(calls, map[string]any{"type": "tool_use", "id": id, "name": name, "input": city})
				replies = append(replies, map[string]any{"type": "tool_result", "tool_use_id": id, "content": result})
			default:
				calls = append(calls, map[string]any{"toolUse": map[string]any{"toolUseId": id, "name": name, "input": city}})
				replies = append(replies, map[string]any{"toolResult": map[string]any{"toolUseId": id, "content": []any{map[string]any{"text": result}}}})
			}
		}
		r.Shuffle(len(replies), func(i, j int) { replies[i], replies[j] = replies[j], replies[i] })
		switch d {
		case wire.OpenAIChat:
			all = append(all, map[string]any{"role": "assistant", "content": "I look.", "tool_calls": calls})
			all = append(all, replies...)
		case wire.OpenAIResponses:
			all = append(append(all, calls...), replies...)
		case wire.Anthropic:
			calls = append([]any{map[string]any{"type": "text", "text": "I look."}}, calls...)
			all = append(all, map[string]any{"role": "assistant", "content": calls}, map[string]any{"role": "user", "content": replies})
		default:
			calls = append([]any{map[string]any{"text": "I look."}}, calls...)
			all = append(all, map[string]any{"role": "assistant", "content": calls}, map[string]any{"role": "user", "content": replies})
		}
		all = append(all, said(d, "assistant", "Done."))
	}
	all = append(all, said(d, "user", "Thanks."))
	return write(all)
}

func said(d wire.Dialect, role, text string) any {
	if d == wire.Bedrock {
		return map[string]any{"role": role, "content": []any{map[string]any{"text": text}}}
	}
	return map[string]any{"role": role, "content": text}
}
