package llmtap

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/llmtap/llmtap/ingest/event"
)

// errNoRoom says that a body grew when it was decoded or redacted.
var errNoRoom = errors.New("no memory for the redacted body")

// prepare makes an event what may leave the process. It runs on the sender's goroutine, once for each event.
func (s *sender) prepare(it *item) {
	ev := it.ev
	if ev.Error == errUnread && whole(ev) {
		ev.Error = ""
	}
	if len(ev.Body) == 0 || s.redact == nil && !shortGzip(ev) {
		return
	}
	body, err := s.publishable(ev)
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

// shortGzip says that ev has the first bytes of a compressed error answer, which no reader could decompress.
func shortGzip(ev *event.Event) bool {
	return ev.Capture == event.CaptureNone && ev.ContentEncoding == "gzip"
}

// publishable is the decoded body of ev as the caller's redactor leaves it. What cannot be decoded does not pass.
func (s *sender) publishable(ev *event.Event) (body []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("redact a body: panic: %v", r)
		}
	}()
	switch {
	case ev.ContentEncoding == "":
		body = ev.Body
	case shortGzip(ev):
		body, _ = gunzip(ev.Body, maxError) // as far as it goes
	case ev.ContentEncoding == "gzip":
		if body, err = gunzip(ev.Body, maxBody+1); err != nil || len(body) > maxBody {
			return nil, fmt.Errorf("decode a body to redact it: %d bytes: %w", len(body), errors.Join(err, errors.ErrUnsupported))
		}
	default:
		return nil, fmt.Errorf("decode a body to redact it: content encoding %q: %w", ev.ContentEncoding, errors.ErrUnsupported)
	}
	if s.redact == nil {
		return body, nil
	}
	return s.redact(body), nil
}

// gunzip returns what b decompresses to, up to limit bytes; on an error, what came before it.
func gunzip(b []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("read gzip header: %w", err)
	}
	return io.ReadAll(io.LimitReader(z, limit))
}

// whole reports whether the body of an answer that was closed before its end was read lacks nothing: a client that
// decodes JSON stops at the last brace, and one that decompresses a stream itself stops at its terminal event.
func whole(ev *event.Event) bool {
	body := ev.Body
	if ev.ContentEncoding == "gzip" {
		body, _ = gunzip(body, maxBody)
	}
	if e := endingOf(ev.ContentType); e != nil {
		return e.feed(body) >= 0 || e.near()
	}
	return json.Valid(body)
}
