package rulestest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/dialect"
	"github.com/llmtap/llmtap/ingest/recorded/recordedtest"
	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// A Mutation breaks a history at a site. Do returns the broken history, the atom whose message the finding must name,
// and the rules that may name it; ok is false where it does not apply.
type Mutation struct {
	Name string
	Do   func(d wire.Dialect, list []*Atom, s Site) (broken []*Atom, at *Atom, want []string, ok bool)
}

// A reply without its call is an orphan, or an unknown one where an earlier group is open.
var noCall = []string{"orphan_tool_reply", "unknown_tool_call_id"}

// Mutations contains the ways in which agents break histories.
var Mutations = []Mutation{
	{"drop tool_calls", func(_ wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		m := list[s.call].message
		first := slices.IndexFunc(list, func(a *Atom) bool { return a.kind == reply && a.id == list[s.call].id })
		out := without(list, func(_ int, a *Atom) bool { return a.message == m && a.kind == call })
		return out, list[first], noCall, slices.ContainsFunc(out, func(a *Atom) bool { return a.message == m })
	}},
	{"drop a reply", func(_ wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		return without(list, func(i int, _ *Atom) bool { return i == s.reply }), list[s.call], []string{"missing_tool_reply"}, true
	}},
	{"drop the calling assistant", func(_ wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		m := list[s.call].message
		return without(list, func(_ int, a *Atom) bool { return a.message == m }), list[s.reply], noCall, true
	}},
	{"duplicate a reply", func(_ wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		again := *list[s.reply]
		if again.raw[0] == '{' && list[s.reply].role == "tool" {
			again.message = -2
		}
		return slices.Insert(slices.Clone(list), s.reply+1, &again), &again, []string{"duplicate_tool_reply"}, true
	}},
	{"rename the call", func(d wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		out, _ := change(list, s.call, func(a *Atom) { rename(d, a, "renamed_by_hand") })
		return out, list[s.reply], []string{"unknown_tool_call_id"}, true
	}},
	{"rename the reply", func(d wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		out, at := change(list, s.reply, func(a *Atom) { rename(d, a, "renamed_by_hand") })
		return out, at, []string{"unknown_tool_call_id"}, true
	}},
	{"reply before its call", func(_ wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		early := *list[s.reply]
		early.message = -2
		first := slices.IndexFunc(list, func(a *Atom) bool { return a.message == list[s.call].message })
		out := slices.Insert(without(list, func(i int, _ *Atom) bool { return i == s.reply }), first, &early)
		return out, &early, []string{"tool_reply_before_call", "unknown_tool_call_id"}, true
	}},
	{"user message inside a group", func(d wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		out := slices.Clone(list)
		// What stood beside the reply in its message, and after it, is a message of its own now.
		for i := s.reply; i < len(out) && out[i].message == list[s.reply].message; i++ {
			out, _ = change(out, i, func(a *Atom) { a.message = -3 })
		}
		at := out[s.reply]
		return slices.Insert(out, s.reply, user(d)), at, []string{"late_tool_reply"}, true
	}},
	{"arguments of the wrong type", func(d wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		rule, ok := "arguments_not_string", false
		out, at := change(list, s.call, func(a *Atom) {
			ok = arguments(d, a, func(raw json.RawMessage) json.RawMessage {
				if d.Descriptor().Pairing.Blocks {
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
	{"arguments cut", func(d wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		ok := false
		out, at := change(list, s.call, func(a *Atom) {
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
	{"head truncated", func(_ wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		out := without(list, func(i int, a *Atom) bool { return i < s.reply && a.role != "system" && a.role != "developer" })
		return out, list[s.reply], []string{"orphan_tool_reply"}, true
	}},
	{"splice across turns", func(d wire.Dialect, list []*Atom, s Site) ([]*Atom, *Atom, []string, bool) {
		// Behind the last reply of the next group.
		next := -1
		for i := s.reply + 1; i < len(list) && next < 0; i++ {
			if list[i].kind == call && list[i].message != list[s.call].message {
				next = i
			}
		}
		// Where neighbours are one turn, calls that only this reply stood between may share their replies.
		if d != wire.OpenAIChat && next >= 0 && !slices.ContainsFunc(list[s.call:next], func(a *Atom) bool {
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
		return without(out, func(i int, _ *Atom) bool { return i == s.reply }), &late, []string{"late_tool_reply"}, true
	}},
}

// Recorded plays the recorded histories that a provider accepted and that hold all their messages.
func Recorded(t *testing.T, play func(d wire.Dialect, id string, messages json.RawMessage)) {
	t.Helper()
	formats := map[string]wire.Dialect{"openai.chat": wire.OpenAIChat, "openai.responses": wire.OpenAIResponses, "anthropic.messages": wire.Anthropic}
	recordedtest.Lines(t, recordedtest.Conversations, func(_ int, line []byte) {
		var x struct {
			ID, Format string
			Status     int
			Messages   json.RawMessage
			Previous   json.RawMessage `json:"previous_response_id"`
			State      json.RawMessage `json:"conversation_state"`
		}
		must.Do(t, json.Unmarshal(line, &x), "decode conversation")
		if d, ok := formats[x.Format]; ok && x.Status < 300 && len(x.Previous) == 0 && len(x.State) == 0 {
			play(d, x.ID, x.Messages)
		}
	})
}

// Generate makes a history of 2 to 5 turns with 2 to 8 parallel calls each.
func Generate(d wire.Dialect, r *rand.Rand) json.RawMessage {
	var all []any
	row, n := dialect.Of(d), 0
	for turn := range 2 + r.IntN(4) {
		all = append(all, said(d, "user", fmt.Sprintf("task %d", turn)))
		m, replies, look := dialect.Message{Role: "assistant"}, []dialect.Message{}, "I look."
		if row.Items == "" {
			m.Text = &look
		}
		for range 2 + r.IntN(7) {
			n++
			id, name, city := fmt.Sprintf("call_%d_%x", n, r.Uint32()), fmt.Sprintf("tool_%d", r.IntN(5)), map[string]any{"city": fmt.Sprint(r.IntN(99))}
			result := fmt.Sprintf("result %d", n)
			m.Calls = append(m.Calls, dialect.Call{ID: id, Name: name, Args: string(write(city))})
			replies = append(replies, dialect.Message{IsReply: true, ReplyTo: id, Text: &result})
		}
		r.Shuffle(len(replies), func(i, j int) { replies[i], replies[j] = replies[j], replies[i] })
		for _, o := range row.Message(&m, true) {
			all = append(all, o)
		}
		for i := range replies {
			o := row.Message(&replies[i], false)[0]
			if parts, ok := o["content"].([]dialect.Object); ok && i > 0 { // all replies are parts of one message
				last := all[len(all)-1].(dialect.Object)
				last["content"] = append(last["content"].([]dialect.Object), parts...)
				continue
			}
			all = append(all, o)
		}
		all = append(all, said(d, "assistant", "Done."))
	}
	all = append(all, said(d, "user", "Thanks."))
	return write(all)
}

func said(d wire.Dialect, role, text string) any {
	if d.Descriptor().Texts.Listed {
		return map[string]any{"role": role, "content": []any{part(d, text)}}
	}
	return map[string]any{"role": role, "content": text}
}
