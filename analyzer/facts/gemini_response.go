package facts

import (
	"bytes"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire/sse"
)

// scanGeminiResponse implements ScanResponse for generateContent and streamGenerateContent. A stream consists of server-sent
// events if the client requested them (alt=sse), else it is one JSON array of chunks. If a request for such an array fails,
// the answer is an array that contains the error.
//
// Two failures with status 200 also set Error: a blocked prompt sets it to promptFeedback, and an unreadable call
// (MALFORMED_FUNCTION_CALL) without other content sets it to the candidate.
func scanGeminiResponse(contentType string, body []byte, r *Response) {
	a := geminiAnswer{r: r}
	text := bytes.TrimSpace(body)
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		a.streamed = text[0] == '['
		s := scanner{b: text}
		a.value(&s)
		s.end()
		r.Cut = errors.Is(s.err, ErrTruncated)
		r.Malformed = r.Malformed || s.err != nil && (!r.Cut || !a.streamed)
		if !a.known && (a.chunks > 0 || r.Malformed) {
			r.Error = text
		}
	case sse.IsStream(body):
		a.stream(body)
	case len(text) == 0 && wire.FramingOf(contentType) == wire.SSE:
		a.streamed = true
	default: // HTML, plain text or an empty body
		r.Error, r.Malformed = text, true
	}
	a.finish()
}

// A geminiAnswer assembles a Response from one body or from the chunks of a stream.
type geminiAnswer struct {
	r         *Response
	f         Request     // buffer for reading parts
	m         Message     // message of these parts
	text      xxh3.Hasher // hash of the decoded text so far
	candidate []byte      // the raw candidate that has a finish reason
	signed    uint64
	output    int64 // tokens, excluding thoughts
	thoughts  int64
	chunks    int
	known     bool // a member of an answer, or an error, was read
	streamed  bool // there may be more than one chunk
	done      bool // a gateway's [DONE] was read
}

// stream assembles server-sent events. An error in the middle of a stream is sent as bare JSON, not as an event.
func (a *geminiAnswer) stream(body []byte) {
	a.streamed = true
	var s scanner
	for e := range sse.Events(body) {
		s = scanner{b: bytes.TrimSpace(e.Data), scratch: s.scratch[:0]}
		// There is usually one value, but several if a server omits the empty line between events.
		for s.space(); s.i < len(s.b) && !a.done; s.space() {
			if a.done = s.isDone(); !a.done {
				a.value(&s)
			}
		}
		a.r.Cut = errors.Is(s.err, ErrTruncated)
		a.r.Malformed = a.r.Malformed || s.err != nil && !a.r.Cut
		if a.done {
			break
		}
	}
	if a.r.FinishReason == "" && len(a.r.Error) == 0 {
		object, array := bytes.Index(body, []byte("\n{")), bytes.Index(body, []byte("\n[")) // lines of events do not start with these bytes
		if n := max(object, array); n >= 0 {
			if object >= 0 && array >= 0 {
				n = min(object, array)
			}
			a.value(&scanner{b: body[n+1:]})
		}
	}
}

// value reads a chunk, or an array of chunks.
func (a *geminiAnswer) value(s *scanner) {
	switch s.kind() {
	case Object:
		a.chunk(s)
	case Array:
		for more := s.open(); more; more = s.more(']') {
			if s.kind() == Object {
				a.chunk(s)
			} else {
				a.r.Malformed = true
				s.skip()
			}
		}
	default:
		s.fail(ErrNotJSON)
	}
}

// finish completes the Response. An empty text has no hash, as in a request.
func (a *geminiAnswer) finish() {
	r := a.r
	r.Malformed = r.Malformed || a.chunks > 0 && !a.known
	r.OutputTokens = a.output + a.thoughts
	r.ServerUse = a.m.Fields&FieldServerUse != 0
	if r.ContentBytes > 0 {
		r.ContentHash = a.text.Sum64()
	}
	if a.signed != 0 {
		r.Signed = []Signed{{Hash: a.signed}}
	}
	if r.FinishReason == "MALFORMED_FUNCTION_CALL" && r.ContentBytes == 0 && len(r.Calls) == 0 && len(r.Error) == 0 {
		r.Error = a.candidate
	}
	if a.streamed && !a.done && r.FinishReason == "" && len(r.Error) == 0 {
		r.Cut = true
	}
}
