package llmtap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/shape"
)

// A Hook records the LLM calls of one process and publishes them. It is safe for concurrent use.
type Hook struct {
	cfg      Config
	instance string
	hosts    *hostSet
	queue    *queue
	cancel   context.CancelFunc
	done     chan struct{} // closed by the sender when it has ended
	drains   chan struct{} // holds a token for each error answer that is read in the background; never closed

	mu     sync.Mutex             // guards all below
	open   map[*exchange]struct{} // calls whose answer has not ended
	closed bool
}

// Stats counts what a Hook did since Open.
type Stats struct {
	Published uint64 // exchanges whose request and response NATS has stored
	Events    uint64 // messages that NATS has stored, those in parts counted once
	Dropped   uint64 // exchanges given up for want of memory, or because NATS will never take them
	Pending   int    // events that wait to be stored
	Open      int    // calls whose answer has not ended
	Bytes     int64  // memory reserved for all that waits and for bodies being read; never above Config.MemoryLimit
}

// Open starts a Hook. A mistake in cfg is an error; NATS being down is not: calls are recorded in memory until it is
// there. Call Close at the end of the process.
func Open(cfg Config) (*Hook, error) {
	if err := cfg.validate(os.Getenv); err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make instance id: %w", err)
	}
	opts, err := natsOptions(&cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hook{
		cfg: cfg, instance: id.String(), hosts: newHostSet(cfg.Hosts), queue: newQueue(cfg.MemoryLimit),
		cancel: cancel, done: make(chan struct{}), drains: make(chan struct{}, maxDrains), open: make(map[*exchange]struct{}),
	}
	s := &sender{queue: h.queue, opts: opts, redact: cfg.Redact, told: cfg.OnPublished, log: cfg.Logger}
	if cfg.Capture == event.CaptureShape {
		s.shaper = shape.New(cfg.shapeKey)
	}
	go func() {
		defer close(h.done)
		s.run(ctx)
	}()
	return h, nil
}

// Transport returns base, or http.DefaultTransport if base is nil, with recording. Calls that are no POST, or go to
// hosts that are neither a known provider's nor in Config.Hosts, are passed on untouched.
func (h *Hook) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{hook: h, base: base}
}

type transport struct {
	hook *Hook
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodPost || req.URL == nil || !t.hook.hosts.records(req.URL) {
		return t.base.RoundTrip(req)
	}
	x := t.hook.begin(req)
	if x == nil {
		return t.base.RoundTrip(req)
	}
	returned := false
	defer func() {
		if !returned {
			x.end(errTransport)
		}
	}()
	sent := x.recordRequest(req)
	resp, err := t.base.RoundTrip(sent)
	returned = true
	switch {
	case err != nil:
		x.end(x.why(err))
	case resp == nil:
		x.end(errNoAnswer)
	default:
		if resp.Request == sent {
			resp.Request = req
		}
		x.answered(resp)
	}
	return resp, err
}

// recordRequest copies the body of a request that can be read twice, and queues it. Any other body is recorded as the
// transport reads it.
func (x *exchange) recordRequest(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody || x.reqBody.limit <= 0 {
		x.sendRequest()
		return req
	}
	x.sends()
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			x.copyRequest(body, req.ContentLength)
			return req
		}
	}
	clone := *req
	clone.Body = &requestBody{ReadCloser: req.Body, x: x}
	return &clone
}

// copyRequest reads body to its end; size is its length if that is known.
func (x *exchange) copyRequest(body io.ReadCloser, size int64) {
	defer body.Close()
	if size <= 0 || size > maxBody {
		_, err := io.Copy(writeFunc(func(p []byte) { x.requestRead(p, nil) }), body)
		x.requestCopied(nil, err)
		return
	}
	buf := x.requestRoom(int(size))
	n, err := io.ReadFull(body, buf)
	x.requestCopied(buf[:n], err)
}

// track remembers an open call; false once the hook is closed.
func (h *Hook) track(x *exchange) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.open[x] = struct{}{}
	return true
}

func (h *Hook) untrack(x *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.open, x)
}

// Stats returns the counts so far.
func (h *Hook) Stats() Stats {
	s := h.queue.snapshot()
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Open = len(h.open)
	return s
}

// Flush waits until NATS has stored all that ended before, or ctx ends: then the error says how many events are left.
func (h *Hook) Flush(ctx context.Context) error { return h.queue.flush(ctx) }

// closeGrace is how much longer than Config.FlushTimeout Close may take, for an orderly end of the sender.
const closeGrace = 100 * time.Millisecond

// Close ends the recording of calls that are still open, waits up to Config.FlushTimeout for what is to be published,
// and stops. Its error says how many events were lost. Transports keep working, without recording. Where the network or
// Config.Redact hangs, Close does not wait for them to end.
func (h *Hook) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.Background(), h.cfg.FlushTimeout, errors.New("NATS did not take them in time"))
	defer cancel()
	h.endDrains()
	for _, x := range h.stillOpen() {
		x.end(errExit)
	}
	err := h.Flush(ctx)
	h.cancel()
	select {
	case <-h.done:
	case <-time.After(closeGrace):
	}
	return err
}

// endDrains waits for the error answers that are being read, half of Config.FlushTimeout at most. No others are begun.
func (h *Hook) endDrains() {
	limit := time.After(h.cfg.FlushTimeout / 2)
	for range cap(h.drains) {
		select {
		case h.drains <- struct{}{}:
		case <-limit:
			return
		}
	}
}

func (h *Hook) stillOpen() []*exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.open))
}

// RunStarted publishes that the run of WithRun started; without a run it does nothing.
func (h *Hook) RunStarted(ctx context.Context) { h.runEvent(ctx, event.StatusStarted) }

// RunEnded publishes that the run of WithRun ended, in error if err is not nil; a context that was cancelled is no error.
func (h *Hook) RunEnded(ctx context.Context, err error) { h.runEvent(ctx, outcome(err)) }

// ToolStarted publishes that the tool which the model called with id callID started. It belongs to the newest call made
// under the nearest WithConversation or WithRun of ctx; before any, or without an id, it does nothing.
func (h *Hook) ToolStarted(ctx context.Context, callID string) {
	h.toolEvent(ctx, callID, event.StatusStarted)
}

// ToolEnded publishes that the tool of callID ended, in error if err is not nil; a context that was cancelled is no error.
func (h *Hook) ToolEnded(ctx context.Context, callID string, err error) {
	h.toolEvent(ctx, callID, outcome(err))
}

func outcome(err error) string {
	switch {
	case err == nil:
		return event.StatusOK
	case errors.Is(err, context.Canceled):
		return event.StatusCancelled
	}
	return event.StatusError
}

func (h *Hook) runEvent(ctx context.Context, status string) {
	s := scopeOf(ctx)
	if s.labels.Run == "" {
		return
	}
	h.step(&s, event.Event{Kind: event.Run, RunStatus: status})
}

func (h *Hook) toolEvent(ctx context.Context, callID, status string) {
	s := scopeOf(ctx)
	ev := event.Event{Kind: event.Tool, ToolCallID: callID, ToolStatus: status}
	if s.last != nil {
		if id := s.last.Load(); id != nil {
			ev.Exchange = *id
		}
	}
	if callID == "" || ev.Exchange == "" {
		return // nothing to tie it to: call ids alone are not unique
	}
	h.step(&s, ev)
}

func (h *Hook) step(s *scope, ev event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	ev.Time, ev.Labels, ev.Attrs = time.Now(), h.labels(s), s.attrs
	ev.Instance, ev.Client, ev.Origin, ev.SDK = h.instance, s.client, h.cfg.Origin, "go/"+Version
	h.queue.put(&ev, nil, 0, 0, false)
}
