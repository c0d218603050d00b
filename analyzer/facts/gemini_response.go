package facts

import (
	"bytes"
	"errors"

	"github.com/zeebo/xxh3"

	"github.com/llmtap/llmtap/ingest/wire/sse"
)

// scanGeminiResponse is ScanResponse for generateContent and streamGenerateContent. A stream is server-sent events if
// the client asked for them (alt=sse), else one JSON array of chunks; a call of the latter kind that failed is an array
// too, with the error in it.
//
// Error is also the promptFeedback of a prompt that was blocked, and the candidate whose call could not be read
// (MALFORMED_FUNCTION_CALL) when nothing else came: both are failures inside a 200.
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
	case isEventStream(contentType) && len(text) == 0:
		a.streamed = true
	default: // HTML, plain text, nothing
		r.Error, r.Malformed = text, true
	}
	a.finish()
}

// A geminiAnswer gathers a Response from one body or from the chunks of a stream.
type geminiAnswer struct {
	r         *Response
	f         Request     // reads the parts
	m         Message     // whose parts they are
	text      xxh3.Hasher // of the text seen so far, decoded
	candidate []byte      // raw: the one that finished
	signed    uint64
	output    int64 // tokens, without those of thoughts
	thoughts  int64
	chunks    int
	known     bool // a member of an answer was seen, or an error
	streamed  bool // more than one chunk may come
	done      bool // a gateway's [DONE] was seen
}

// stream assembles server-sent events. An error in the middle of a stream comes as bare JSON, which is no event.
func (a *geminiAnswer) stream(body []byte) {
	a.streamed = true
	var s scanner
	for e := range sse.Events(body) {
		s = scanner{b: bytes.TrimSpace(e.Data), scratch: s.scratch[:0]}
		// Usually one value; several where a server forgets the empty line between its events.
		for s.space(); s.i < len(s.b) && !a.done; s.space() {
			if a.done = bytes.HasPrefix(s.b[s.i:], []byte("[DONE]")); !a.done {
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
		object, array := bytes.Index(body, []byte("\n{")), bytes.Index(body, []byte("\n[")) // no field of an event starts so
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

// finish moves what was gathered into the Response. An empty text has no hash, as in a request.
func (a *geminiAnswer) finish() {
	r := a.r
	r.Malformed = r.Malformed || a.chunks > 0 && !a.known
	r.OutputTokens = a.output + a.thoughts
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
