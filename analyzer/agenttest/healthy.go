package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/llmtap/llmtap/analyzer/session"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// sends returns a kind's play for an agent that changes what it sends of its store.
func sends(f func(a *agent, i int, store []Message) []Message) func(a *agent) bool {
	return func(a *agent) bool {
		a.through(0, len(a.run.Steps), hooks{load: func(i int, store []Message) []Message { return f(a, i, store) }})
		return true
	}
}

// Healthy are agents without a bug.
var Healthy = []*Kind{
	{Name: "unchanged", play: sends(func(_ *agent, _ int, store []Message) []Message { return store })},
	{
		Name: "cache mark moves", only: []*Dialect{&anthropic, &bedrock},
		play: sends(func(_ *agent, _ int, store []Message) []Message {
			for i := max(0, len(store)-2); i < len(store); i++ {
				store[i].Cache = true
			}
			return store
		}),
	},
	{
		Name: "system prompt with the time",
		play: sends(func(a *agent, _ int, store []Message) []Message {
			a.system = a.run.System + "\nThe time is " + a.now.Format(time.RFC3339)
			return store
		}),
	},
	{
		Name: "arguments serialized again",
		play: sends(func(_ *agent, _ int, store []Message) []Message {
			for i := range store {
				store[i] = store[i].clone()
				for j := range store[i].Calls {
					c := &store[i].Calls[j]
					c.Args = reordered(c.Args)
				}
			}
			return store
		}),
	},
	{
		Name: "content written in another way",
		play: sends(func(a *agent, i int, store []Message) []Message {
			for j := range store {
				m := &store[j]
				switch {
				case m.Text != "" && m.Role != "tool":
					m.Content = []content{plain, blocks}[i%2]
				case a.Dialect == &openAI:
					m.Content = []content{plain, null, absent}[a.rnd.IntN(3)]
				}
			}
			return store
		}),
	},
	{
		Name: "prompt written anew",
		play: func(a *agent) bool {
			a.anew = true
			return a.through(0, len(a.run.Steps), hooks{})
		},
	},
	{
		Name: "history kept by the provider", only: []*Dialect{&responses},
		play: func(a *agent) bool {
			a.chained = true
			return a.through(0, len(a.run.Steps), hooks{})
		},
	},
	{
		Name: "tools that are no functions", only: []*Dialect{&responses},
		play: func(a *agent) bool {
			tool := map[string]string{} // by call id
			for i := range a.run.Steps {
				s := &a.run.Steps[i]
				for _, m := range s.Before {
					for k := range m.Replies {
						m.Replies[k].Tool = tool[m.Replies[k].ID]
					}
				}
				for k := range s.Answer.Calls {
					c := &s.Answer.Calls[k]
					c.Tool = otherTools[a.rnd.IntN(len(otherTools))]
					tool[c.ID] = c.Tool
				}
			}
			return a.through(0, len(a.run.Steps), hooks{})
		},
	},
	{
		Name: "answer texts shortened",
		play: sends(func(_ *agent, _ int, store []Message) []Message {
			for i := range store {
				if m := &store[i]; m.Role == "assistant" && len(m.Text) > 20 {
					m.Text = pieces(m.Text, len(m.Text)/2)[0]
				}
			}
			return store
		}),
	},
	{Name: "answer cancelled", needs: needs{streams: true}, play: cancels},
	{Name: "history compacted between turns", play: compacts},
	{Name: "sub-agents", needs: needs{runs: 2}, play: subAgents},
	{Name: "failed calls retried", play: retries},
	{
		Name: "parallel replies in another order", needs: needs{parallel: true},
		play: sends(func(_ *agent, _ int, store []Message) []Message {
			for i := range store {
				store[i] = store[i].clone()
				slices.Reverse(store[i].Replies)
			}
			return store
		}),
	},
	{
		// That the model does so is true; it is no bug of the agent, and these providers accept it.
		Name: "model reuses ids in each turn", Also: []string{session.DuplicateIDFromModel}, only: []*Dialect{&openAI, &gemini},
		play: func(a *agent) bool {
			if a.Dialect == &openAI {
				a.host, a.model = "api.moonshot.ai/v1", "kimi-k2-0905-preview"
			}
			ids := map[string]string{}
			for i := range a.run.Steps {
				s := &a.run.Steps[i]
				for _, m := range s.Before {
					for k := range m.Replies {
						m.Replies[k].ID = ids[m.Replies[k].ID]
					}
				}
				for k := range s.Answer.Calls {
					c := &s.Answer.Calls[k]
					short := fmt.Sprintf("functions.%s:%d", c.Name, k)
					ids[c.ID], c.ID = short, short
				}
			}
			return a.through(0, len(a.run.Steps), hooks{})
		},
	},
	{
		// The id of a call to Gemini is optional, and older models give none.
		Name: "agent numbers calls in each turn", only: []*Dialect{&geminiNoIDs},
		play: sends(func(_ *agent, _ int, store []Message) []Message {
			for i := range store {
				store[i] = store[i].clone()
				for j := range store[i].Calls {
					store[i].Calls[j].ID = fmt.Sprint("call_", j)
				}
				for j := range store[i].Replies {
					store[i].Replies[j].ID = fmt.Sprint("call_", j)
				}
			}
			return store
		}),
	},
	{
		Name: "another process resumes",
		play: sends(func(a *agent, i int, store []Message) []Message {
			if i == a.at+1 {
				a.restart()
			}
			return store
		}),
	},
	{
		Name: "structured output",
		play: func(a *agent) bool {
			a.force = a.run.Steps[a.at].Answer.Calls[0].Name
			s := a.run.Steps[a.at]
			s.Answer.Calls = s.Answer.Calls[:1]
			if s.Before = s.Before[len(s.Before)-1:]; s.Before[0].Role == "tool" {
				s.Before = a.run.Steps[0].Before
			}
			a.through(0, 0, hooks{})
			a.exchange(s.Before, s.Answer, whole)
			a.force = ""
			a.run = &Run{Source: a.run.Source, System: a.run.System, Steps: a.run.Steps}
			a.say(userSays("Summarize: " + string(s.Answer.Calls[0].Args)))
			return true
		},
	},
	{Name: "two users with one prompt", needs: needs{runs: 2}, play: twoUsers},
	{
		Name: "ends with a call",
		play: func(a *agent) bool {
			a.through(0, a.at+1, hooks{})
			return true
		},
	},
	{
		Name: "older reasoning dropped", needs: needs{reasons: true}, not: []*Dialect{&responses, &bedrock},
		play: sends(func(a *agent, _ int, store []Message) []Message {
			turn := 0 // the last message of the user
			for i := range store {
				if store[i].Role == "user" {
					turn = i
				}
			}
			for i := range store[:turn] {
				store[i] = store[i].clone()
				store[i].Thinking = ""
				for j := range store[i].Calls {
					store[i].Calls[j].Signature = ""
				}
			}
			return store
		}),
	},
	{
		Name: "images",
		play: sends(func(_ *agent, _ int, store []Message) []Message {
			for i := range store {
				if store[i].Role == "user" {
					store[i].Files = []string{"image"}
				}
			}
			return store
		}),
	},
	{Name: "earlier turn edited", play: forks},
	{Name: "answer generated again", play: func(a *agent) bool {
		a.through(0, a.at, hooks{})
		a.store = append(a.store, a.run.Steps[a.at].Before...)
		first := a.prepare(&Run{Steps: []Step{{Answer: a.run.Steps[a.at].Answer}}}).Steps[0].Answer
		a.exchange(a.store, first, whole)
		a.store = a.store[:len(a.store)-len(a.run.Steps[a.at].Before)]
		return a.through(a.at, len(a.run.Steps), hooks{})
	}},
	{
		// Reasoning belongs to the first call, so a model that reasons may refuse the others.
		Name: "calls and replies in pairs", needs: needs{parallel: true, plain: true},
		play: sends(func(_ *agent, _ int, store []Message) (list []Message) {
			for i := 0; i < len(store); i++ {
				m := store[i]
				if len(m.Calls) < 2 || i+1 == len(store) {
					list = append(list, m)
					continue
				}
				i++
				for j := range m.Calls {
					part, reply := m.clone(), store[i].clone()
					part.Calls, reply.Replies = m.Calls[j:j+1], reply.Replies[j:j+1]
					if j > 0 {
						part.Text, part.Thinking = "", ""
					}
					list = append(list, part, reply)
				}
			}
			return list
		}),
	},
}

// reordered returns an object with its members in reverse order and other white space.
func reordered(raw json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		panic("BUG: arguments are no object")
	}
	var names []string
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Reverse(names)
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %s", marshal(name), members[name])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// compacts plays an agent that replaces the head of its history by a summary, up to a message of the user or a message with
// calls.
func compacts(a *agent) bool {
	a.through(0, a.at+1, hooks{})
	var places []int
	for i := 2; i < len(a.store); i++ {
		if a.store[i].Role == "user" || len(a.store[i].Calls) > 0 {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return false
	}
	from := places[a.rnd.IntN(len(places))]
	summary := []Message{userSays("Summary of the conversation so far: the user asked for several things, and some of them are done.")}
	if a.store[from].Role == "user" {
		summary = append(summary, Message{Role: "assistant", Text: "Thank you, I will continue from there."})
	}
	a.store = append(summary, a.store[from:]...)
	a.through(a.at+1, len(a.run.Steps), hooks{})
	return true
}

// subAgents plays a run whose tool call is the run of another agent, in the same conversation and process.
func subAgents(a *agent) bool {
	if !a.through(0, a.at+1, hooks{}) {
		return false
	}
	outer, run, system, at, instance, labels := a.store, a.run, a.system, a.at, a.instance, a.labels
	a.begin(1)
	a.instance, a.labels, a.system = instance, labels, "You are a sub-agent. "+a.system
	a.through(0, len(a.run.Steps), hooks{})
	a.store, a.run, a.system, a.at = outer, run, system, at
	return a.through(at+1, len(run.Steps), hooks{})
}

// retries plays a run in which requests fail and are sent again.
func retries(a *agent) bool {
	a.through(0, len(a.run.Steps), hooks{load: func(_ int, store []Message) []Message {
		for a.rnd.IntN(3) == 0 {
			if a.rnd.IntN(2) == 0 {
				a.fail(a.ask(store), 500, "The server had an error while processing your request.")
			} else {
				a.fail(a.ask(store), 429, "Rate limit reached.")
			}
		}
		return store
	}})
	return true
}

// cancels plays a run in which the agent cancels an answer with calls, and the user writes next.
func cancels(a *agent) bool {
	a.through(0, a.at, hooks{})
	s := a.run.Steps[a.at]
	a.store = append(a.store, s.Before...)
	p := a.ask(a.store)
	contentType, body := a.answer(&p.r, &s.Answer, streamCut)
	a.respond(p, 200, contentType, body).Error = event.ErrorCancelled
	if s.Before[len(s.Before)-1].Role == "user" {
		a.store = a.store[:len(a.store)-1]
	}
	return a.say(userSays("No, wait: " + random(a.rnd, alphanumeric, 12)))
}

// twoUsers plays one run for two users, whose requests alternate, and whose answers differ.
func twoUsers(a *agent) bool {
	a.runs[1] = a.runs[0]
	n := 2 + a.rnd.IntN(4)
	var stores [2][]Message
	var runs [2]*Run
	labels := a.labels
	for u := range 2 {
		runs[u] = a.prepare(a.runs[0])
		for i := range runs[u].Steps {
			if m := &runs[u].Steps[i].Answer; m.Text != "" {
				m.Text += fmt.Sprintf(" (%s)", random(a.rnd, alphanumeric, 6))
			}
		}
	}
	for i := range min(n, len(runs[0].Steps)) {
		for u := range 2 {
			a.run, a.store, a.labels = runs[u], stores[u], labels
			if a.Conversation {
				a.labels.Conversation += fmt.Sprint("-", u)
			}
			a.through(i, i+1, hooks{})
			stores[u] = a.store
		}
	}
	return true
}

// forks plays a run whose user edits an earlier message, from which the conversation continues.
func forks(a *agent) bool {
	if !a.through(0, a.at+2, hooks{}) {
		return false
	}
	var places []int
	for i, m := range a.store {
		if m.Role == "user" {
			places = append(places, i)
		}
	}
	a.store = slices.Clone(a.store[:places[a.rnd.IntN(len(places))]])
	a.say(userSays("I meant something else: " + random(a.rnd, alphanumeric, 12)))
	a.say(a.nudge())
	return true
}
