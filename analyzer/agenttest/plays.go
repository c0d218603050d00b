package agenttest

import (
	"slices"
	"strings"
)

// dropCalls leaves out all calls. Items of reasoning without an item after them are left out too.
func (a *agent) dropCalls(m Message) []Message {
	if m.Calls = nil; m.Text == "" && a.Dialect == &responses {
		m.Thinking = ""
	}
	return []Message{m}
}

// skipOne leaves out a reply other than the last.
func (a *agent) skipOne(m Message) []Message {
	if n := len(m.Replies); n > 1 {
		i := a.rnd.IntN(n - 1)
		m.Replies = slices.Delete(m.Replies, i, i+1)
	}
	return []Message{m}
}

// restart begins a new process that continues the conversation.
func (a *agent) restart() {
	a.process()
	if a.labels.Run != "" {
		a.labels.Run = "run-" + random(a.rnd, alphanumeric, 8)
	}
}

// replies returns the index in the store of the replies to the answer of step i, which is stored undamaged.
func (a *agent) replies(i int) int {
	n := 0
	for j := 0; j <= i; j++ {
		n += len(a.run.Steps[j].Before) + 1
	}
	return n
}

// neverSaved returns the play of an agent that does not save an answer to a message of the role.
func neverSaved(role string) func(a *agent) bool {
	return func(a *agent) bool {
		if a.run.Steps[a.at].Before[0].Role != role {
			return false
		}
		return a.steps(hooks{save: func(Message) []Message { return nil }})
	}
}

// cut plays the run until it has at+2 steps, and sends only the system prompt, the first messages and the newest ones from then
// on, where the oldest of the newest is a reply.
func (a *agent) cut(first int) bool {
	var places []int // of messages with replies
	if !a.through(0, a.at+1, hooks{}) {
		return false
	}
	for i := first + 1; i < len(a.store); i++ {
		if a.store[i].Role == "tool" {
			places = append(places, i)
		}
	}
	if len(places) == 0 || first > 0 && !a.HasIDs && len(a.store[first-1].Calls) > 0 {
		return false // without ids, the reply may be one to the last call before the cut
	}
	from := places[a.rnd.IntN(len(places))]
	kept, part := 0, 0
	if n := len(a.store[from].Replies); n > 1 && !a.Wire.Descriptor().Pairing.Blocks && a.rnd.IntN(2) == 0 {
		part = 1 + a.rnd.IntN(n-1)
	}
	sliding := a.rnd.IntN(2) == 0
	a.broken = true
	a.through(a.at+1, len(a.run.Steps), hooks{load: func(_ int, store []Message) []Message {
		start := from
		if kept == 0 {
			kept = len(store) - from
		} else if sliding {
			start = len(store) - kept
		}
		list := slices.Clone(store[start:])
		if start == from && part > 0 {
			list[0] = list[0].clone()
			list[0].Replies = list[0].Replies[part:]
		}
		return append(slices.Clone(store[:first]), list...)
	}})
	return a.after > 0
}

// summarizes plays an agent that replaces the head of its history by a summary, up to a reply, which may be one that the model has
// not read yet. The summary is longer than what the model says beside its calls.
func summarizes(a *agent) bool {
	said := "Summary of the conversation so far: " + random(a.rnd, alphanumeric, 12) + strings.Repeat(" The user asked for several things, and some of them are done.", 1+a.rnd.IntN(3))
	user, model := userSays(said), Message{Role: "assistant", Text: said}
	thanks := Message{Role: "assistant", Text: "Thank you, I will continue from there."}
	first := a.run.Steps[0].Before[0]
	summary := [][]Message{{user}, {user, thanks}, {model}, {first, model}, {first, user}, {first, user, thanks}}[a.rnd.IntN(6)]
	a.through(0, len(a.run.Steps), hooks{load: func(i int, store []Message) []Message {
		if i != a.at+1 {
			return store
		}
		var places []int // of messages with replies
		for i := 2; i < len(store); i++ {
			if store[i].Role == "tool" {
				places = append(places, i)
			}
		}
		a.broken = true
		a.store = append(slices.Clone(summary), store[places[a.rnd.IntN(len(places))]:]...)
		return a.store
	}})
	return a.after > 0
}

// serverTools plays a run whose answer at step a.at has calls of a tool that the provider runs. They are left out, and their results
// stay, in all requests but the first later ones.
func (a *agent) serverTools(later int) bool {
	place, m := a.replies(a.at)-1, &a.run.Steps[a.at].Answer
	if m.Text == "" {
		m.Text = "This is what I found: " + random(a.rnd, alphanumeric, 20)
	}
	for range 1 + a.rnd.IntN(2) {
		m.Server = append(m.Server, random(a.rnd, alphanumeric, 22))
	}
	a.through(0, len(a.run.Steps), hooks{load: func(i int, store []Message) []Message {
		if i > a.at+later {
			a.broken = true
			store[place].NoUse = true
		}
		return store
	}})
	return a.after > 0
}

// cutPaused plays a run with an answer that was paused after the call of a server tool, whose result the next answer begins with.
// The history is cut between the two.
func (a *agent) cutPaused() bool {
	if !a.through(0, a.at, hooks{}) {
		return false
	}
	id := random(a.rnd, alphanumeric, 22)
	a.store = append(a.store, a.run.Steps[a.at].Before...)
	for _, m := range []Message{
		{Role: "assistant", Text: "Let me search: " + random(a.rnd, alphanumeric, 12), Server: []string{id}, Paused: true},
		{Role: "assistant", Text: "I found it: " + random(a.rnd, alphanumeric, 20), Server: []string{id}, NoUse: true},
	} {
		a.exchange(a.store, m, whole)
		a.store = append(a.store, m)
	}
	if !a.say(a.nudge()) {
		return false
	}
	cut := slices.IndexFunc(a.store, func(m Message) bool { return m.Paused }) + 1
	summary := userSays("Summary of the conversation so far: " + random(a.rnd, alphanumeric, 20))
	a.store = append([]Message{summary}, a.store[cut:]...)
	a.broken = true
	a.say(a.nudge())
	return a.after > 0
}

// forgetsMessage plays an agent whose storage lacks one message with calls, which shows when it loads the history.
func forgetsMessage(a *agent) bool {
	lost := a.replies(a.at) - 1
	if !slices.ContainsFunc(a.run.Steps[:a.at], func(s Step) bool { return len(s.Answer.Calls) > 0 }) {
		return false // without another call, the history may as well lack all calls
	}
	again := a.rnd.IntN(2) == 0
	a.through(0, len(a.run.Steps), hooks{load: func(i int, store []Message) []Message {
		if i < a.at+2 {
			return store
		}
		if again && !a.broken {
			a.restart()
		}
		a.broken = true
		return slices.Delete(store, lost, lost+1)
	}})
	return a.after > 0
}

// firstOfSeveral plays conversations in which only the first k of the calls of an answer are answered.
func firstOfSeveral(a *agent) bool {
	k := 1 + a.rnd.IntN(4)/3
	for n := range a.runs {
		a.begin(n)
		a.always = true // the agent has a limit
		a.at = slices.IndexFunc(a.run.Steps, func(s Step) bool { return len(s.Answer.Calls) > k })
		if a.at < 0 || a.at+1 == len(a.run.Steps) {
			return false
		}
		a.judged, a.broken, a.after = a.calls, false, 0
		if !a.steps(hooks{reply: func(m Message) []Message { m.Replies = m.Replies[:min(k, len(m.Replies))]; return []Message{m} }}) {
			return false
		}
	}
	return true
}

// renew gives the calls of the answers from step from on the ids of another provider.
func (a *agent) renew(from int, id func() string) {
	ids := map[string]string{}
	for i := from; i < len(a.run.Steps); i++ {
		s := &a.run.Steps[i]
		for _, m := range s.Before {
			for j := range m.Replies {
				if r := &m.Replies[j]; ids[r.ID] != "" {
					r.ID = ids[r.ID]
				}
			}
		}
		for j := range s.Answer.Calls {
			c := &s.Answer.Calls[j]
			ids[c.ID] = id()
			c.ID = ids[c.ID]
		}
	}
}

// switchProvider plays a run whose first steps another provider answered.
func switchProvider(a *agent) bool {
	target := a.Dialect
	switch target {
	case &openAI, &deepSeek:
		a.Thinks = target == &deepSeek
	case &anthropic:
		a.Dialect, a.IDs, a.Thinks = &openAI, "functions", false
	default:
		a.Dialect, a.Thinks = &openAI, false
	}
	a.begin(0)
	if a.Dialect == &openAI && target == &anthropic {
		a.host, a.model = "api.moonshot.ai/v1", "kimi-k2-0905-preview"
	}
	if a.at = a.choose(needs{loop: true}); a.at < 0 || !a.through(0, a.at+1, hooks{}) {
		return false
	}
	a.Dialect, a.model = target, target.model
	id := func() string { return a.callID(a.rnd) }
	switch target {
	case &openAI:
		a.host, a.model = "api.mistral.ai/v1", "mistral-large-latest"
		id = func() string { return random(a.rnd, alphanumeric, 9) }
	case &deepSeek:
		a.host, a.model = "api.groq.com/openai/v1", "llama-3.3-70b-versatile"
	case &anthropic:
		a.host = ""
	default:
		a.model = target.thinker
	}
	a.renew(a.at+1, id)
	a.broken = true
	a.through(a.at+1, len(a.run.Steps), hooks{})
	return a.after > 0
}

// twoWriters plays two requests at the same time. Each writes what it added to the history at its end.
func twoWriters(a *agent) bool {
	if !a.through(0, a.at, hooks{}) {
		return false
	}
	s := a.run.Steps[a.at]
	left := append(slices.Clone(a.store), s.Before...)
	interjection := a.nudge()
	right := append(slices.Clone(a.store), s.Before...)
	right = append(right, interjection)
	if s.Before[0].Role == "tool" {
		return false // the second writer begins with a message of the user
	}
	l := a.ask(left)
	r := a.ask(right)
	aside := Message{Role: "assistant", Text: "Let me see what the other one is doing: " + random(a.rnd, alphanumeric, 20)}
	a.end(l, s.Answer)
	a.end(r, aside)
	a.store = append(append(a.store, s.Before...), s.Answer, interjection, aside)
	a.store = append(a.store, a.run.Steps[a.at+1].Before[0])
	a.broken = true
	a.exchange(a.store, a.run.Steps[a.at+1].Answer, whole)
	return true
}
