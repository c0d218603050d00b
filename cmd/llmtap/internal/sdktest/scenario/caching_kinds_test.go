package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/analyzer/promptcache"
)

// A cachingKind is a kind of agents that break the cache in one way, or of healthy ones.
type cachingKind struct {
	name    string
	in      string // dialects; "": all
	healthy bool
	noID    bool // conversations are told apart by their ids only
	play    func(r *cachingRun)
}

func (k *cachingKind) plays(d *cachingDialect) bool {
	return k.in == "" || slices.Contains(strings.Fields(k.in), d.name)
}

// talk makes 2 to 4 calls without a fault.
func talk(a *longAgent) {
	for range 2 + a.rng.IntN(3) {
		a.step()
	}
}

// conversation returns an agent that has talked.
func conversation(r *cachingRun) *longAgent {
	a := r.agent("conversation")
	talk(a)
	return a
}

// brokenCaching break the cache.
var brokenCaching = []*cachingKind{
	{name: "a tool is added", play: func(r *cachingRun) {
		a := conversation(r)
		i := r.rng.IntN(len(a.tools) + 1)
		a.tools = slices.Insert(slices.Clone(a.tools), i, r.tool(8)) // BUG: tools are loaded when they are needed first
		a.expect(promptcache.ToolsChanged, at(i))
		talk(a)
	}},
	{name: "a tool is removed", play: func(r *cachingRun) {
		a := conversation(r)
		i := r.rng.IntN(len(a.tools))
		a.tools = slices.Delete(slices.Clone(a.tools), i, i+1) // BUG: a server of tools is away for a while
		a.expect(promptcache.ToolsChanged, at(i))
		talk(a)
	}},
	{name: "a tool is declared otherwise", play: func(r *cachingRun) {
		a := conversation(r)
		i := r.rng.IntN(len(a.tools))
		a.tools = slices.Clone(a.tools)
		a.tools[i].description += " There are " + fmt.Sprint(r.rng.IntN(90)+10) + " files." // BUG: a number that changes
		a.expect(promptcache.ToolsChanged, at(i))
		talk(a)
	}},
	{name: "tools are in another order", play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.step()
		seen := map[string]bool{fmt.Sprint(a.tools): true}
		for range 2 + r.rng.IntN(3) {
			before := a.tools
			for a.tools = slices.Clone(before); seen[fmt.Sprint(a.tools)]; { // BUG: the tools come from a set
				r.rng.Shuffle(len(a.tools), func(i, j int) { a.tools[i], a.tools[j] = a.tools[j], a.tools[i] })
			}
			seen[fmt.Sprint(a.tools)] = true
			first := 0
			for before[first] == a.tools[first] {
				first++
			}
			a.expect(promptcache.ToolsReordered, "tools", at(first))
			a.step()
		}
	}},
	inSystem("the time is in the system prompt", promptcache.DetailTime, func(r *cachingRun) string {
		return "It is " + r.now.Format([]string{time.RFC3339, "2006-01-02 15:04:05", "Mon Jan 2 15:04:05 2006", "15:04:05"}[len(r.id)%4]) + " now."
	}),
	inSystem("a uuid is in the system prompt", promptcache.DetailUUID, func(r *cachingRun) string {
		return fmt.Sprintf("The request is %08x-%04x-4%03x-a%03x-%012x.", r.rng.Uint32(), r.rng.Uint32()>>16, r.rng.IntN(4096), r.rng.IntN(4096), r.rng.Uint64()>>16)
	}),
	inSystem("a counter is in the system prompt", promptcache.DetailCounter, func(r *cachingRun) string {
		return fmt.Sprintf("This is step %d of the task.", len(r.calls)+1)
	}),
	inSystem("an object is in the system prompt, with its keys in any order", promptcache.DetailKeyOrder, func(r *cachingRun) string {
		keys := []string{`"plan":"gold"`, `"region":"eu"`, `"seats":12`, `"currency":"EUR"`, `"trial":false`, `"owner":"team a"`, `"since":"May"`, `"open":3`}
		n := len(r.calls) % len(keys) // so that no order is there twice
		return "The account is {" + strings.Join(slices.Concat(keys[n:], keys[:n]), ",") + "}."
	}),
	{name: "the date in the system prompt changes", play: func(r *cachingRun) {
		onceInSystem(r, promptcache.DetailDate, "Today is 2026-11-02.", "Today is 2026-11-03.")
	}},
	{name: "a user's data is in the system prompt", play: func(r *cachingRun) {
		words := []string{"You speak with %s <%s>.", "Customer: %s, %s", "You are talking to %s (%s).", "The user's name is %s, the address is %s."}[r.rng.IntN(4)]
		onceInSystem(r, promptcache.DetailUser, fmt.Sprintf(words, "Anna Berg", "anna.berg@example.com"), fmt.Sprintf(words, "Tom Okafor", "tom@example.org"))
	}},
	{name: "an old message is edited", play: func(r *cachingRun) {
		a := conversation(r)
		a.step()
		i := r.rng.IntN(len(a.turns) - 3)
		a.turns = slices.Clone(a.turns)
		t := &a.turns[i]
		switch {
		case len(t.results) > 0:
			t.results = slices.Clone(t.results)
			t.results[0].text = "[read] " + t.results[0].text // BUG: replies of tools get a note when the agent has read them
		case len(t.calls) > 0:
			t.calls = slices.Clone(t.calls)
			t.calls[0].Arguments = strings.Replace(t.calls[0].Arguments, `":"`, `": "`, 1) // BUG: arguments are parsed and written again
			t.calls[0].Arguments = strings.Replace(t.calls[0].Arguments, ` "}`, `"}`, 1)
		default:
			t.text = "[seen] " + t.text // BUG: messages get a note when they are stored
		}
		a.expect(promptcache.MessageEdited, a.element(i))
		talk(a)
	}},
	{name: "the model is switched", play: func(r *cachingRun) {
		a := conversation(r)
		a.model = r.models[1] // BUG: a cheaper model takes over a conversation that is cached
		a.expect(promptcache.ModelSwitched)
		talk(a)
	}},
	{name: "the key of another account", play: func(r *cachingRun) {
		a := conversation(r)
		r.pause(15 * time.Second) // DeepSeek may take seconds to write a cache, so that a miss before shows nothing
		a.key = a.key + "-other"  // BUG: keys take turns
		a.expect(promptcache.AccountChanged)
		talk(a)
	}},
	{name: "thinking is switched on", in: "anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		a.extra = row{"thinking": row{"type": "enabled", "budget_tokens": 1024}} // BUG: for hard questions
		a.expect(promptcache.ParameterChanged, "thinking")
		talk(a)
	}},
	{name: "tool_choice changes", in: "anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		a.extra = row{"tool_choice": row{"type": []string{"any", "none"}[r.rng.IntN(2)]}} // BUG: for the last answer
		a.expect(promptcache.ParameterChanged, "tool_choice")
		talk(a)
	}},
	{name: "the first image", in: "anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		a.stepWith(0)
		a.turns[len(a.turns)-1].image = "iVBORw0KGgo" + strings.Repeat("A", 400)
		a.expect(promptcache.ParameterChanged, "images", a.element(len(a.turns)-1))
		talk(a)
	}},
	{name: "the response format changes", in: "openai anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		schema := row{"type": "object", "properties": row{"answer": row{"type": "string"}}}
		if r.name == "openai" { // BUG: for the last answer
			a.extra = row{"response_format": row{"type": "json_schema", "json_schema": row{"name": "answer", "schema": schema}}}
		} else {
			a.extra = row{"output_config": row{"format": row{"type": "json_schema", "schema": schema}}}
		}
		a.expect(promptcache.ParameterChanged, "response_format", "output_config", "output_config.format")
		talk(a)
	}},
	{name: "the effort changes", in: "openai", play: func(r *cachingRun) {
		a := conversation(r)
		a.extra = row{"reasoning_effort": "low"} // BUG: less thought for the easy steps
		a.expect(promptcache.ParameterChanged, "reasoning_effort", "effort")
		talk(a)
	}},
	{name: "nothing is marked", in: "anthropic", play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.markSystem, a.markLast = false, false // BUG: the client adds no marks
		a.step()
		for range 2 + r.rng.IntN(4) {
			a.expect(promptcache.MarkMissing)
			a.step()
		}
	}},
	{name: "the marks are lost", in: "anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		a.markSystem, a.markLast = false, false // BUG: after a retry the marks are missing
		a.expect(promptcache.MarkMissing)
		a.step()
	}},
	{name: "the marks leave out the messages", in: "anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		a.markLast = false // BUG: only the system prompt is marked from here on
		a.expect(promptcache.MarkMoved)
		a.step()
	}},
	{name: "more blocks than are looked back", in: "anthropic", play: func(r *cachingRun) {
		a := conversation(r)
		a.stepWith(11 + r.rng.IntN(8)) // BUG: the marks do not move along with many calls
		a.expect(promptcache.BeyondLookback)
		talk(a)
	}},
	{name: "no prompt_cache_key", in: "openai", noID: true, play: func(r *cachingRun) {
		first := r.agent("conversation 0")
		list := []*longAgent{first}
		for i := range 11 {
			list = append(list, first.other(fmt.Sprint("conversation ", i+1)))
		}
		for range 4 + r.rng.IntN(3) {
			for _, a := range list { // BUG: many calls a minute of one prefix
				a.expect(promptcache.RoutingMissing)
				a.may = true
				quick(a)
			}
		}
	}},
	{name: "each conversation has a prompt of its own", noID: true, play: func(r *cachingRun) {
		first := r.agent("conversation 0")
		fixed := first.system[0] + r.words(1000) // most of what could be shared, which shapes do not show otherwise
		names := []string{"Anna Berg", "Tom Okafor", "Li Wei", "Maria Santos", "Jonas Keller", "Aisha Khan", "Petr Novak", "Emma Dubois", "Raj Patel", "Noah Smith"}
		for i := range 6 + r.rng.IntN(8) {
			a := first.other(fmt.Sprint("conversation ", i))
			name := names[i%len(names)]
			a.system = []string{fmt.Sprintf("You help %s, customer %d, who is with us since %d. ", name, 10000+r.rng.IntN(80000), 1990+r.rng.IntN(35)) + fixed} // BUG: before what all share
			if i > 0 {
				a.expect(promptcache.Varies)
				a.may = true
			}
			talk(a)
		}
	}},
}

func at(tool int) string { return fmt.Sprintf("tools[%d]", tool) }

// quick makes a call with a short pause.
func quick(a *longAgent) {
	before := a.time()
	a.stepWith(0)
	a.lock.Lock()
	a.now = before.Add(time.Duration(1+a.rng.IntN(2)) * time.Second)
	a.lock.Unlock()
}

// insert puts a line at the beginning, in the middle or at the end of the system prompt.
func insert(system, line string, place int) string {
	i := []int{0, strings.Index(system[len(system)/2:], " ") + len(system)/2 + 1, len(system)}[place]
	return strings.TrimSpace(system[:i] + "\n" + line + "\n" + system[i:])
}

// inSystem is an agent with a text in its system prompt that changes with each call.
func inSystem(name, detail string, text func(r *cachingRun) string) *cachingKind {
	return &cachingKind{name: name, play: func(r *cachingRun) {
		a := r.agent("conversation")
		fixed, place := a.system[0], r.rng.IntN(3)
		for i := range 4 + r.rng.IntN(4) {
			a.system = []string{insert(fixed, text(r), place)} // BUG: should be in the last message
			if i > 0 {
				a.want = &broken{promptcache.SystemChanged, []string{"system"}, detail}
			}
			a.step()
		}
	}}
}

// onceInSystem is an agent with a text in its system prompt that changes once.
func onceInSystem(r *cachingRun, detail, before, after string) {
	a := r.agent("conversation")
	fixed, place := a.system[0], r.rng.IntN(3)
	a.system = []string{insert(fixed, before, place)}
	talk(a)
	a.system = []string{insert(fixed, after, place)} // BUG: should be in the last message
	a.want = &broken{promptcache.SystemChanged, []string{"system"}, detail}
	talk(a)
}

// toldCaching lose the cache without a fault of the agent, which is told and never alarmed.
var toldCaching = []*cachingKind{
	{name: "the history is compacted", play: func(r *cachingRun) {
		a := conversation(r)
		talk(a)
		n := len(a.turns)
		a.turns = append([]longTurn{{role: "user", text: "What happened so far: " + a.words(a.long*300)}, {role: "assistant", text: "I know."}}, a.turns[n-1])
		if len(a.turns[2].results) > 0 { // its call is gone
			a.turns[2] = longTurn{role: "user", text: a.words(a.long * 200)}
		}
		a.expect(promptcache.HistoryCompacted)
		talk(a)
	}},
	{name: "old messages are cut", play: func(r *cachingRun) {
		a := conversation(r)
		talk(a)
		sent := len(a.turns) - 2
		for i := 2; i < len(a.turns); i++ {
			if t := a.turns[i]; t.role == "user" && len(t.results) == 0 {
				a.keeps(a.turns[min(i, sent):sent])
				a.turns = slices.Clone(a.turns[i:])
				break
			}
		}
		a.expect(promptcache.HistoryCompacted)
		a.step()
	}},
	{name: "old replies of tools are cleared", play: func(r *cachingRun) {
		a := r.agent("conversation")
		for range 4 {
			a.stepWith(1 + r.rng.IntN(2))
		}
		a.turns = slices.Clone(a.turns)
		for _, i := range []int{2, 4} {
			t := &a.turns[i]
			t.results = slices.Clone(t.results)
			for j := range t.results {
				t.results[j].text = "[cleared]"
			}
		}
		a.keeps(a.turns[3 : len(a.turns)-2])
		a.expect(promptcache.HistoryCompacted)
		a.step()
	}},
	{name: "too short", in: "openai anthropic gemini", play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.tools = nil
		a.system = []string{"Be brief, " + r.id + "."}
		a.turns[0].text = "Hello there."
		said := a.draft(0)
		said.Text = "Hi."
		a.send(said)
		for range 3 {
			a.turns = append(a.turns, longTurn{role: "assistant", text: "Hi."}, longTurn{role: "user", text: "How are you " + fmt.Sprint(r.rng.IntN(99)) + "?"})
			a.expect(promptcache.TooShort)
			a.may = true // nothing was there to be read
			a.send(said)
		}
	}},
	{name: "idle", play: func(r *cachingRun) {
		a := conversation(r)
		pause := 11*time.Minute + time.Duration(r.rng.IntN(180))*time.Minute
		switch {
		case r.name == "anthropic" && r.rng.IntN(2) == 0:
			a.ttl = "1h"
			pause += time.Hour
			talk(a) // now marked for an hour
		case r.name == "deepseek":
			pause += 25 * time.Hour
		}
		r.pause(pause)
		a.expect(promptcache.Idle)
		talk(a)
	}},
	{name: "parallel first calls", noID: true, play: func(r *cachingRun) {
		a := r.agent("conversation 0")
		list := []*longAgent{a}
		same := r.name == "deepseek" || r.rng.IntN(2) == 0
		for i := range 1 + r.rng.IntN(4) {
			b := a.other(fmt.Sprint("conversation ", i+1))
			if same { // several answers to one question
				b.turns = slices.Clone(a.turns)
			}
			b.expect(promptcache.Parallel)
			list = append(list, b)
		}
		r.together(list...)
		for _, b := range list {
			b.step()
		}
	}},
	{name: "evicted at random", play: func(r *cachingRun) {
		r.caches(0.2)
		a := r.agent("conversation")
		for range 10 {
			a.expect(promptcache.Evicted)
			a.may = true
			a.step()
		}
	}},
}

// healthyCaching are agents without a fault, some of which look as if they had one.
var healthyCaching = []*cachingKind{
	{name: "a conversation", healthy: true, play: func(r *cachingRun) {
		a := conversation(r)
		talk(a)
		talk(a)
	}},
	{name: "retries", healthy: true, play: func(r *cachingRun) {
		a := conversation(r)
		r.down = true
		for range 1 + r.rng.IntN(3) {
			a.send(a.draft(0))
		}
		r.down = false
		talk(a)
		said := a.draft(0)
		a.send(said) // the answer was lost on its way
		r.pause(2 * time.Second)
		a.send(said)
		a.took(said)
		talk(a)
	}},
	{name: "a branch", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.stepWith(0)
		a.stepWith(0)
		b := a.branch()
		talk(a)
		b.turns = b.turns[:len(b.turns)-1] // the user asks something else
		b.asks()
		talk(b)
		talk(a)
	}},
	{name: "an answer is asked for again", healthy: true, play: func(r *cachingRun) {
		a := conversation(r)
		b := a.branch()
		a.step()
		b.step() // from the same place
		talk(b)
	}},
	{name: "a sub-agent in the same conversation", healthy: true, noID: true, play: func(r *cachingRun) {
		a := conversation(r)
		for range 2 {
			sub := r.agent(a.conversation)
			if r.rng.IntN(2) == 0 {
				sub.stage = "researcher"
			}
			talk(sub)
			talk(a)
		}
	}},
	{name: "keys of one organization take turns", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		account := a.key
		for i := range 8 {
			a.key = fmt.Sprint(account, ".", i%3)
			a.step()
		}
	}},
	{name: "each customer has an account", healthy: true, noID: true, play: func(r *cachingRun) {
		first := r.agent("conversation 0")
		list := []*longAgent{first}
		for i := range 4 {
			a := first.other(fmt.Sprint("conversation ", i+1))
			a.key += fmt.Sprint("-", i)
			list = append(list, a)
		}
		for range 4 {
			for _, a := range list {
				a.step()
			}
		}
	}},
	{name: "conversations of one prompt", healthy: true, noID: true, play: func(r *cachingRun) {
		a := r.agent("conversation 0")
		list := []*longAgent{a, a.other("conversation 1"), a.other("conversation 2")}
		for range 6 + r.rng.IntN(5) {
			list[r.rng.IntN(3)].step()
		}
	}},
	{name: "resumed soon", healthy: true, play: func(r *cachingRun) {
		a := conversation(r)
		r.pause(time.Duration(1+r.rng.IntN(3)) * time.Minute)
		b := a.branch()
		b.hook = r.hooks[1] // another process
		talk(b)
	}},
	{name: "other parameters change", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		for i := range 6 {
			switch r.name {
			case "gemini":
				a.extra = row{"generationConfig": row{"temperature": float64(i) / 10, "maxOutputTokens": 1000 + i}}
			case "anthropic":
				a.extra = row{"temperature": float64(i) / 10, "max_tokens": 1000 + i, "metadata": row{"user_id": fmt.Sprint("user-", i)}}
			default:
				a.extra = row{"temperature": float64(i) / 10, "max_tokens": 1000 + i, "user": fmt.Sprint("user-", i)}
			}
			a.stream = r.rng.IntN(2) == 0
			a.step()
		}
	}},
	{name: "the time is in the last message", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		for range 6 {
			if t := &a.turns[len(a.turns)-1]; len(t.results) == 0 {
				t.text = "It is " + r.now.Format(time.RFC3339) + ". " + t.text
			}
			a.step()
		}
	}},
	{name: "a new prompt for new conversations", healthy: true, noID: true, play: func(r *cachingRun) {
		a := r.agent("conversation 0")
		talk(a)
		b := a.other("conversation 1")
		talk(b)
		c := r.agent("conversation 2") // a new version
		c.tools = a.tools
		talk(c)
		talk(c.other("conversation 3"))
		talk(a)
	}},
	{name: "marked automatically", in: "anthropic", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.markSystem, a.markLast = false, false
		a.extra = row{"cache_control": row{"type": "ephemeral"}}
		talk(a)
		talk(a)
	}},
	{name: "marked for an hour", in: "anthropic", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.ttl = "1h"
		talk(a)
		r.pause(time.Duration(6+r.rng.IntN(50)) * time.Minute)
		talk(a)
	}},
	{name: "allowed tools change", in: "openai", healthy: true, play: func(r *cachingRun) {
		a := conversation(r)
		a.extra = row{
			"tool_choice": row{"type": "allowed_tools", "allowed_tools": row{"mode": "auto", "tools": []row{{"type": "function", "function": row{"name": a.tools[0].name}}}}},
			"metadata":    row{"asked": r.now.Format(time.RFC3339)},
		}
		talk(a)
	}},
	{name: "images from the start", in: "anthropic openai", healthy: true, play: func(r *cachingRun) {
		a := r.agent("conversation")
		a.turns[0].image = "iVBORw0KGgo" + strings.Repeat("A", 400)
		talk(a)
		talk(a)
	}},
	{name: "with prompt_cache_key", in: "openai", healthy: true, noID: true, play: func(r *cachingRun) {
		first := r.agent("conversation 0")
		list := []*longAgent{first}
		for i := range 11 {
			list = append(list, first.other(fmt.Sprint("conversation ", i+1)))
		}
		for i, a := range list {
			a.extra["prompt_cache_key"] = fmt.Sprint(r.id, i)
		}
		for range 4 {
			for _, a := range list {
				quick(a)
			}
		}
	}},
}
