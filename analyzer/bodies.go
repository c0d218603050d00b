package analyzer

import (
	"errors"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/wire"
)

// bodies reads the bodies of events into facts. It reuses its memory.
type bodies struct {
	inflater payload.Inflater
	memos    *memos
	request  facts.Request  // of the newest request
	response facts.Response // of the newest answer
}

// read returns the whole, decompressed body of ev; false when there is none to read. It is valid until the next call.
func (b *bodies) read(s *step, ev *event.Event, at Position) ([]byte, bool) {
	// Even when no bodies are captured, the start of an error answer is: it explains the error.
	onlyError := ev.Capture == event.CaptureNone && ev.Kind == event.Response && ev.Status >= 400
	if ev.Capture == event.CaptureNone && !onlyError || ev.Capture == event.CaptureCut || len(ev.Body) == 0 {
		return nil, false
	}
	body, err := b.inflater.Inflate(ev.ContentEncoding, ev.Body)
	if err != nil && onlyError {
		return nil, false // cut inside its compression
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

// beginning returns the first bytes of a truncated body; nil when they cannot be read alone.
func beginning(ev *event.Event) []byte {
	if ev.Capture != event.CaptureCut || ev.ContentEncoding != "" && ev.ContentEncoding != "identity" {
		return nil
	}
	return ev.Body[:len(ev.Body)/2]
}

// scanRequest reads the body of the request whose row is e. Of a conversation with a given id, it skips what earlier
// requests contained.
func (b *bodies) scanRequest(s *step, e *Exchange, d wire.Dialect, body []byte) error {
	m := b.memos
	m.expire(s.now)
	if e.Labels.Conversation == "" {
		return facts.ScanRequest(d, body, &b.request)
	}
	k := memoKey{e.Labels.Service, e.Labels.Conversation, d}
	memo := m.get(k, s.now)
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

// scanResponse reads the body of an answer and reports whether it succeeded. Without a body, the facts are empty.
func (b *bodies) scanResponse(d wire.Dialect, contentType string, body []byte, whole bool) bool {
	b.response = facts.Response{}
	return whole && d != wire.Other && facts.ScanResponse(d, contentType, body, &b.response) == nil
}

// unreadable explains why an answer that claims success is not one of its dialect; nil when it is one, or is an error page,
// or the agent did not read it to its end.
func unreadable(ev *event.Event, r *facts.Response) error {
	if !r.Malformed || ev.Status < 200 || ev.Status > 299 || ev.Error != "" {
		return nil
	}
	if r.Cut {
		return facts.ErrTruncated
	}
	return errors.New("answer is not of its dialect")
}
