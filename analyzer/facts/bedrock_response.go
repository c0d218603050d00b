package facts

import (
	"bytes"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/eventstream"
)

// scanBedrockResponse implements ScanResponse for Converse and ConverseStream. InputTokens includes the tokens read from the
// cache and written to it, which AWS counts separately. If the input of a call is an object, ArgsKind is Object, even
// though a stream sends it as text.
//
// The type of an exception in a stream is in a header of the frame, not in the payload. Response.Error is then the body that
// AWS sends for the same failure of a unary call: the payload with "__type" as an additional first member.
func scanBedrockResponse(contentType string, body []byte, r *Response) {
	a := converse{r: r}
	text := bytes.TrimSpace(body)
	switch {
	case len(text) > 0 && text[0] == '{':
		a.unary(text)
	case eventstream.HasFrame(body), wire.FramingOf(contentType) == wire.EventStream:
		a.stream(body)
	default: // HTML, plain text or an empty body
		r.Error, r.Malformed = text, true
	}
	a.finish()
}

// A converse assembles a Response from one body or from the events of a stream.
type converse struct {
	r        *Response
	text     xxh3.Hasher // hash of the decoded texts so far
	calls    []converseCall
	signed   uint64 // hash of the signatures of the complete blocks
	sealed   []byte // signature or redacted content of the current block
	block    int64  // index of the current block
	answered bool   // a message was read
	streamed bool
}

// A converseCall is a toolUse assembled from the fragments so far. Its index is the index of its block.
type converseCall struct {
	partialCall
	server bool // AWS ran the tool
}

func (a *converse) unary(text []byte) {
	s := scanner{b: text}
	failed := false
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "output":
			a.output(&s)
		case "stopReason":
			replaceText(&a.r.FinishReason, &s)
		case "usage":
			a.usage(&s)
		case "message", "Message", "__type": // error members of AWS, of its gateways, and of both
			failed = s.skip() == String || failed
		case "error": // error member of a gateway
			if k := s.kind(); k > Bool {
				a.r.Error = s.raw(k)
			} else {
				s.skip()
			}
		default:
			s.skip()
		}
	}
	s.end()
	a.r.Cut = errors.Is(s.err, ErrTruncated)
	a.r.Malformed = a.r.Malformed || s.err != nil
	if !a.answered && len(a.r.Error) == 0 {
		a.r.Error = text
		a.r.Malformed = a.r.Malformed || !failed
	}
}

// finish completes the Response.
func (a *converse) finish() {
	r := a.r
	if a.answered {
		r.Choices = 1
	}
	if r.Content == String {
		r.ContentHash = a.text.Sum64()
	}
	if a.signed != 0 {
		r.Signed = []Signed{{Hash: a.signed}}
	}
	for i := range a.calls {
		if !a.calls[i].server {
			r.Calls = append(r.Calls, a.calls[i].call())
		}
	}
}

// call returns the complete call. The fragments in a stream are the text of an object; without fragments, the object is
// empty.
func (c *converseCall) call() ResponseCall {
	call := c.partialCall.call()
	switch {
	case call.ArgsKind == Object:
		call.Args = ArgsObject
	case c.indexed && call.Args == ArgsEmpty:
		call.Arguments, call.ArgsKind, call.Args = "{}", Object, ArgsObject
	case c.indexed && call.Args == ArgsObject:
		call.ArgsKind = Object
	}
	return call
}

// output reads {"message": {"role": "assistant", "content": […]}}.
func (a *converse) output(s *scanner) {
	for more := s.enter(Object); more; more = s.more('}') {
		if string(s.key()) != "message" || s.kind() != Object {
			s.skip()
			continue
		}
		a.answered = true
		for more := s.open(); more; more = s.more('}') {
			if string(s.key()) == "content" {
				a.content(s)
			} else {
				s.skip()
			}
		}
	}
}

func (a *converse) content(s *scanner) {
	if s.kind() != Array {
		a.r.Malformed = true
		s.skip()
		return
	}
	a.r.Content = max(a.r.Content, Null)
	for more := s.open(); more; more = s.more(']') {
		a.part(s, true)
		a.endBlock()
	}
}

// part reads a block of a unary answer, or the start or a delta of a block in a stream. If first is set, a toolUse starts a
// new call.
func (a *converse) part(s *scanner, first bool) {
	for more := s.enter(Object); more; more = s.more('}') {
		key := s.key()
		switch {
		case string(key) == "text":
			a.addText(s)
		case s.kind() != Object:
			s.skip()
		case string(key) == "toolUse":
			a.toolUse(s, first)
		case string(key) == "reasoningContent":
			a.reasoning(s)
		case string(key) == "citationsContent":
			s.citedTexts(func() { a.addText(s) })
		default:
			s.skip()
		}
	}
}

func (a *converse) addText(s *scanner) {
	n := len(s.scratch)
	if text, k := s.text(); k == String && s.err == nil {
		_, _ = a.text.Write(text)
		a.r.ContentBytes += textBytes(text)
		a.r.Content = String
	}
	s.scratch = s.scratch[:n]
}

// reasoning reads reasoningContent: {"reasoningText": {"text": …, "signature": …}} in a unary answer, or the members of the
// inner object in a delta, or {"redactedContent": …} in either.
func (a *converse) reasoning(s *scanner) {
	for more := s.open(); more; more = s.more('}') {
		switch key := s.key(); {
		case string(key) == "reasoningText" && s.kind() == Object:
			for more := s.open(); more; more = s.more('}') {
				a.reasoningMember(s, s.key())
			}
		default:
			a.reasoningMember(s, key)
		}
	}
}

func (a *converse) reasoningMember(s *scanner, key []byte) {
	text, redacted := string(key) == "text", string(key) == "redactedContent"
	if text || redacted {
		a.r.Reasoning = max(a.r.Reasoning, s.kind())
	}
	if !redacted && string(key) != "signature" {
		s.skip()
		return
	}
	n := len(s.scratch)
	if sealed, k := s.text(); k == String && s.err == nil {
		a.sealed = append(a.sealed, sealed...)
	}
	s.scratch = s.scratch[:n]
}

// endBlock folds the signature of the current block, which is complete, into a.signed.
func (a *converse) endBlock() {
	if len(a.sealed) > 0 {
		a.signed = foldHash(a.signed, xxh3.Hash(a.sealed))
	}
	a.sealed = a.sealed[:0]
}

func (a *converse) usage(s *scanner) {
	if s.kind() != Object {
		s.skip()
		return
	}
	var input, written int64
	a.r.CachedTokens = 0
	for more := s.open(); more; more = s.more('}') {
		switch string(s.key()) {
		case "inputTokens":
			input = s.number()
		case "outputTokens":
			a.r.OutputTokens = s.number()
		case "cacheReadInputTokens":
			a.r.cached(s)
		case "cacheWriteInputTokens":
			written = s.number()
		case "cacheDetails":
			a.r.CacheHour = bedrockHour(s)
		default:
			s.skip()
		}
	}
	a.r.InputTokens, a.r.CacheWritten = input+a.r.CachedTokens+written, written
}

// bedrockHour reads cacheDetails, a list of what was written by time to live, and returns the tokens held for an hour.
func bedrockHour(s *scanner) (hour int64) {
	for more := s.enter(Array); more; more = s.more(']') {
		var ttl []byte
		var tokens int64
		n := len(s.scratch)
		for more := s.enter(Object); more; more = s.more('}') {
			switch string(s.key()) {
			case "ttl":
				ttl, _ = s.text()
			case "inputTokens":
				tokens = s.number()
			default:
				s.skip()
			}
		}
		if string(ttl) == "1h" {
			hour += tokens
		}
		s.scratch = s.scratch[:n]
	}
	return hour
}
