package llmtap

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/event/redact"
	"github.com/llmtap/llmtap/ingest/shape"
	"github.com/llmtap/llmtap/ingest/wire"
)

// errNoRoom says that a body grew when it was decoded or redacted.
var errNoRoom = errors.New("no memory for the redacted body")

// prepare makes an event what may leave the process. It runs on the sender's goroutine, once for each event.
func (s *sender) prepare(it *item) {
	ev := it.ev
	brokenOff := ev.Error != ""
	if ev.Error == errUnread && whole(ev) {
		ev.Error = ""
	}
	if len(ev.Body) > 0 && (s.redact != nil || s.shaper != nil || isError(ev) || unreadable(ev.ContentEncoding)) {
		s.rewrite(it, brokenOff)
	}
	if unreadable(ev.ContentEncoding) {
		ev.ContentEncoding = "" // nothing is left of the body
	}
}

// rewrite replaces the body of an event by what may leave the process of it.
func (s *sender) rewrite(it *item, brokenOff bool) {
	ev := it.ev
	body, err := s.publishable(it, brokenOff)
	if err == nil && !s.queue.resize(it, cap(body)) {
		err = errNoRoom
	}
	if err != nil {
		s.log.Warn("llmtap: a body is withheld", "error", err)
		ev.Body, ev.Capture = nil, event.CaptureNone
		return
	}
	ev.Body, ev.ContentEncoding = body, ""
}

// isError says that ev is an error answer: its text is masked in every mode.
func isError(ev *event.Event) bool { return ev.Kind == event.Response && ev.Status >= 400 }

// startOfError says that no more than the first bytes of an error answer are kept. Compressed, no reader could decompress
// them.
func startOfError(ev *event.Event) bool {
	return isError(ev) && ev.Capture != event.CaptureFull && ev.Capture != event.CaptureCut
}

// publishable is the decoded body as the caller's redactor leaves it, masked if it is an error, else shaped if that is
// asked for. What cannot be decoded does not pass.
func (s *sender) publishable(it *item, brokenOff bool) (body []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			body, err = nil, fmt.Errorf("make a body publishable: panic: %v", r)
		}
	}()
	ev := it.ev
	body, err = decoded(ev, brokenOff)
	if err != nil && s.shaper != nil {
		return slices.Clone(s.shaper.Opaque(ev.Body)), nil
	}
	if err != nil {
		return nil, err
	}
	if s.redact != nil {
		body = s.redact(body)
	}
	switch {
	case startOfError(ev):
		body = masked(redact.Truncate(body, maxError))
		return body[:min(len(body), maxError)], nil
	case isError(ev) && s.shaper == nil:
		return masked(body), nil
	case s.shaper == nil:
		return body, nil
	}
	return s.shape(it, body), nil
}

// masked is an error's text without credentials and personal data.
func masked(text []byte) []byte {
	return redact.Append(make([]byte, 0, len(text)+len(text)/8), text)
}

// Memory that shaping a body of n bytes takes.
const (
	shapeMost    = 8       // times n, the most that a shape is long: "" becomes ~0: and a hash
	shapeUsual   = 2       // times n, when memory is short
	shapeScratch = 4       // times n, for texts that are decoded or joined
	shapeMin     = 4 << 10 // for a short body
)

// shape returns the shape of a body. The memory for it is reserved first; where there is not enough, length and hash
// are all that is published.
func (s *sender) shape(it *item, body []byte) []byte {
	ev := it.ev
	if ev.Capture == event.CaptureCut || it.x == nil {
		return slices.Clone(s.shaper.Opaque(body)) // the middle is missing, or nobody knows whose body it is
	}
	n := int64(len(body))
	limit := n*shapeMost + shapeMin
	if !s.queue.spare(limit + n*shapeScratch) {
		limit = n*shapeUsual + shapeMin
		if !s.queue.reserve(limit + n*shapeScratch) {
			return slices.Clone(s.shaper.Opaque(body))
		}
	}
	defer s.queue.release(limit + n*shapeScratch)
	f := (*shape.Shaper).Response
	if ev.Kind == event.Request {
		f = (*shape.Shaper).Request
	}
	return slices.Clone(f(s.shaper, it.x.dialect, body, int(limit)))
}

// whole reports whether the body of an answer that was closed before its end was read lacks nothing: a client that
// decodes JSON stops at the last brace, and one that decompresses a stream itself stops at its terminal event.
func whole(ev *event.Event) bool {
	body := ev.Body
	if ev.ContentEncoding != "" {
		body, _ = decode(ev.ContentEncoding, body, maxBody) // as far as it goes
	}
	if e := wire.NewStreamEnd(ev.ContentType); e != nil {
		return e.Feed(body) >= 0 || e.Near()
	}
	return json.Valid(body)
}
