package agenttest

import (
	"slices"
	"strings"

	"github.com/llmtap/llmtap/analyzer/session"
)

// stores returns a kind's play for an agent that damages an answer when it saves it.
func stores(f func(a *agent, m Message) []Message) func(a *agent) bool {
	return func(a *agent) bool {
		return a.steps(hooks{save: func(m Message) []Message { return f(a, m) }})
	}
}

// changes is stores for an agent that changes each call.
func changes(f func(a *agent, c *Call)) func(a *agent) bool {
	return stores(func(a *agent, m Message) []Message {
		for i := range m.Calls {
			f(a, &m.Calls[i])
		}
		return []Message{m}
	})
}

// replies returns a kind's play for an agent that damages the replies to an answer.
func replies(f func(a *agent, m Message) []Message) func(a *agent) bool {
	return func(a *agent) bool {
		return a.steps(hooks{reply: func(m Message) []Message { return f(a, m) }})
	}
}

// unlinked is the reason why a request cannot be known to continue a conversation of which it repeats neither an answer nor what
// preceded it.
func unlinked(v *Variant) string {
	switch {
	case v.IDs == "random" || v.Conversation:
		return ""
	case v.IDs == "digits":
		return "a number links requests only together with what preceded the call"
	}
	return "calls without ids, or with short ones, do not link requests"
}

// Gemini accepts calls and replies without ids.
var byName = []*Dialect{&gemini, &geminiNoIDs}

// servers have tools that the provider runs, with calls and results in the history.
var servers = []*Dialect{&anthropic, &gemini, &geminiNoIDs}

var chats = []*Dialect{&openAI, &deepSeek}

// Broken are agents with a bug.
var Broken = []*Kind{
	{
		Name: "calls dropped on save", Causes: []string{session.CallsDropped}, class: orphan,
		play: stores(func(a *agent, m Message) []Message { return a.dropCalls(m) }),
	},
	{
		Name: "calls dropped, prompt written anew", Causes: []string{session.CallsDropped}, class: orphan, Unknown: unlinked,
		play: func(a *agent) bool {
			a.anew = true
			return a.steps(hooks{save: a.dropCalls})
		},
	},
	{
		Name: "calls of all turns lost on load", Causes: []string{session.CallsDropped}, Also: []string{session.ReasoningStripped}, class: orphan,
		needs: needs{late: true}, Unknown: unlinked,
		play: func(a *agent) bool {
			return a.steps(hooks{load: func(i int, store []Message) []Message {
				if i <= a.at {
					return store
				}
				a.broken = true
				for j := range store {
					if len(store[j].Calls) > 0 {
						store[j] = a.dropCalls(store[j])[0]
					}
				}
				return store
			}})
		},
	},
	{
		Name: "some parallel calls dropped", Causes: []string{session.CallsDropped}, class: orphan, needs: needs{parallel: true},
		play: stores(func(a *agent, m Message) []Message {
			if n := len(m.Calls); n > 1 {
				i := a.rnd.IntN(n)
				m.Calls = slices.Delete(m.Calls, i, i+1)
			}
			return []Message{m}
		}),
	},
	{
		Name: "answer to the user never saved", Causes: []string{session.CallsDropped}, class: orphan,
		play: neverSaved("user"),
	},
	{
		Name: "answer in a tool loop never saved", Causes: []string{session.CallsDropped}, class: orphan,
		play: neverSaved("tool"),
	},
	{
		Name: "head cut off", Causes: []string{session.Truncated}, class: orphan, needs: needs{late: true},
		play: func(a *agent) bool { return a.cut(0) },
	},
	{
		Name: "middle cut out", Causes: []string{session.Truncated}, class: orphan, needs: needs{late: true},
		play: func(a *agent) bool { return a.cut(2) },
	},
	{
		Name: "head replaced by a summary", Causes: []string{session.Truncated}, class: orphan, play: summarizes,
		Unknown: func(v *Variant) string {
			if v.Shape {
				return "a shape does not say which message is a summary"
			}
			return unlinked(v)
		},
	},
	{
		// The request before had the message, so it was lost when the history was loaded.
		Name: "message of an older turn lost", Causes: []string{session.CallsDropped}, Also: []string{session.ReplayedUnbound}, class: orphan,
		needs: needs{late: true}, play: forgetsMessage,
		Unknown: func(v *Variant) string {
			if v.Shape && (v.IDs == "digits" || v.IDs == "none") {
				return "shapes of two processes do not show which of several calls of a function is gone"
			}
			return unlinked(v)
		},
	},
	{
		Name: "calls of a server tool dropped on save", Causes: []string{session.CallsDropped}, only: servers, class: orphan,
		play: func(a *agent) bool { return a.serverTools(0) },
	},
	{
		Name: "calls of a server tool lost on load", Causes: []string{session.CallsDropped}, only: servers, class: orphan,
		play: func(a *agent) bool { return a.serverTools(1) },
	},
	{
		Name: "cut between a paused server tool and its result", Causes: []string{session.Truncated}, only: servers, class: orphan,
		needs: needs{late: true}, play: (*agent).cutPaused,
		Unknown: func(v *Variant) string {
			if !v.Conversation {
				return "the ids of a provider's tools do not link requests"
			}
			return ""
		},
	},
	{
		Name: "tail cut off", Causes: []string{session.Truncated}, class: missing,
		play: func(a *agent) bool {
			if !a.through(0, a.at+2, hooks{}) {
				return false
			}
			a.store = a.store[:a.replies(a.at)]
			a.broken = true
			if a.say(a.nudge()) {
				a.say(a.nudge())
			}
			return true
		},
	},
	{
		Name: "one of several calls skipped", Causes: []string{session.ToolSkipped}, Also: []string{session.SkippedOrInterrupted}, class: missing,
		needs: needs{parallel: true, loop: true},
		per:   map[*Dialect][]string{&geminiNoIDs: {session.ToolSkipped, session.CallsTruncated}},
		play:  replies(func(a *agent, m Message) []Message { return a.skipOne(m) }),
	},
	{
		Name: "one skipped, prompt written anew", Causes: []string{session.ToolSkipped}, Also: []string{session.SkippedOrInterrupted}, class: missing,
		needs: needs{parallel: true, loop: true}, per: map[*Dialect][]string{&geminiNoIDs: {session.ToolSkipped, session.CallsTruncated}},
		play: func(a *agent) bool {
			a.anew = true
			return a.steps(hooks{reply: a.skipOne})
		},
	},
	{
		Name: "one skipped, provider keeps history", Causes: []string{session.ToolSkipped}, Also: []string{session.SkippedOrInterrupted}, class: missing,
		needs: needs{parallel: true, loop: true}, only: []*Dialect{&responses},
		play: func(a *agent) bool {
			a.chained = true
			return a.steps(hooks{reply: a.skipOne})
		},
	},
	{
		Name: "no call answered", Causes: []string{session.ToolSkipped}, Also: []string{session.SkippedOrInterrupted}, class: missing,
		needs: needs{loop: true}, play: replies(func(*agent, Message) []Message { return nil }),
	},
	{
		Name: "user writes instead of a reply", Causes: []string{session.SkippedOrInterrupted, session.ToolSkipped, session.UserInterrupt}, class: missing,
		play: replies(func(a *agent, _ Message) []Message { return []Message{a.nudge()} }),
	},
	{
		Name: "first k of n answered", Causes: []string{session.CallsTruncated}, class: missing,
		Also:  []string{session.ToolSkipped, session.SkippedOrInterrupted},
		needs: needs{parallel: true, runs: 4}, play: firstOfSeveral,
	},
	{
		Name: "crash before the reply", Causes: []string{session.Crashed}, class: missing,
		play: func(a *agent) bool {
			a.always = false
			return a.steps(hooks{reply: func(m Message) []Message {
				a.restart()
				if n := len(m.Replies); n > 1 && a.rnd.IntN(2) == 0 {
					m.Replies = m.Replies[:1+a.rnd.IntN(n-1)]
					return []Message{m, a.nudge()}
				}
				return []Message{a.nudge()}
			}})
		},
	},
	{
		Name: "reply stored twice", Causes: []string{session.DuplicateReply}, class: duplicate,
		play: replies(func(a *agent, m Message) []Message {
			i := a.rnd.IntN(len(m.Replies))
			m.Replies = slices.Insert(m.Replies, i+1, m.Replies[i])
			return []Message{m}
		}),
	},
	{
		Name: "reply again after a restart", Causes: []string{session.DuplicateReply}, class: duplicate,
		play: func(a *agent) bool {
			if !a.through(0, a.at+2, hooks{}) {
				return false
			}
			a.restart()
			m := &a.store[a.replies(a.at)]
			*m = m.clone()
			m.Replies = append(m.Replies, m.Replies[len(m.Replies)-1])
			a.broken = true
			a.through(a.at+2, len(a.run.Steps), hooks{})
			return a.after > 0
		},
	},
	{
		Name: "two different replies", Causes: []string{session.DuplicateReply}, class: duplicate,
		play: replies(func(a *agent, m Message) []Message {
			i := a.rnd.IntN(len(m.Replies))
			twin := m.Replies[i]
			twin.Text = "Run " + random(a.rnd, alphanumeric, 6) + ": " + twin.Text
			m.Replies = slices.Insert(m.Replies, i+1, twin)
			return []Message{m}
		}),
	},
	{
		Name: "message between call and reply", Causes: []string{session.Interleaved}, class: missing, not: []*Dialect{&responses},
		// Adjacent messages of a role are one turn, so that only an exchange of words comes between.
		per: map[*Dialect][]string{
			&anthropic: {session.Interleaved, session.UserInterrupt}, &bedrock: {session.Interleaved, session.UserInterrupt},
			&gemini: {session.Interleaved, session.UserInterrupt}, &geminiNoIDs: {session.Interleaved, session.UserInterrupt},
		},
		play: replies(func(a *agent, m Message) []Message {
			switch reminder := userSays("Reminder: answer in one sentence."); {
			case a.Wire.Descriptor().Pairing.Blocks:
				return []Message{reminder, {Role: "assistant", Text: "Understood."}, m}
			case a.rnd.IntN(2) == 0:
				return []Message{reminder, m}
			}
			return []Message{{Role: "system", Text: "Answer in one sentence."}, m}
		}),
	},
	{
		Name: "reply after the user's next message", Causes: []string{session.UserInterrupt, session.SkippedOrInterrupted}, class: missing,
		Also: []string{session.ToolSkipped, session.Interleaved}, not: []*Dialect{&responses},
		play: func(a *agent) bool {
			a.always = false
			var late Message
			return a.steps(hooks{
				reply: func(m Message) []Message { late = m; return []Message{a.nudge()} },
				load: func(i int, store []Message) []Message {
					if i == a.at+2 { // the reply arrived while the provider answered the user
						at := slices.IndexFunc(a.store, func(m Message) bool { return len(m.Calls) > 0 && m.Calls[0].ID == late.Replies[0].ID })
						if a.HasIDs && at >= 0 {
							a.store = slices.Insert(a.store, at+2, late)
						}
						return a.store
					}
					return store
				},
			})
		},
	},
	{
		Name: "calls split over messages", Causes: []string{session.CallsSplit}, class: missing, needs: needs{parallel: true}, only: chats,
		play: stores(func(_ *agent, m Message) (list []Message) {
			for i := range m.Calls {
				part := m.clone()
				part.Calls = m.Calls[i : i+1]
				if i > 0 {
					part.Text = ""
				}
				list = append(list, part)
			}
			return list
		}),
	},
	{
		Name: "calls get new ids", Causes: []string{session.IDRewritten}, class: orphan, not: []*Dialect{&geminiNoIDs},
		play: changes(func(a *agent, c *Call) { c.ID = a.callID(a.rnd) }),
	},
	{
		Name: "replies get new ids", Causes: []string{session.IDRewritten}, class: orphan, not: []*Dialect{&geminiNoIDs},
		play: replies(func(a *agent, m Message) []Message {
			for i := range m.Replies {
				m.Replies[i].ID = a.callID(a.rnd)
			}
			return []Message{m}
		}),
	},
	{
		Name: "replies have a constant id", Causes: []string{session.IDRewritten}, class: orphan, not: []*Dialect{&geminiNoIDs},
		play: replies(func(a *agent, m Message) []Message {
			for i := range m.Replies {
				m.Replies[i].ID = m.Replies[i].Name
			}
			return []Message{m}
		}),
	},
	{
		// A gateway keeps in the ids what the API has no field for, or runs models whose ids another provider refuses.
		Name: "ids of a gateway", Causes: []string{session.IDFromGateway}, only: []*Dialect{&openAI, &responses, &anthropic, &bedrock},
		play: func(a *agent) bool {
			a.renew(a.at, func() string {
				return "call_" + random(a.rnd, "0123456789abcdef", 28) + "__thought__" + random(a.rnd, alphanumeric, 80) + "=="
			})
			return a.steps(hooks{next: func(int, *Message) ending { return whole }})
		},
	},
	{
		Name: "calls without their ids", Causes: []string{session.IDDroppedOnSave}, not: byName,
		play: changes(func(_ *agent, c *Call) { c.ID = "" }),
	},
	{
		Name: "replies without their ids", Causes: []string{session.IDDroppedOnSave}, not: byName,
		play: replies(func(_ *agent, m Message) []Message {
			for i := range m.Replies {
				m.Replies[i].NoID = true
			}
			return []Message{m}
		}),
	},
	{
		Name: "model uses one id twice", Causes: []string{session.DuplicateIDFromModel}, not: []*Dialect{&geminiNoIDs}, needs: needs{parallel: true}, class: duplicate,
		Unknown: func(v *Variant) string {
			if v.Stream && v.Shape {
				return "the shape of a stream joins the pieces of calls by their id"
			}
			return ""
		},
		play: func(a *agent) bool {
			a.always = false
			return a.steps(hooks{
				next: func(i int, m *Message) ending {
					if i == a.at {
						m.Calls[1].ID = m.Calls[0].ID
					}
					return whole
				},
				reply: func(m Message) []Message { m.Replies[1].ID = m.Replies[0].ID; return []Message{m} },
			})
		},
	},
	{
		Name: "arguments of the wrong kind", Causes: []string{session.ArgumentsAsString},
		per:  map[*Dialect][]string{&openAI: {session.ArgumentsAsObject}, &deepSeek: {session.ArgumentsAsObject}, &responses: {session.ArgumentsAsObject}},
		play: changes(func(_ *agent, c *Call) { c.OtherKind = true }),
	},
	{
		Name: "arguments cut on save", Causes: []string{session.ArgumentsCutOnSave}, only: []*Dialect{&openAI, &deepSeek, &responses},
		Unknown: func(v *Variant) string {
			if v.Shape {
				return "a shape does not say how arguments that are not JSON end"
			}
			return ""
		},
		play: changes(func(a *agent, c *Call) { c.Raw = string(c.Args[:1+a.rnd.IntN(len(c.Args)-1)]) }),
	},
	{
		Name: "arguments of a cut answer", Causes: []string{session.ArgumentsTruncated}, only: []*Dialect{&openAI, &deepSeek, &responses},
		play: func(a *agent) bool {
			a.always = false
			return a.steps(hooks{next: func(i int, m *Message) ending {
				if i != a.at {
					return whole
				}
				c := &m.Calls[len(m.Calls)-1]
				c.Raw = string(c.Args[:1+a.rnd.IntN(len(c.Args)-1)])
				if a.Stream && a.rnd.IntN(2) == 0 {
					return streamCut
				}
				return lengthCut
			}})
		},
	},
	{
		Name: "model writes bad arguments", Causes: []string{session.MalformedByModel}, only: []*Dialect{&openAI, &deepSeek, &responses},
		play: func(a *agent) bool {
			a.always = false
			return a.steps(hooks{next: func(i int, m *Message) ending {
				if i == a.at {
					m.Calls[0].Raw = strings.Replace(string(m.Calls[0].Args), "{", "{'a': 1, ", 1)
				}
				return whole
			}})
		},
	},
	{
		Name: "parallel calls assembled as one", Causes: []string{session.StreamAssembly}, only: chats, needs: needs{parallel: true, streams: true},
		play: func(a *agent) bool {
			return a.steps(hooks{
				save: func(m Message) []Message {
					for _, c := range m.Calls {
						m.Calls[0].Raw += string(c.Args)
					}
					if len(m.Calls) == 1 {
						m.Calls[0].Raw = ""
					}
					m.Calls = m.Calls[:1]
					return []Message{m}
				},
				reply: func(m Message) []Message { m.Replies = m.Replies[:1]; return []Message{m} },
			})
		},
	},
	{
		Name: "reasoning not saved", Causes: []string{session.ReasoningStripped}, needs: needs{reasons: true, loop: true}, not: []*Dialect{&bedrock},
		play: stores(func(_ *agent, m Message) []Message {
			m.Thinking = ""
			for i := range m.Calls {
				m.Calls[i].Signature = ""
			}
			return []Message{m}
		}),
	},
	{
		Name: "empty reasoning not saved", Causes: []string{session.EmptyReasoningOmitted}, needs: needs{reasons: true, loop: true}, only: []*Dialect{&deepSeek},
		play: func(a *agent) bool {
			return a.steps(hooks{
				next: func(i int, m *Message) ending {
					if a.damaged(i) {
						m.Thinking, m.Blank = "", true
					}
					return whole
				},
				save: func(m Message) []Message { m.Blank = false; return []Message{m} },
			})
		},
	},
	{
		Name: "thinking edited", Causes: []string{session.ReasoningEdited}, needs: needs{reasons: true}, only: []*Dialect{&anthropic},
		play: stores(func(_ *agent, m Message) []Message {
			m.Thinking = strings.TrimSuffix(m.Thinking, "?") + "."
			return []Message{m}
		}),
	},
	{
		Name: "signature of thinking cut", Causes: []string{session.ReasoningEdited}, needs: needs{reasons: true}, only: []*Dialect{&anthropic},
		play: stores(func(_ *agent, m Message) []Message {
			m.Signature = m.Signature[:len(m.Signature)/2]
			return []Message{m}
		}),
	},
	{
		Name: "signature of thinking not saved", Causes: []string{session.FieldLost}, needs: needs{reasons: true}, only: []*Dialect{&anthropic},
		play: stores(func(_ *agent, m Message) []Message {
			m.Signature = ""
			return []Message{m}
		}),
	},
	{
		Name: "turn appended twice", Causes: []string{session.TurnAppendedTwice}, class: duplicate, not: []*Dialect{&geminiNoIDs},
		play: replies(func(a *agent, m Message) []Message { return []Message{m, a.store[len(a.store)-1], m} }),
	},
	{
		Name: "replies before their calls", Causes: []string{session.HistoryReordered}, class: orphan,
		play: replies(func(a *agent, m Message) []Message {
			last := a.store[len(a.store)-1]
			a.store = slices.Clone(a.store[:len(a.store)-1])
			return []Message{m, last}
		}),
	},
	{
		Name: "provider switched", Causes: []string{session.ProviderSwitched}, not: []*Dialect{&responses, &bedrock, &geminiNoIDs},
		needs: needs{loop: true}, play: switchProvider,
	},
	{
		// The second writer is called by a message that the user sends before the tool of the first has replied.
		Name: "two writers", Causes: []string{session.ConcurrentWriters}, Also: []string{session.UserInterrupt}, class: missing, not: []*Dialect{&responses}, play: twoWriters,
		Unknown: func(v *Variant) string {
			if !v.Conversation {
				return "requests at the same time are of one conversation only if its id says so"
			}
			return ""
		},
	},
	{
		Name: "field of the framework", Causes: []string{session.FieldLeak}, needs: needs{plain: true},
		play: func(a *agent) bool {
			if slices.Contains(chats, a.Dialect) {
				a.host = "api.groq.com/openai/v1"
			}
			return a.steps(hooks{load: func(i int, store []Message) []Message {
				if i == 0 {
					return store // a single message shows nothing
				}
				a.broken = true
				for i := range store {
					store[i].Extra = obj{"metadata": obj{"source": "framework"}}
				}
				return store
			}})
		},
	},
	{
		Name: "replies loaded without their calls", Causes: []string{session.ReplayedUnbound}, class: orphan, needs: needs{late: true},
		play: func(a *agent) bool {
			if !a.through(0, a.at+2, hooks{}) {
				return false
			}
			a.restart()
			a.store = slices.DeleteFunc(slices.Clone(a.store), func(m Message) bool { return len(m.Calls) > 0 })
			a.broken = true
			a.say(a.nudge())
			return true
		},
	},
	{
		Name: "broken call removed", Causes: []string{session.SanitizerDropped}, class: orphan, not: []*Dialect{&geminiNoIDs},
		play: brokenCall("", func(*agent, Message) []Message { return nil }),
	},
	{
		Name: "broken call removed, text kept", Causes: []string{session.SanitizerDropped}, class: orphan, not: []*Dialect{&geminiNoIDs},
		play: brokenCall("Let me look.", (*agent).dropCalls),
	},
}

// brokenCall returns a kind's play for an agent that stores what save returns of an answer with a text and a call without a
// name.
func brokenCall(text string, save func(a *agent, m Message) []Message) func(a *agent) bool {
	return func(a *agent) bool {
		a.always = false
		return a.steps(hooks{
			next: func(i int, m *Message) ending {
				if i == a.at {
					m.Text = text
					for j := range m.Calls {
						m.Calls[j].Name = ""
					}
				}
				return whole
			},
			save: func(m Message) []Message { return save(a, m) },
		})
	}
}
