package session

import (
	"encoding/json"

	"github.com/llmtap/llmtap/analyzer/facts"
)

// explainCalledTwice explains an id that two calls share.
func explainCalledTwice(x *explainer) RootCause {
	if x.id == 0 || x.Message < 0 {
		return RootCause{}
	}
	had, now := x.p.countCalls(x.id), x.q.countCalls(x.id)
	if had >= now {
		return RootCause{} // the previous request already had the duplicate, or the history was shortened
	}
	made := 0
	if a := x.before; a != nil {
		made = a.count(x.id)
		if i := x.q.lastCall(x.id); made == 0 && len(a.calls) > 0 && i-x.q.lead >= a.after && renames(x.q.callsOf(&x.q.messages[i]), a.calls) && !x.repeatsCallOf(a) {
			return because(IDRewritten, High, "call_side", "answer of LLM call %s called %s; message %d of the request makes the same calls under ids that earlier calls have",
				a.exchange, callName(a.calls[0].CallID, a.calls[0]), i)
		}
	}
	if now > had+made {
		twin := x.q.twin(x.Message)
		if twin < 0 || had+made == 0 {
			return RootCause{}
		}
		if r := x.concurrent(); r.ID != "" {
			return r
		}
		return because(TurnAppendedTwice, High, "", "%ss %d and %d of the request are the same calls; the answer and the request before it have them once",
			x.item(), twin, x.Message)
	}
	if made == 0 || made+had == 1 { // an id that the agent gave to several calls which had none, or other ones
		return RootCause{}
	}
	if made > 1 {
		return because(DuplicateIDFromModel, High, "", "answer of LLM call %s itself gave %d calls the id %s", x.before.exchange, made, quote(x.ToolCallID))
	}
	return because(DuplicateIDFromModel, High, "", "answer of LLM call %s gave its call the id %s, which a call in the request before it had already",
		x.before.exchange, quote(x.ToolCallID))
}

// repeatsCallOf reports whether the request contains a call of a.
func (x *explainer) repeatsCallOf(a *answer) bool {
	for _, c := range a.calls {
		if c.id != 0 && x.q.lastCall(c.id) >= 0 {
			return true
		}
	}
	return false
}

// explainItemTwice explains an item that occurs twice in an input.
func explainItemTwice(x *explainer) RootCause {
	if x.Message < 0 || x.q.messages[x.Message].item == facts.ItemReply {
		return RootCause{}
	}
	id := string(x.facts.Messages[x.Message].ID)
	for i := range x.Message {
		if string(x.facts.Messages[i].ID) == id && x.q.messages[i].hash == x.q.messages[x.Message].hash && i-x.q.lead >= x.aligned.prefix-1 {
			return because(TurnAppendedTwice, High, "", "items %d and %d of the request are the same; the answer has it once", i, x.Message)
		}
	}
	return RootCause{}
}

// made returns the original of call j of message i, and remembers it for explainer.answer.
func (x *explainer) made(i, j int) *Call {
	x.original = x.findOriginal(i, j)
	return x.original
}

// findOriginal returns the call in an answer with the same id, or else the call at the same position, if message i is a copy of the
// previous answer.
func (x *explainer) findOriginal(i, j int) *Call {
	m := &x.q.messages[i]
	calls := x.q.callsOf(m)
	if j < len(calls) {
		if c := x.Turn.call(calls[j].id); c != nil {
			return c
		}
	}
	a := x.before
	if a == nil || i-x.q.lead < a.after || j >= len(calls) {
		return nil
	}
	if x.items {
		return x.madeItem(i, a)
	}
	if len(calls) != len(a.calls) {
		return nil
	}
	// The message is a copy if another of its calls is, or if it directly follows the previous request.
	for k, c := range calls {
		if k != j && a.calls[k].id != 0 && c.id == a.calls[k].id {
			return a.calls[j]
		}
	}
	if x.aligned.whole && i-x.q.lead == a.after && sameText(a.text, a.noText, m.text, m.noText) {
		return a.calls[j]
	}
	return nil
}

// madeItem returns the call of the previous answer of which item i is a copy: the one at the same position among the calls that
// follow the previous request, if these are as many and call the same functions.
func (x *explainer) madeItem(i int, a *answer) *Call {
	from := x.q.lead + a.after
	if !x.aligned.whole {
		return nil
	}
	calls := x.q.callsIn(from, len(x.q.messages))
	if len(calls) != len(a.calls) {
		return nil
	}
	for k, c := range calls {
		if c.name != 0 && c.name != hashOrZero([]byte(a.calls[k].Name)) {
			return nil
		}
	}
	return a.calls[len(x.q.callsIn(from, i))]
}

// explainArgumentsKind explains arguments that are not a string, although they were a string in the answer.
func explainArgumentsKind(x *explainer) RootCause {
	call, value := x.sentArguments()
	if call == nil || call.kind != facts.String || len(value) == 0 || call.meaning == 0 || call.meaning != canonical(value) {
		return RootCause{}
	}
	return because(ArgumentsAsObject, High, x.Detail, "answer of LLM call %s called %s with its arguments as a string; message %d of the request has the same arguments as JSON",
		call.Exchange, callName(x.ToolCallID, call), x.Message)
}

// explainArgumentsNotObject explains arguments that are a string, although they were an object in the answer.
func explainArgumentsNotObject(x *explainer) RootCause {
	call, value := x.sentArguments()
	if call == nil || call.meaning == 0 {
		return RootCause{}
	}
	if r := x.from(call.answer); r.Detail == "dialect" {
		return r // an answer of an API whose arguments are a string
	}
	return x.asString(call, value)
}

// asString explains arguments that are the JSON of the call's arguments in a string, or in a string within a string.
func (x *explainer) asString(call *Call, value []byte) RootCause {
	as := "a string"
	for range 3 {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return RootCause{}
		}
		if value = []byte(text); canonical(value) == call.meaning {
			was := "an object"
			if call.kind == facts.String {
				was = "a string of JSON"
			}
			return because(ArgumentsAsString, High, x.Detail, "answer of LLM call %s called %s with %s as its arguments; message %d of the request has the same JSON in %s",
				call.Exchange, callName(x.ToolCallID, call), was, x.Message, as)
		}
		as = "a string within a string"
	}
	return RootCause{}
}

// explainArgumentsText explains an arguments string that is not a JSON object, by whether the model wrote that string.
func explainArgumentsText(x *explainer) RootCause {
	call, value := x.sentArguments()
	if call == nil || len(value) == 0 {
		return RootCause{}
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return RootCause{}
	}
	a, what := call.answer, callName(x.ToolCallID, call)
	unchanged := hashName(text) == call.raw
	switch {
	case unchanged && a.end != endedWhole:
		detail, how := "length", "ended at its token limit"
		if a.end == endedCut {
			detail, how = "cut", "broke off"
		}
		return because(ArgumentsTruncated, High, detail, "answer of LLM call %s %s inside the arguments of %s; message %d of the request repeats the call", a.exchange, how, what, x.Message)
	case x.Detail == "concatenated" && (!unchanged || a.joined || a.streamed):
		return because(StreamAssembly, High, "", "the arguments of %s in message %d of the request are several JSON values; answer of LLM call %s made %d calls", what, x.Message, a.exchange, len(a.calls))
	case x.Detail == "truncated" && a.end == endedWhole && !a.joined && call.args == facts.ArgsObject:
		return because(ArgumentsCutOnSave, High, "", "answer of LLM call %s is whole and called %s with complete arguments; in message %d of the request they end early",
			a.exchange, what, x.Message)
	case x.Detail == "not_object" && !unchanged:
		return x.asString(call, value)
	case unchanged:
		return because(MalformedByModel, High, "", "answer of LLM call %s is whole and has these arguments in its call %s; message %d of the request repeats them unchanged", a.exchange, what, x.Message)
	}
	return RootCause{}
}

// sentArguments returns the original of the call with the defect, from an answer, and the JSON of its arguments in the request.
func (x *explainer) sentArguments() (*Call, []byte) {
	if x.Message < 0 {
		return nil, nil
	}
	calls := x.facts.Messages[x.Message].Calls
	j := x.callIndex(calls)
	if j < 0 {
		return nil, nil
	}
	call := x.made(x.Message, j)
	if call == nil {
		return nil, nil
	}
	return call, rawArguments(x.bytesOf(calls[j].Start, calls[j].End))
}

// callIndex returns the index of the call with the defect, or -1.
func (x *explainer) callIndex(calls []facts.Call) int {
	if x.names && x.Part < len(calls) {
		return x.Part
	}
	for j := range calls {
		c := &calls[j]
		if x.ToolCallID != "" && string(c.ID) == x.ToolCallID || x.ToolCallID == "" && (len(c.ID) == 0 || len(c.Name) == 0) {
			return j
		}
	}
	return -1
}
