package signals

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Judged finds the signals of a judged request, alone or compared with the previous request. It sets x.Request to the
// data that its answer is compared with.
func (d *Detector) Judged(x *Exchange, r *facts.Request, body []byte) {
	t := x.Turn
	x.Request.MaxTokens, x.Request.Forced = r.MaxTokens, len(r.Forced) > 0 || r.ToolChoice == facts.Object
	h := xxh3.Hash(r.Model) ^ uint64(len(body))
	for i := range r.Messages {
		h = bits.RotateLeft64(h*0x9E3779B97F4A7C15, 31) ^ r.Messages[i].Hash
	}
	x.Request.Hash = h
	if from, to, ok := t.Shrunk(); ok {
		d.repeated(x, Signal{
			ID: HistoryShrunk, Message: -1,
			Summary: fmt.Sprintf("the history went from %d to %d messages", from, to),
			Evidence: fmt.Sprintf("the request before had %d messages after the system messages, this one has %d, and it continues the same history",
				from, to),
			Fix: "None if the agent compacts its history on purpose; then check that it keeps calls and replies together.",
		})
	}
	if w, ok := t.Rewritten(); ok {
		s := Signal{
			ID: HistoryRewritten, Message: w.Message, Detail: "content", Key: "content",
			Summary:  fmt.Sprintf("message %d (assistant) differs from what the model returned", w.Message),
			Evidence: fmt.Sprintf("message %d is at the place of the last answer, and its text differs", w.Message),
			Fix:      "Save answers unchanged: the model takes every change for its own words.",
		}
		if c := w.Call; c != nil {
			s.Detail, s.Key, s.CallID, s.Tool = "arguments", "arguments", c.CallID, c.Name
			s.Summary = fmt.Sprintf("message %d (assistant) calls %s with other arguments than the model did", w.Message, limit.Name(c.Name))
			s.Evidence = fmt.Sprintf("the answer of LLM call %s made the call with arguments of another meaning as JSON", c.Exchange)
		}
		d.repeated(x, s)
	}
	if x.Loop != nil {
		d.loop(x)
	}
	if x.Capture != event.CaptureShape {
		d.placeholders(x, r, body)
	}
}

// loopSize is the number of times from which equal turns are a loop.
const loopSize = 5

// loop finds an agent that makes the same calls again and again, although their replies do not change.
func (d *Detector) loop(x *Exchange) {
	l := x.Loop
	if !l.New || !doubled(l.Times, loopSize) {
		return
	}
	c := l.Call
	s := Signal{
		ID: AgentLoop, Message: l.First.ReplyMessage, CallID: l.First.CallID, Tool: c.Name, Key: fmt.Sprint(l.First.AnsweredBy, l.Period), Update: l.Times > loopSize,
		Summary:  fmt.Sprintf("%s was called %d times in a row with the same arguments, and the reply was the same each time", limit.Name(c.Name), l.Times),
		Evidence: fmt.Sprintf("since message %d of LLM call %s; no message of the user came in between", l.First.ReplyMessage, l.First.AnsweredBy),
		Fix:      "Stop after a few equal results: tell the model that the call will not return anything else, or end the run with an error.",
	}
	if l.Period > 1 {
		s.Summary = fmt.Sprintf("%s was called %d times with the same arguments in a loop of %d turns, and the replies were the same each time", limit.Name(c.Name), l.Times, l.Period)
	}
	if c.ReplyError != "" {
		s.Evidence += "; the reply reports an error"
	}
	d.times(x, &s)
	x.Signals = append(x.Signals, s)
}

// A placeholder is text that a gateway or framework inserts into a history that providers would reject. It cannot be
// found in a history that was published as a shape, whose texts are hashes with a key that only the agent has.
type placeholder struct {
	text   []byte // with the quote before or after the text, so that it matches only at an end of a string
	detail string
	what   string
}

const maxPlaceholder = 320 // bytes of the longest placeholder, including the name of a tool

var placeholders = [...]placeholder{
	{[]byte(`"[System: Tool execution skipped`), "missing_reply", "LiteLLM's placeholder for a missing reply"},
	{[]byte(`"[System: Empty message content sanitised`), "empty_content", "LiteLLM's placeholder for an empty content"},
	{[]byte(`was cancelled - another message came in before it could be completed."`), "missing_reply", "LangChain's placeholder for a missing reply"},
}

// placeholders finds placeholders in the new messages of a request.
func (d *Detector) placeholders(x *Exchange, r *facts.Request, body []byte) {
	for i := x.Turn.New(); i < len(r.Messages); i++ {
		m := &r.Messages[i]
		for j := range m.Replies {
			if p := &m.Replies[j]; p.ContentBytes <= maxPlaceholder {
				d.placeholder(x, i, string(p.ID), body[p.Start:p.End])
			}
		}
		if len(m.Replies) == 0 && m.Kind == facts.Object && m.ContentBytes > 0 && m.ContentBytes <= maxPlaceholder {
			d.placeholder(x, i, "", body[m.Start:m.End])
		}
	}
}

func (d *Detector) placeholder(x *Exchange, i int, callID string, text []byte) {
	for k := range placeholders {
		p := &placeholders[k]
		if !bytes.Contains(text, p.text) {
			continue
		}
		key := callID
		if key == "" {
			key = strconv.FormatUint(x.Turn.Identity(i), 16)
		}
		d.once(x, Signal{
			ID: SanitizerAtWork, Detail: p.detail, Message: i, CallID: limit.Text(callID, limit.CallIDBytes), Tool: x.Turn.ToolName(callID), Key: p.detail + key,
			Summary:  fmt.Sprintf("message %d is not from the agent: %s", i, p.what),
			Evidence: fmt.Sprintf("the text of message %d is %s, which is inserted where a provider would answer 400", i, p.what),
			Fix:      "Send a history that needs no repair: the model takes the placeholder for what happened.",
		})
		return
	}
}
