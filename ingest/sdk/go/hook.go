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
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
)

// A Hook records the LLM calls of one process and publishes them. It is safe for concurrent use.
type Hook struct {
	cfg      Config
	instance string
	hosts    *hostSet
	unknown  *unknownHosts
	queue    *queue
	report   *reporter
	cancel   context.CancelFunc
	done     chan struct{} // closed by the sender when it exits
	account  atomic.Pointer[account]
	drains   chan struct{} // contains a token for each error response being read in the background; never closed

	mu     sync.Mutex             // guards the fields below
	active map[*exchange]struct{} // calls whose response has not ended
	closed bool
	beat   *time.Timer // calls heartbeat; nil in a proxy, whose services may have ended
	beats  int         // heartbeats queued
	stored uint64      // events stored at the last heartbeat
}

// heartbeatInterval is the time between two heartbeats.
const heartbeatInterval = time.Minute

// Stats are the counters of a Hook since Open.
type Stats struct {
	Published uint64 // exchanges whose request and response NATS has stored
	Events    uint64 // events that NATS has stored; an event in parts counts once
	Dropped   uint64 // exchanges dropped because memory ran out or NATS rejected them
	Pending   int    // events not stored yet
	Open      int    // calls whose response has not ended
	Bytes     int64  // memory reserved for pending events and for bodies being read; at most Config.MemoryLimit

	// Unrecorded is the number of calls that were not recorded because the host is unknown, although their path is one
	// of an LLM API. LLMTAP_HOSTS and Config.Hosts add hosts.
	Unrecorded uint64
}

// Open starts a Hook. It fails if cfg is invalid, but not if NATS is down: calls are queued in memory until NATS is
// reachable. Call Close before the process exits.
func Open(cfg Config) (*Hook, error) {
	if err := cfg.validate(os.Getenv); err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("generate instance id: %w", err)
	}
	report := newReporter(&cfg)
	var opts nats.Options
	if cfg.Endpoint == "" {
		if opts, err = natsOptions(&cfg, report); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Hook{
		cfg: cfg, instance: id.String(), hosts: cfg.hosts, unknown: &unknownHosts{log: cfg.Logger}, queue: newQueue(cfg.MemoryLimit), report: report,
		cancel: cancel, done: make(chan struct{}), drains: make(chan struct{}, maxDrains), active: make(map[*exchange]struct{}),
	}
	s := &sender{queue: h.queue, opts: opts, attrs: cfg.Attrs, redact: cfg.Redact, onPublished: cfg.OnPublished, log: cfg.Logger, report: report}
	if cfg.Capture == event.CaptureShape {
		s.shaper = shape.New(cfg.shapeKey)
	}
	run := s.run
	if cfg.Endpoint != "" {
		run = newEndpointSender(s, &cfg).run
	}
	go func() {
		defer close(h.done)
		run(ctx)
	}()
	if cfg.Origin == event.OriginHook {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.beat = time.AfterFunc(heartbeatInterval, h.heartbeat)
	}
	return h, nil
}

// heartbeat publishes that the process is alive, and schedules the next heartbeat. A process that has sent nothing needs none, and
// while nothing is stored, heartbeats would only fill the queue.
func (h *Hook) heartbeat() {
	s := h.queue.stats()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.beat.Reset(heartbeatInterval)
	if s.Events > h.stored || s.Events > 0 && s.Pending == 0 {
		h.stored = s.Events
		h.beats++
		h.push(&scope{}, event.Event{Kind: event.Hook, HookStatus: event.HookAlive})
	}
}

// Transport returns a transport that records calls and forwards them to base, or to http.DefaultTransport if base is
// nil. It records POST requests to known providers and to Config.Hosts; all other requests pass unchanged.
func (h *Hook) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	t := &transport{hook: h, base: base}
	if _, ok := base.(*http.Transport); !ok { // which observes the context of a request
		if c, ok := base.(canceler); ok {
			t.sent = new(sync.Map)
			return &cancelable{transport: t, base: c}
		}
	}
	return t
}

type transport struct {
	hook *Hook
	base http.RoundTripper
	pool pool
	sent *sync.Map // from requests of the agent that the base has not answered to those that were sent; nil unless the base is a canceler
}

// A canceler ends a request at the deadline of its http.Client. Transports older than Go 1.7 know no other way.
type canceler interface{ CancelRequest(*http.Request) }

// cancelable is the transport of a base that is a canceler.
type cancelable struct {
	*transport
	base canceler
}

// CancelRequest ends a request, as http.Client asks transports that can.
func (c *cancelable) CancelRequest(req *http.Request) {
	if sent, ok := c.sent.Load(req); ok {
		req = sent.(*http.Request)
	}
	c.base.CancelRequest(req)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var limited *pool
	if mayWait(t.base) {
		limited = &t.pool
		limited.begin()
		defer limited.end()
	}
	if !t.hook.selects(req) {
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
	if t.sent != nil {
		t.sent.Store(req, sent)
		defer t.sent.Delete(req)
	}
	resp, err := t.base.RoundTrip(sent)
	returned = true
	x.completeRequest(req.GetBody)
	switch {
	case err != nil:
		x.end(x.errorText(err))
	case resp == nil:
		x.end(errNoResponse)
	default:
		if resp.Request == sent {
			resp.Request = req
		}
		x.responded(resp)
		if b, ok := resp.Body.(*responseBody); ok {
			b.pool = limited
		}
	}
	return resp, err
}

// recordRequest returns a request whose body is recorded while the transport reads it. GetBody is not called before: several SDKs
// share one reader between it and Body, so that a second reader would empty the first.
func (x *exchange) recordRequest(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody || x.reqBody.limit <= 0 {
		x.sendRequest()
		return req
	}
	x.requestBodyPending()
	clone := *req
	clone.Body = &requestBody{ReadCloser: req.Body, x: x, again: req.GetBody != nil}
	if req.GetBody != nil {
		clone.GetBody = func() (io.ReadCloser, error) {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			x.requestAgain()
			return &requestBody{ReadCloser: body, x: x, again: true}, nil
		}
	}
	return &clone
}

// completeRequest records a body that the transport has closed before its end, for example without a connection. From then on, the
// agent too can only send it by getBody.
func (x *exchange) completeRequest(getBody func() (io.ReadCloser, error)) {
	if getBody == nil || !x.requestAbandoned() {
		return
	}
	body, err := getBody()
	if err != nil {
		return
	}
	defer body.Close()
	x.requestAgain()
	_, err = io.Copy(writeFunc(func(p []byte) { x.requestRead(p, nil) }), body)
	if err == nil {
		x.requestRead(nil, io.EOF)
	}
}

// track adds an active call. It returns false if the hook is closed.
func (h *Hook) track(x *exchange) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.active[x] = struct{}{}
	return true
}

func (h *Hook) untrack(x *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.active, x)
}

// Stats returns the current counters.
func (h *Hook) Stats() Stats {
	s := h.queue.stats()
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Open, s.Unrecorded = len(h.active), h.unknown.count()
	return s
}

// Flush waits until NATS has stored all exchanges that ended before the call. If ctx ends first, the error contains
// the number of pending exchanges.
func (h *Hook) Flush(ctx context.Context) error { return h.queue.flush(ctx) }

// closeGrace is the additional time that Close waits after Config.FlushTimeout for the sender to exit.
const closeGrace = 100 * time.Millisecond

// Close ends the recording of active calls, waits up to Config.FlushTimeout for pending events to be stored, and
// stops the hook. If exchanges are lost, Close logs and returns their number, the URL of NATS and the reason.
// Transports continue to work, but do not record. Close does not wait for a network or a Config.Redact that hangs.
//
// A process that is ended by a signal must call Close: see signal.NotifyContext.
func (h *Hook) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), h.cfg.FlushTimeout)
	defer cancel()
	h.waitForDrains()
	for _, x := range h.activeCalls() {
		x.end(errExit)
	}
	h.ended()
	var left unsent
	if h.Flush(ctx) != nil {
		left = h.queue.unsent()
	}
	err := h.report.lost(left, h.queue.droppedExchanges(), h.cfg.FlushTimeout)
	h.cancel()
	select {
	case <-h.done:
	case <-time.After(closeGrace):
	}
	return err
}

// ended stops the heartbeats, and publishes that the process has ended if it has published one.
func (h *Hook) ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beat != nil {
		h.beat.Stop()
	}
	if h.beats > 0 {
		h.push(&scope{}, event.Event{Kind: event.Hook, HookStatus: event.HookEnded})
	}
}

// waitForDrains waits at most half of Config.FlushTimeout for the error responses that are being read, and prevents
// new reads.
func (h *Hook) waitForDrains() {
	limit := time.After(h.cfg.FlushTimeout / 2)
	for range cap(h.drains) {
		select {
		case h.drains <- struct{}{}:
		case <-limit:
			return
		}
	}
}

func (h *Hook) activeCalls() []*exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.active))
}

// RunStarted publishes the start of the run set by WithRun; without a run it does nothing.
func (h *Hook) RunStarted(ctx context.Context) { h.runEvent(ctx, event.StatusStarted) }

// RunEnded publishes the end of the run set by WithRun. The status is ok if err is nil, cancelled if err is
// context.Canceled, and error otherwise.
func (h *Hook) RunEnded(ctx context.Context, err error) { h.runEvent(ctx, outcome(err)) }

// ToolStarted publishes the start of a tool. callID is the id of the model's tool call. The event belongs to the
// newest call made under the nearest WithConversation or WithRun of ctx; without such a call, or without an id,
// ToolStarted does nothing.
func (h *Hook) ToolStarted(ctx context.Context, callID string) {
	h.toolEvent(ctx, callID, event.StatusStarted)
}

// ToolEnded publishes the end of the tool call with id callID. The status is as in RunEnded.
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
	h.publish(&s, event.Event{Kind: event.Run, RunStatus: status})
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
		return // call ids are unique only within an exchange
	}
	h.publish(&s, ev)
}

func (h *Hook) publish(s *scope, ev event.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.push(s, ev)
	}
}

// push queues an event without a body. h.mu is held.
func (h *Hook) push(s *scope, ev event.Event) {
	ev.Time, ev.Labels, ev.Attrs = time.Now(), h.labels(s), s.attrs
	ev.Instance, ev.Client, ev.Origin, ev.SDK = h.instance, s.client, h.cfg.Origin, "go/"+Version
	h.queue.push(&ev, nil, 0, 0, false)
}
