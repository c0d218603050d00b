package analyzer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/slowtest"
)

// talker is one of many conversations that take turns on one connection.
type talker struct {
	turns []func(s *stream) string // each is one exchange, and returns its id
}

// linked plays the talkers' turns in random order, without conversation ids, and compares the inferred conversations with
// the true ones. allowed is the percentage of links that may be missing.
func linked(t *testing.T, what string, talkers []talker, seed uint64, allowed int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 2))
	s := newStream("")
	owner, turns := map[string]int{}, 0
	var open []int
	for i := range talkers {
		open = append(open, i)
	}
	for len(open) > 0 {
		k := rnd.IntN(len(open))
		who := &talkers[open[k]]
		owner[who.turns[0](s)] = open[k]
		turns++
		if who.turns = who.turns[1:]; len(who.turns) == 0 {
			open[k] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		s.now = s.now.Add(-2e9 + 2e7) // 200 conversations at once, within the look-back
	}
	exchanges, _, _ := latest(run(t, analyzer.Default(), s.steps))
	is := map[string]int{} // the true conversation of a found one
	parts := map[int]map[string]bool{}
	wrong := 0
	for id, e := range exchanges {
		true_, known := is[e.Conversation]
		if known && true_ != owner[id] {
			wrong++
			t.Errorf("%s: exchange %s of conversation %d is linked to conversation %d (%s)", what, id, owner[id], true_, e.Conversation)
		}
		is[e.Conversation] = owner[id]
		if parts[owner[id]] == nil {
			parts[owner[id]] = map[string]bool{}
		}
		parts[owner[id]][e.Conversation] = true
	}
	missing := 0
	for _, p := range parts {
		missing += len(p) - 1
	}
	t.Logf("%s: %d conversations, %d turns, %d links; %d wrong, %d missing", what, len(talkers), turns, turns-len(talkers), wrong, missing)
	if missing*100 > allowed*(turns-len(talkers)) {
		t.Errorf("%s: %d of %d links are missing", what, missing, turns-len(talkers))
	}
}

// Forms of call ids.
var idStyles = []func(rnd *rand.Rand, turn int) string{
	func(rnd *rand.Rand, _ int) string { return fmt.Sprintf("call_%016x%08x", rnd.Uint64(), rnd.Uint32()) },
	func(_ *rand.Rand, turn int) string { return fmt.Sprintf("call_%d", turn) },
	func(_ *rand.Rand, turn int) string { return fmt.Sprintf("functions.read_file:%d", turn) },
}

// Two hundred conversations take turns without ids. Half of them have one system prompt, many the same first message, and
// their servers restart the numbering of calls in each.
func TestInterleavedConversations(t *testing.T) {
	f := func(what string, styles []func(*rand.Rand, int) string) {
		t.Helper()
		rnd := rand.New(rand.NewPCG(7, 7))
		var talkers []talker
		for i := range 200 {
			h := []msg{system("You are a careful assistant."), user(fmt.Sprintf("Read file %d.", i%20))}
			if i%2 == 0 {
				h[0] = system(fmt.Sprintf("You work for customer %d.", i))
			}
			style := styles[i%len(styles)]
			var w talker
			for turn := range 4 + rnd.IntN(8) {
				said := assistant(fmt.Sprintf("I have looked at it and found %d lines of interest.", rnd.IntN(1000)))
				next := user(fmt.Sprintf("And %d?", rnd.IntN(1000)))
				if turn%2 == 0 {
					id := style(rnd, turn)
					said, next = assistant("", id+" read_file"), tool(id, fmt.Sprint("result ", rnd.Uint32()))
				}
				sent := h
				w.turns = append(w.turns, func(s *stream) string { return s.ok(said, sent...) })
				h = append(slices.Clip(h), said, next)
			}
			talkers = append(talkers, w)
		}
		linked(t, what, talkers, 3, 10)
	}
	f("unique call ids", idStyles[:1])
	f("all kinds of call ids, one first message in ten conversations", idStyles)
}

// The same with recorded conversations of one system prompt, two of which share a call id, and with those of all other
// sources that do not start alike: of agents that send answers back unchanged, and of agents that do not.
func TestInterleavedRecordings(t *testing.T) {
	slowtest.Skip(t)
	var shared, all []*recorded
	first := map[string]int{}
	recordedConversations(t, func(_ int, c *recorded) {
		if c.Format == "openai.chat" && strings.Contains(string(c.Messages[0]), "Agent Policy") {
			shared = append(shared, c)
			return
		}
		start := string(c.Messages[0])
		if len(c.Messages) > 1 && strings.Contains(start, `"system"`) {
			start = string(c.Messages[1])
		}
		if n, ok := first[start]; !ok {
			first[start] = len(all)
			all = append(all, c)
		} else if len(c.Messages) > len(all[n].Messages) { // the same conversation, recorded again
			all[n] = c
		}
	})
	f := func(what string, of []*recorded, missing int, agent func(c *recorded, w *talker)) {
		t.Helper()
		for n := 0; n < len(of); n += 200 {
			var talkers []talker
			for _, c := range of[n:min(n+200, len(of))] {
				var w talker
				if agent(c, &w); len(w.turns) > 0 {
					talkers = append(talkers, w)
				}
			}
			linked(t, what, talkers, 4, missing)
		}
	}
	f("recorded, one system prompt", shared, 10, (*recorded).unchanged)
	f("recorded, other sources", all, 15, (*recorded).unchanged)
	if testing.Short() {
		return
	}
	f("results of structured outputs, one system prompt", shared, 5, (*recorded).structured)
	f("results of structured outputs, other sources", all, 15, (*recorded).structured)
	f("each answer is first refused by the agent, one system prompt", shared, 5, (*recorded).validated)
	f("each answer is first refused by the agent, other sources", all, 10, (*recorded).validated)
	f("calls with new ids, one system prompt", shared, 5, (*recorded).renamed)
	f("calls with new ids, other sources", all, 20, (*recorded).renamed)
	f("a first message that changes each turn, one system prompt", shared, 30, (*recorded).rewritten)
	f("a first message that changes each turn, other sources", all, 90, (*recorded).rewritten)
}

// exchange adds an exchange to the turns of w.
func (w *talker) exchange(url string, request, answer []byte) {
	w.turns = append(w.turns, func(s *stream) string {
		id := s.exchange()
		s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: request})
		s.response(id, 200, answer)
		return id
	})
}

// unchanged plays c as an agent that sends answers back unchanged.
func (c *recorded) unchanged(w *talker) { c.play(w.exchange) }

// structured plays c as an agent whose model answers texts as the arguments of a call, of which the agent saves only the text.
func (c *recorded) structured(w *talker) {
	c.play(func(url string, request, answer []byte) {
		w.exchange(url, request, wrapped(answer, fmt.Sprintf("call_Zk%dQx7Lw2mP9Vb4TnR8s", len(w.turns))))
	})
}

// wrapped returns a chat completion with its text as the arguments of a call; other answers are unchanged.
func wrapped(answer []byte, id string) []byte {
	var r struct {
		Choices []struct{ Message msg }
	}
	if json.Unmarshal(answer, &r) != nil || len(r.Choices) != 1 || r.Choices[0].Message["tool_calls"] != nil {
		return answer
	}
	call := msg{"id": id, "type": "function", "function": msg{"name": "final_result", "arguments": string(body(msg{"text": r.Choices[0].Message["content"]}))}}
	return body(msg{"id": id, "choices": []msg{{"index": 0, "message": msg{"role": "assistant", "content": nil, "tool_calls": []msg{call}}, "finish_reason": "tool_calls"}}})
}

// validated plays c as an agent that first discards each answer and repeats the request with what is wrong.
func (c *recorded) validated(w *talker) {
	c.play(func(url string, request, answer []byte) {
		w.exchange(url, request, []byte(`{"id":"r","choices":[{"index":0,"message":{"role":"assistant","content":"maybe"},"finish_reason":"stop"}]}`))
		var r map[string]json.RawMessage
		field := "messages"
		if c.Format == "openai.responses" {
			field = "input"
		}
		var history []json.RawMessage
		if json.Unmarshal(request, &r) != nil || json.Unmarshal(r[field], &history) != nil {
			return
		}
		r[field] = body(append(history, json.RawMessage(`{"role":"user","content":"That is no valid JSON. Try again."}`)))
		w.exchange(url, body(r), answer)
	})
}

var callID = regexp.MustCompile(`"(tool_call_id|call_id|tool_use_id|id)": ?"([^"]+)"`)

// renamed plays c as an agent that gives calls new ids.
func (c *recorded) renamed(w *talker) {
	c.play(func(url string, request, answer []byte) {
		w.exchange(url, callID.ReplaceAll(request, []byte(`"$1":"own_$2"`)), answer)
	})
}

// rewritten plays c as an agent that puts the number of the turn into the first message, with ids like call_0.
func (c *recorded) rewritten(w *talker) {
	c.play(func(url string, request, answer []byte) {
		var r map[string]json.RawMessage
		var history []msg
		if c.Format != "openai.chat" || json.Unmarshal(request, &r) != nil || json.Unmarshal(r["messages"], &history) != nil || len(history) == 0 {
			return
		}
		ids := map[string]string{}
		short := func(id any) string {
			k := fmt.Sprint(id)
			if ids[k] == "" {
				ids[k] = fmt.Sprint("call_", len(ids))
			}
			return ids[k]
		}
		shorten := func(m msg) {
			if id := m["tool_call_id"]; id != nil {
				m["tool_call_id"] = short(id)
			}
			calls, _ := m["tool_calls"].([]any)
			for _, k := range calls {
				if k, ok := k.(map[string]any); ok {
					k["id"] = short(k["id"])
				}
			}
		}
		for _, m := range history {
			shorten(m)
		}
		for _, m := range history {
			if m["role"] == "user" {
				m["content"] = fmt.Sprintf("Turn %d. %v", len(w.turns), m["content"])
				break
			}
		}
		r["messages"] = body(history)
		var a struct {
			ID      string           `json:"id"`
			Choices []map[string]any `json:"choices"`
		}
		if json.Unmarshal(answer, &a) != nil {
			return
		}
		for _, k := range a.Choices {
			if m, ok := k["message"].(map[string]any); ok {
				shorten(m)
			}
		}
		w.exchange(url, body(r), body(a))
	})
}
