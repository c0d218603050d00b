package session

import "github.com/llmtap/llmtap/analyzer/facts"

// serverCallLost explains the result of a tool that the provider ran, in message x.Message, without its call. Both are of the model:
// the call is in the same message, or in one before it if the answer was paused.
func (x *explainer) serverCallLost() RootCause {
	m, place := &x.q.messages[x.Message], x.Message-x.q.lead
	first := place // of the model's steps that the result is one of
	for x.items && first > 0 && x.q.body()[first-1].item != facts.ItemMessage && x.q.body()[first-1].replies == 0 {
		first--
	}
	if a := x.before; a != nil && a.serverUse && place >= a.after && (x.q.copies(m, a) || x.aligned.whole && first == a.after) {
		return because(CallsDropped, High, "server_tool", "answer of LLM call %s has a call of a tool that the provider ran, and its result; message %d of the next request has the result alone",
			a.exchange, x.Message)
	}
	from, to := x.aligned.prefix, len(x.p.body())-x.aligned.tail
	for i := len(x.p.messages) - 1; i >= x.p.lead; i-- {
		was := &x.p.messages[i]
		switch at := i - x.p.lead; {
		case !was.serverUse:
		case !x.items && at == place && from == place || was.text != 0 && !was.noText && was.text == m.text:
			return because(CallsDropped, High, "server_tool", "message %d of the request before (LLM call %s) has a call of a tool that the provider ran; message %d of the next request is its copy with the result alone",
				i, x.previous, x.Message)
		case at < from || at >= to || x.isSent(was):
		case to-from == 1:
			return because(CallsDropped, High, "message", "message %d of the request before (LLM call %s) has a call of a tool that the provider ran; only that message is gone from the next request, whose message %d has the result",
				i, x.previous, x.Message)
		default:
			return because(Truncated, High, "head", "message %d of the request before (LLM call %s) has a call of a tool that the provider ran; messages %d to %d are gone from the next request, whose message %d has the result",
				i, x.previous, x.p.lead+from, x.p.lead+to-1, x.Message)
		}
	}
	return RootCause{}
}

// isSent reports whether the request contains message m of the previous request.
func (x *explainer) isSent(m *message) bool {
	for i := range x.q.messages {
		if o := &x.q.messages[i]; o.role == facts.RoleAssistant && o.hash == m.hash {
			return true
		}
	}
	return false
}
