package facts

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/jsonscan"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// An anthropicEvent is an event of a stream. Texts are raw, without quotes, and valid as long as the event.
type anthropicEvent struct {
	typ     []byte // decoded
	index   int64
	indexed bool
	block   anthropicBlock // block of content_block_start

	deltaType                []byte // decoded
	text, partial, signature []byte
	thought                  []byte
}

// stream assembles server-sent events.
func (a *anthropicAnswer) stream(body []byte) {
	var seen bool
	var err error
	for e := range sse.Events(body) {
		if seen = true; errors.Is(err, ErrTruncated) {
			a.r.Malformed = true // only the last event can be truncated
		}
		if err = a.event(bytes.TrimSpace(e.Data), e.Name); a.done {
			break
		}
	}
	a.end(seen, errors.Is(err, ErrTruncated))
}

// frames assembles Bedrock's stream. Each frame contains an event as {"bytes": "<base64>"}, or an exception.
func (a *anthropicAnswer) frames(body []byte) {
	var seen, cut bool
	var data []byte
	for m, err := range eventstream.Messages(body) {
		if err != nil {
			if cut = errors.Is(err, eventstream.ErrTruncated); !cut {
				a.r.Malformed = true
			}
			break
		}
		seen = true
		if string(m.Type) == "exception" || string(m.Type) == "error" {
			for _, text := range [][]byte{m.Payload, m.ErrorMessage, m.ExceptionType, m.ErrorCode} {
				if len(a.r.Error) == 0 {
					a.r.Error = text
				}
			}
			continue
		}
		s := scanner{b: bytes.TrimSpace(m.Payload)}
		encoded := s.member("bytes")
		if len(encoded) == 0 {
			continue
		}
		if data, err = base64.StdEncoding.AppendDecode(data[:0], encoded); err != nil {
			a.r.Malformed = true
			continue
		}
		failed := len(a.r.Error) > 0
		if err := a.event(data, nil); err != nil {
			a.r.Malformed = true
		}
		if !failed {
			a.r.Error = bytes.Clone(a.r.Error) // data is reused
		}
		if a.done {
			break
		}
	}
	a.end(seen, cut)
}

// end sets Cut and Malformed after a stream was read.
func (a *anthropicAnswer) end(seen, cut bool) {
	ended := a.done || a.r.FinishReason != "" || len(a.r.Error) > 0
	a.r.Cut = !a.done && cut || !ended
	if seen && !a.answered && len(a.r.Error) == 0 {
		a.r.Malformed = true
	}
}

// event reads the data of an event. This is usually one value, but several if a server omits the empty line between events;
// then only the first value has the name.
func (a *anthropicAnswer) event(data, name []byte) error {
	s := scanner{b: data, scratch: a.scratch[:0]}
	failed := string(name) == "error" && len(a.r.Error) == 0
	for s.space(); s.i < len(s.b) && !a.done; s.space() {
		switch {
		case s.b[s.i] == '{':
			a.object(&s, name)
			name = nil
		case s.isDone(): // added by gateways
			a.done = true
		default:
			s.fail(ErrNotJSON)
		}
	}
	if failed && len(a.r.Error) == 0 {
		a.r.Error = data
	}
	if s.err != nil && !errors.Is(s.err, ErrTruncated) && !failed {
		a.r.Malformed = true
	}
	a.scratch = s.scratch
	return s.err
}

func (a *anthropicAnswer) readDelta(s *scanner, e *anthropicEvent) {
	for more := s.enter(Object); more; more = s.more('}') {
		switch string(s.key()) {
		case "type":
			e.deltaType, _ = s.text()
		case "text":
			e.text = s.rawText()
		case "partial_json":
			e.partial = s.rawText()
		case "signature":
			e.signature = s.rawText()
		case "thinking":
			e.thought = s.rawText()
		case "stop_reason":
			replaceText(&a.r.FinishReason, s)
		default:
			s.skip()
		}
	}
}

// apply applies a complete event.
func (a *anthropicAnswer) apply(e *anthropicEvent) {
	switch string(e.typ) {
	case "message", "message_start":
		a.answered = true
	case "content_block_start":
		a.startBlock(e)
	case "content_block_delta":
		a.addDelta(e)
	case "content_block_stop":
		if i := a.find(e); i >= 0 {
			a.blocks[i].open = false
		}
	default:
		a.done = a.done || isLastEvent(wire.Anthropic, e.typ)
	}
}

func (a *anthropicAnswer) startBlock(e *anthropicEvent) {
	a.answered, a.content = true, Array
	if e.block.typ == anthropicToolUse && e.indexed {
		if i := a.find(e); i >= 0 && a.blocks[i].typ == anthropicToolUse {
			a.r.BadIndex = true
		}
	}
	a.add(&e.block, anthropicPartial{index: e.index, streamed: true, open: true})
}

func (a *anthropicAnswer) addDelta(e *anthropicEvent) {
	want, tail := anthropicToolUse, e.partial
	switch string(e.deltaType) {
	case "text_delta":
		if e.text != nil {
			a.addText(e.text)
		}
		return
	case "thinking_delta":
		a.r.Reasoning = String
		if i := a.find(e); i >= 0 && i == a.thinking-1 {
			a.addThought(e.thought)
		}
		return
	case "signature_delta":
		want, tail = anthropicThinking, e.signature
	case "input_json_delta":
	default: // citations, unknown types
		return
	}
	i := a.find(e)
	if i < 0 {
		if len(a.blocks) == 0 || len(a.blocks) == maxAnswerCalls {
			return // it may belong to a dropped block
		}
		i = len(a.blocks) - 1
		a.r.BadIndex = a.r.BadIndex || want == anthropicToolUse
	}
	if b := &a.blocks[i]; b.typ == want {
		b.tail = jsonscan.AppendText(b.tail, tail)
	}
}

// find returns the position of the latest block with the index of e, or of the latest block if e has no index. It returns -1
// if there is none.
func (a *anthropicAnswer) find(e *anthropicEvent) int {
	for i := range slices.Backward(a.blocks) {
		if b := &a.blocks[i]; !e.indexed || b.streamed && b.index == e.index {
			return i
		}
	}
	return -1
}

// finish returns the complete call. Arguments that a stream sends as the text of an object have the kind Object, like the
// input of a unary answer; any other text remains a String. The arguments of a streamed call without any text are an empty
// object, unless the stream was cut before the end of the call.
func (b *anthropicPartial) finish(cut bool) ResponseCall {
	c := b.call
	if !b.streamed {
		return c
	}
	if len(b.tail) > 0 {
		if v := checkText(b.tail); v != ArgsEmpty {
			c.Arguments, c.Args, c.ArgsKind = string(b.tail), v, String
			if v == ArgsObject {
				c.ArgsKind = Object
			}
			return c
		}
	}
	switch {
	case c.ArgsKind > Null && len(c.Arguments) > len("{}"): // some gateways send the whole input at the start
	case cut && b.open:
		c.Arguments, c.Args, c.ArgsKind = "", ArgsTruncated, String
	default:
		c.Arguments, c.Args, c.ArgsKind = "{}", ArgsObject, Object
	}
	return c
}
