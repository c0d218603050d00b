package llmtap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// errNoMemory means that the memory limit leaves no room for a body that grew when it was decoded or redacted.
var errNoMemory = errors.New("no memory for the redacted body")

// prepare converts an event to its published form. It runs on the sender's goroutine, once per event.
func (s *sender) prepare(it *item) {
	ev := it.ev
	ev.Attrs = maskedAttrs(withDefaults(ev.Attrs, s.attrs))
	incomplete := ev.Error != ""
	if ev.Error == errUnread && complete(ev) {
		ev.Error = ""
	}
	if len(ev.Body) > 0 && (s.redact != nil || s.shaper != nil || isError(ev) || unpublishable(ev.ContentEncoding)) {
		s.rewrite(it, incomplete)
	}
	if unpublishable(ev.ContentEncoding) {
		ev.ContentEncoding = "" // the body is withheld
	}
}

// maskedAttrs returns attrs with credentials and personal data in the values masked. It does not change the map.
func maskedAttrs(attrs map[string]string) map[string]string {
	var buf [2 * event.MaxHeaderValue]byte
	copied := false
	for k, v := range attrs {
		text := redact.Append(buf[:0], []byte(v))
		if string(text) == v {
			continue
		}
		if !copied {
			attrs, copied = maps.Clone(attrs), true
		}
		attrs[k] = string(text)
	}
	return attrs
}

// withDefaults adds defaults to attrs, which override them, up to event.MaxAttrs in all. It changes neither map.
func withDefaults(attrs, defaults map[string]string) map[string]string {
	switch {
	case len(defaults) == 0:
		return attrs
	case len(attrs) == 0:
		return defaults
	}
	all := maps.Clone(attrs)
	for _, k := range slices.Sorted(maps.Keys(defaults)) {
		if _, ok := all[k]; !ok && len(all) < event.MaxAttrs {
			all[k] = defaults[k]
		}
	}
	return all
}

// rewrite replaces the body of an event with its published form.
func (s *sender) rewrite(it *item, incomplete bool) {
	ev := it.ev
	body, err := s.publishable(it, incomplete)
	if err == nil && !s.queue.resize(it, cap(body)) {
		err = errNoMemory
	}
	if err != nil {
		s.log.Warn("llmtap: withholding a body", "error", err)
		ev.Body, ev.Capture = nil, event.CaptureNone
		return
	}
	ev.Body, ev.ContentEncoding = body, ""
}

// isError reports whether ev is an error response. The text of an error response is masked in every mode.
func isError(ev *event.Event) bool { return ev.Kind == event.Response && ev.Status >= 400 }

// truncatedError reports whether only the first bytes of an error response are published. They must not be
// compressed, because readers could not decompress a part.
func truncatedError(ev *event.Event) bool {
	return isError(ev) && ev.Capture != event.CaptureFull && ev.Capture != event.CaptureCut
}

// publishable returns the decoded body after Config.Redact. The body of an error response is masked; other bodies are
// shaped in capture mode shape. If the body cannot be decoded, publishable returns its hash in capture mode shape,
// otherwise an error.
func (s *sender) publishable(it *item, incomplete bool) (body []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			body, err = nil, fmt.Errorf("redact a body: panic: %v", r)
		}
	}()
	ev := it.ev
	body, err = decoded(ev, incomplete)
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
	case truncatedError(ev):
		body = masked(redact.Truncate(body, maxError))
		return body[:min(len(body), maxError)], nil
	case isError(ev) && s.shaper == nil:
		return masked(body), nil
	case s.shaper == nil:
		return body, nil
	}
	return s.shape(it, body), nil
}

// masked returns the text of an error response with credentials and personal data masked.
func masked(text []byte) []byte {
	return redact.Append(make([]byte, 0, len(text)+len(text)/8), text)
}

// Memory needed to shape a body of n bytes.
const (
	shapeMost    = 8       // times n: the maximum length of a shape, because "" becomes ~0: and a hash
	shapeUsual   = 2       // times n: used when memory is short
	shapeScratch = 4       // times n: for decoded and joined texts
	shapeMin     = 4 << 10 // minimum, for short bodies
)

// shape returns the shape of a body. It reserves the memory first; if there is not enough, it returns only the length
// and hash of the body.
func (s *sender) shape(it *item, body []byte) []byte {
	ev := it.ev
	if ev.Capture == event.CaptureCut || it.pair == nil {
		return slices.Clone(s.shaper.Opaque(body)) // the middle is missing, or the dialect is unknown
	}
	n := int64(len(body))
	limit := n*shapeMost + shapeMin
	if !s.queue.reserveFree(limit + n*shapeScratch) {
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
	return slices.Clone(f(s.shaper, it.pair.dialect, body, int(limit)))
}

// complete reports whether the agent has read all of a response although it closed the body before its end. A client
// that decodes JSON stops reading at the last brace; a client that decompresses a stream itself stops at the terminal
// event.
func complete(ev *event.Event) bool {
	body := ev.Body
	if ev.ContentEncoding != "" {
		body, _ = decode(ev.ContentEncoding, body, maxBody) // if the body is broken, the part before the error
	}
	if e := wire.NewStreamEnd(ev.ContentType); e != nil {
		return e.Feed(body) >= 0 || e.Near()
	}
	return json.Valid(body)
}
