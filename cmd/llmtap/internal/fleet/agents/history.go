package agents

import "github.com/openai/openai-go/v3"

// A message of a history, as the SDK sends it.
type message = openai.ChatCompletionMessageParamUnion

// A saver is how an agent keeps its history. The healthy one is sound; each buggy one differs from it in one place.
type saver struct {
	// answer saves what the model said.
	answer func(history []message, m openai.ChatCompletionMessage) []message
	// replies saves the results of the tools that m called.
	replies func(history []message, m openai.ChatCompletionMessage, run func(openai.ChatCompletionMessageToolCallUnion) string) []message
	// compact shortens a history before it is sent.
	compact func(history []message) []message
}

// healthy saves what it must.
var healthy = saver{
	answer: func(history []message, m openai.ChatCompletionMessage) []message {
		return append(history, m.ToParam())
	},
	replies: func(history []message, m openai.ChatCompletionMessage, run func(openai.ChatCompletionMessageToolCallUnion) string) []message {
		for _, c := range m.ToolCalls {
			history = append(history, openai.ToolMessage(run(c), c.ID))
		}
		return history
	},
	compact: func(history []message) []message { return history },
}

// dropsToolCalls is incident 0: the planner of checkout-agent 2.4.0.
func dropsToolCalls() saver {
	s := healthy
	s.answer = func(history []message, m openai.ChatCompletionMessage) []message {
		// The bug: role and content are saved, m.ToolCalls is not. The tool messages that follow answer nothing.
		return append(history, openai.AssistantMessage(m.Content))
	}
	return s
}

// maxHistory is the length at which the executor of research-agent compacts.
const maxHistory = 12

// keepsLast is incident 2: the executor of research-agent.
func keepsLast() saver {
	s := healthy
	s.compact = func(history []message) []message {
		if len(history) <= maxHistory {
			return history
		}
		// The bug: the system message and the last 11, wherever that cuts. The first kept may be a tool message whose
		// call is gone.
		return append([]message{history[0]}, history[len(history)-(maxHistory-1):]...)
	}
	return s
}

// Tools of support-agent's executor that its two nodes share.
const (
	toolRefund = "submit_refund"
	toolNotify = "notify_customer"
)

// twoNodes is incident 4: the executor of support-agent runs tools in two nodes of a graph, one for what changes
// something and one for all else.
func twoNodes(needsApproval bool) saver {
	s := healthy
	s.replies = func(history []message, m openai.ChatCompletionMessage, run func(openai.ChatCompletionMessageToolCallUnion) string) []message {
		for _, c := range m.ToolCalls {
			name := c.Function.Name
			// The first bug: where a refund needs approval, nobody runs it, so its call never gets a reply.
			if name == toolRefund && needsApproval {
				continue
			}
			history = append(history, openai.ToolMessage(run(c), c.ID))
			// The second bug: both nodes think that this tool is theirs, so its call gets two replies.
			if name == toolNotify {
				history = append(history, openai.ToolMessage(run(c), c.ID))
			}
		}
		return history
	}
	return s
}
