package agents

// A saver stores the history of an agent. Each buggy saver differs from healthy in one function.
type saver struct {
	// answer appends the answer of the model.
	answer func(history []message, m message) []message
	// replies appends the results of the tool calls of m.
	replies func(history []message, m message, run func(toolCall) string) []message
	// compact shortens a history before it is sent.
	compact func(history []message) []message
}

// healthy has no bugs.
var healthy = saver{
	answer: func(history []message, m message) []message {
		return append(history, m)
	},
	replies: func(history []message, m message, run func(toolCall) string) []message {
		for _, c := range m.ToolCalls {
			history = append(history, reply(c.ID, run(c)))
		}
		return history
	},
	compact: func(history []message) []message { return history },
}

// dropsToolCalls is incident 0: the planner of checkout-agent 2.4.0.
func dropsToolCalls() saver {
	s := healthy
	s.answer = func(history []message, m message) []message {
		content := ""
		if m.Content != nil {
			content = *m.Content
		}
		// The bug: m.ToolCalls is not saved, so the next tool messages answer no call.
		return append(history, text("assistant", content))
	}
	return s
}

// maxHistory is the length at which the executor of research-agent compacts a history.
const maxHistory = 12

// keepsLast is incident 2: the executor of research-agent.
func keepsLast() saver {
	s := healthy
	s.compact = func(history []message) []message {
		if len(history) <= maxHistory {
			return history
		}
		// The bug: the first of the last 11 messages may be a tool message whose call is dropped.
		return append([]message{history[0]}, history[len(history)-(maxHistory-1):]...)
	}
	return s
}

// Tools of support-agent's executor that are affected by its bugs.
const (
	toolRefund = "submit_refund"
	toolNotify = "notify_customer"
)

// twoNodes is incident 4: the executor of support-agent runs tools in two nodes of a graph, one for tools with side effects and
// one for the others.
func twoNodes(needsApproval bool) saver {
	s := healthy
	s.replies = func(history []message, m message, run func(toolCall) string) []message {
		for _, c := range m.ToolCalls {
			name := c.Function.Name
			// The first bug: no node runs a refund that needs approval, so its call never gets a reply.
			if name == toolRefund && needsApproval {
				continue
			}
			history = append(history, reply(c.ID, run(c)))
			// The second bug: both nodes run this tool, so its call gets two replies.
			if name == toolNotify {
				history = append(history, reply(c.ID, run(c)))
			}
		}
		return history
	}
	return s
}
