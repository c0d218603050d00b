package analyzer

import (
	"errors"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// bodies scans the bodies of events into facts. It reuses its buffers.
type bodies struct {
	inflater payload.Inflater
	memos    *memos
	request  facts.Request  // facts of the newest request
	response facts.Response // facts of the newest answer
}

// read returns the complete, decompressed body of ev, or false if ev has none that can be read. The body is valid
// until the next call.
func (b *bodies) read(s *step, ev *event.Event, at Position) ([]byte, bool) {
	// The beginning of an error answer is captured even if bodies are not, because it explains the error.
	onlyError := ev.Capture == event.CaptureNone && ev.Kind == event.Response && ev.Status >= 400
	if ev.Capture == event.CaptureNone && !onlyError || ev.Capture == event.CaptureCut || len(ev.Body) == 0 {
		return nil, false
	}
	body, err := b.inflater.Inflate(ev.ContentEncoding, ev.Body)
	if err != nil && onlyError {
		return nil, false // the compressed body was truncated
	}
	if err != nil {
		reason := dropEncoding
		if errors.Is(err, payload.ErrTooLarge) {
			reason = dropTooLarge
		}
		s.deadLetter(reason, ev, at, err)
		return nil, false
	}
	return body, true
}

// beginning returns the stored beginning of a truncated body; nil if the body is not truncated or is compressed.
func beginning(ev *event.Event) []byte {
	if ev.Capture != event.CaptureCut || ev.ContentEncoding != "" && ev.ContentEncoding != "identity" {
		return nil
	}
	return ev.Body[:len(ev.Body)/2]
}

// scanRequest scans the body of the request whose row is e. If the conversation id was given, it skips the messages
// that earlier requests contained.
func (b *bodies) scanRequest(s *step, e *Exchange, d wire.Dialect, body []byte) error {
	m := b.memos
	m.expire(s.now)
	if e.Labels.Conversation == "" {
		return facts.ScanRequest(d, body, &b.request)
	}
	k := memoKey{e.Labels.Service, e.Labels.Conversation, d}
	memo := m.get(k, len(body), s.now)
	if memo == nil {
		return facts.ScanRequest(d, body, &b.request)
	}
	known, err := facts.ScanRequestAfter(d, body, &memo.Memo, &b.request)
	m.account(&k, memo)
	for m.evict() {
		s.drop(dropMemo)
	}
	if s.emit {
		s.metrics.skipped.Add(float64(known))
	}
	s.metrics.memos.Set(float64(m.bytes))
	return err
}

// scanResponse scans the body of an answer and reports whether that succeeded. Without a complete body, the facts are
// empty.
func (b *bodies) scanResponse(d wire.Dialect, contentType string, body []byte, whole bool) bool {
	b.response = facts.Response{}
	return whole && d != wire.Other && facts.ScanResponse(d, contentType, body, &b.response) == nil
}

// unreadable returns an error if the body of a successful answer does not match its dialect. It returns nil for error
// statuses and for answers that the agent did not read to the end.
func unreadable(ev *event.Event, r *facts.Response) error {
	if !r.Malformed || ev.Status < 200 || ev.Status > 299 || ev.Error != "" {
		return nil
	}
	if r.Cut {
		return facts.ErrTruncated
	}
	return errors.New("answer is not of its dialect")
}
