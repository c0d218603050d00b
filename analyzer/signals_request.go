package analyzer

import (
	"bytes"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/limit"
	"github.com/llmtap/llmtap/ingest/event"
)

// watchRequest finds the signals that the judged request in a.req shows by itself or beside the one before it, and keeps
// what later ones need to know of it.
func (a *Analyzer) watchRequest(o *open, body []byte) {
	r, t := &a.req, o.turn
	o.maxTokens, o.forced = r.MaxTokens, len(r.Forced) > 0 || r.ToolChoice == facts.Object
	o.sum = xxh3.Hash(r.Model) ^ uint64(len(body))
	for i := range r.Messages {
		o.sum = bits.RotateLeft64(o.sum*0x9E3779B97F4A7C15, 31) ^ r.Messages[i].Hash
	}
	if from, to, ok := t.Shrunk(); ok {
		a.repeated(o, signal{
			id: HistoryShrunk, message: -1,
			summary: fmt.Sprintf("the history went from %d to %d messages", from, to),
			evidence: fmt.Sprintf("the request before had %d messages after the system messages, this one has %d, and it goes on with the same history",
				from, to),
			fix: "Nothing, if the agent compacts its history on purpose; then look that calls and replies go together.",
		})
	}
	if w, ok := t.Rewritten(); ok {
		s := signal{
			id: HistoryRewritten, message: w.Message, detail: "content", key: "content",
			summary:  fmt.Sprintf("message %d (assistant) is not what the model said", w.Message),
			evidence: fmt.Sprintf("message %d stands where the last answer belongs, and its text is another one", w.Message),
			fix:      "Save answers as they came; what is changed in them, the model takes for its own words.",
		}
		if c := w.Call; c != nil {
			s.detail, s.key, s.callID, s.tool = "arguments", "arguments", c.CallID, c.Name
			s.summary = fmt.Sprintf("message %d (assistant) calls %s with other arguments than the model did", w.Message, limit.Name(c.Name))
			s.evidence = fmt.Sprintf("the answer of exchange %s made the call with arguments that mean something else as JSON", c.Exchange)
		}
		a.repeated(o, s)
	}
	if o.row.Capture != event.CaptureShape {
		a.placeholders(o, body)
	}
}

// A placeholder is what a gateway or framework puts into a history that providers would reject. A history that was
// published as a shape does not show it: its texts are hashes under a key that only the agent has.
type placeholder struct {
	text []byte // with the quote before or after it, so that only a whole text is meant
	of   string
	what string
}

const maxPlaceholder = 320 // bytes of the longest, with the name of a tool in it

var placeholders = [...]placeholder{
	{[]byte(`"[System: Tool execution skipped`), "missing_reply", "LiteLLM's stand-in for a missing reply"},
	{[]byte(`"[System: Empty message content sanitised`), "empty_content", "LiteLLM's stand-in for an empty content"},
	{[]byte(`was cancelled - another message came in before it could be completed."`), "missing_reply", "LangChain's stand-in for a missing reply"},
}

// placeholders looks for them in the messages that are new.
func (a *Analyzer) placeholders(o *open, body []byte) {
	for i := o.turn.New(); i < len(a.req.Messages); i++ {
		m := &a.req.Messages[i]
		for j := range m.Replies {
			if r := &m.Replies[j]; r.ContentBytes <= maxPlaceholder {
				a.placeholder(o, i, string(r.ID), body[r.Start:r.End])
			}
		}
		if len(m.Replies) == 0 && m.Kind == facts.Object && m.ContentBytes > 0 && m.ContentBytes <= maxPlaceholder {
			a.placeholder(o, i, "", body[m.Start:m.End])
		}
	}
}

func (a *Analyzer) placeholder(o *open, i int, callID string, text []byte) {
	for k := range placeholders {
		p := &placeholders[k]
		if !bytes.Contains(text, p.text) {
			continue
		}
		key := callID
		if key == "" {
			key = strconv.FormatUint(o.turn.Identity(i), 16)
		}
		a.once(o, signal{
			id: SanitizerAtWork, detail: p.of, message: i, callID: limit.Text(callID, limit.CallIDBytes), tool: o.turn.ToolName(callID), key: p.of + key,
			summary:  fmt.Sprintf("message %d is no message of the agent: %s", i, p.what),
			evidence: fmt.Sprintf("the text of message %d is %s, which is put in where a provider would answer 400", i, p.what),
			fix:      "Send a history that needs no repair: the model takes the stand-in for what happened.",
		})
		return
	}
}
