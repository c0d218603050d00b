package facts

import (
	"bytes"
	"errors"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

// stream assembles the events of ConverseStream. The answer is complete at messageStop; the usage follows later.
func (a *converse) stream(body []byte) {
	a.streamed = true
	var s scanner
	seen, stopped := false, false
	for m, err := range eventstream.Messages(body) {
		switch {
		case err != nil:
			broken := errors.Is(err, eventstream.ErrFrame)
			if broken && !seen { // HTML or plain text
				a.r.Error = bytes.TrimSpace(body)
			}
			a.r.Malformed = a.r.Malformed || broken
		case string(m.Type) == "exception":
			a.exception(m.ExceptionType, m.Payload)
		case string(m.Type) == "error":
			a.exception(m.ErrorCode, m.ErrorMessage)
		default:
			s = scanner{b: m.Payload, scratch: s.scratch[:0]}
			a.event(&s, m.EventType)
			stopped = stopped || string(m.EventType) == "messageStop"
		}
		seen = seen || err == nil
	}
	a.r.Cut = !stopped && len(a.r.Error) == 0
	if seen && !a.answered && len(a.r.Error) == 0 { // a stream of another API, such as InvokeModelWithResponseStream
		a.r.Malformed = true
	}
}

// event reads the payload of an event. The index of the block may follow its start or delta.
func (a *converse) event(s *scanner, name []byte) {
	var first, delta, stop bool
	switch string(name) {
	case "contentBlockStart":
		first = true
	case "contentBlockDelta":
		delta = true
	case "contentBlockStop":
		stop = true
	case "messageStart", "messageStop", "metadata":
	default:
		return
	}
	if string(name) != "metadata" {
		a.answered = true
		a.r.Content = max(a.r.Content, Null)
	}
	s.space()
	if s.kind() != Object {
		a.r.Malformed = true
		return
	}
	var index int64
	part := -1
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); {
		case string(key) == "contentBlockIndex":
			index = s.number()
		case string(key) == "start" && first, string(key) == "delta" && delta:
			part = s.i
			s.skip()
		case string(key) == "stopReason" && string(name) == "messageStop":
			replaceText(&a.r.FinishReason, s)
		case string(key) == "usage":
			a.usage(s)
		default:
			s.skip()
		}
	}
	s.end()
	if s.err != nil {
		a.r.Malformed = true
		return
	}
	if (first || delta || stop) && index != a.block {
		a.endBlock()
		a.block = index
	}
	if part >= 0 {
		s.i = part
		a.part(s, first)
		a.r.Malformed = a.r.Malformed || s.err != nil
	}
	if stop {
		a.endBlock()
	}
}

// toolUse reads a call, or a fragment of its input: {"toolUseId": …, "name": …, "input": …}. The input is a string in a
// stream, and the value itself in a unary answer.
func (a *converse) toolUse(s *scanner, first bool) {
	c := converseCall{partialCall: partialCall{index: a.block}}
	n := len(s.scratch)
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "toolUseId":
			setText(&c.id, s)
		case "name":
			setText(&c.name, s)
		case "type":
			kind, _ := s.text()
			c.server = bedrockServerCall(kind)
		case "input":
			start := s.i
			if c.args, c.argsKind = s.text(); c.argsKind != String {
				c.args = s.b[start:s.i]
			}
		default:
			s.skip()
		}
	}
	if s.err == nil {
		a.addCall(&c, first)
	}
	s.scratch = s.scratch[:n]
}

// addCall adds c as a new call if first is set; otherwise c is a fragment of the call in the same block.
func (a *converse) addCall(c *converseCall, first bool) {
	if first {
		if len(a.calls) == maxAnswerCalls {
			a.r.Malformed = true
			return
		}
		c.args = bytes.Clone(c.args)
		if c.indexed = a.streamed; c.indexed && c.argsKind <= Null {
			c.args, c.argsKind = nil, String // fragments follow
		}
		a.calls = append(a.calls, *c)
		return
	}
	for i := len(a.calls) - 1; i >= 0; i-- {
		p := &a.calls[i]
		if p.index != c.index {
			continue
		}
		switch {
		case c.argsKind <= Null:
		case c.argsKind == String && p.argsKind == String:
			p.args = append(p.args, c.args...)
		default: // values other than strings arrive whole
			p.args, p.argsKind = append(p.args[:0], c.args...), c.argsKind
		}
		return
	}
	a.r.BadIndex = true
}

// exception stores an error in the stream: the payload of an exception, or the message of an error.
func (a *converse) exception(kind, payload []byte) {
	if len(a.r.Error) > 0 {
		return
	}
	text := append(appendQuoted([]byte(`{"__type":"`), kind), '"')
	payload = bytes.TrimSpace(payload)
	s := scanner{b: payload}
	if len(payload) > 0 && payload[0] == '{' && s.skip() == Object && s.err == nil {
		if rest := bytes.TrimSpace(payload[1:]); rest[0] != '}' {
			text = append(append(text, ','), rest...)
		} else {
			text = append(text, '}')
		}
	} else if len(payload) > 0 {
		text = append(appendQuoted(append(text, `,"message":"`...), payload), `"}`...)
	} else {
		text = append(text, '}')
	}
	a.r.Error = text
}
