package analyzer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/analyzer"
	"github.com/llmtap/llmtap/ingest/event"
)

// talker is one of many conversations that take turns on one connection.
type talker struct {
	turns []func(s *stream) string // each is one exchange, and returns its id
}

// linked plays the talkers' turns in random order, without conversation ids, and compares the inferred conversations with
// the true ones.
func linked(t *testing.T, what string, talkers []talker, seed uint64) {
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
	if missing*10 > turns-len(talkers) {
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
		linked(t, what, talkers, 3)
	}
	f("unique call ids", idStyles[:1])
	f("all kinds of call ids, one first message in ten conversations", idStyles)
}

// The same with recorded conversations of one system prompt, two of which share a call id.
func TestInterleavedRecordings(t *testing.T) {
	var talkers []talker
	recordedConversations(t, func(_ int, c *recorded) {
		if len(talkers) == 200 || c.Format != "openai.chat" || !strings.Contains(string(c.Messages[0]), "Agent Policy") {
			return
		}
		var w talker
		c.play(func(url string, request, answer []byte) {
			w.turns = append(w.turns, func(s *stream) string {
				id := s.exchange()
				s.add(&event.Event{Kind: event.Request, Exchange: id, URL: url, Method: "POST", Body: request})
				s.response(id, 200, answer)
				return id
			})
		})
		if len(w.turns) > 0 {
			talkers = append(talkers, w)
		}
	})
	linked(t, "recorded", talkers, 4)
}
