package llmtap

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/event"
)

// Bounds on reading an error answer that the agent's code closed unread.
const (
	drainBytes   = 64 << 10
	drainTimeout = time.Second
)

// An exchange is one call while it lasts: its request is queued when it is sent, its response when it ends.
type exchange struct {
	hook   *Hook
	ctx    context.Context // of the call: says when it is cancelled
	ticket ticket
	start  time.Time

	mu       sync.Mutex // guards all below
	req, res event.Event
	reqBody  capture
	resBody  capture
	reqSent  bool
	ended    bool
	stream   *terminal // of a server-sent event stream
	want     int64     // Content-Length of the response, -1 if unknown
	got      int64
	stop     func() bool // ends the watch on ctx
}

// begin makes the exchange of a call, or nil if it cannot be recorded.
func (h *Hook) begin(req *http.Request) *exchange {
	id, err := uuid.NewV7()
	if err != nil {
		return nil
	}
	s := scopeOf(req.Context())
	x := &exchange{hook: h, ctx: req.Context(), start: time.Now(), want: -1}
	limit := maxBody
	if h.cfg.Capture == event.CaptureNone {
		limit = 0
	}
	x.reqBody, x.resBody = capture{queue: h.queue, limit: limit}, capture{queue: h.queue, limit: limit}
	x.req = event.Event{
		Kind: event.Request, Exchange: id.String(), Time: x.start, Labels: h.labels(&s), Attrs: s.attrs,
		Instance: h.instance, Client: s.client, Capture: h.cfg.Capture, Origin: h.cfg.Origin, SDK: "go/" + Version,
	}
	x.res = x.req
	x.res.Kind = event.Response
	x.req.URL = req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath()
	x.req.Method = req.Method
	x.req.APIVersion = apiVersion(req)
	x.req.Retry = retry(req.Header)
	x.req.Traceparent = req.Header.Get("Traceparent")
	x.req.ContentType, x.req.ContentEncoding = req.Header.Get("Content-Type"), encoding(req.Header)
	if s.last != nil {
		s.last.Store(&x.req.Exchange)
	}
	if !h.track(x) {
		return nil
	}
	return x
}

// apiVersion joins the values of the version headers; they are all of a request's headers that leave the process, with
// the trace. Azure has its version in the query.
func apiVersion(req *http.Request) string {
	var vs []string
	for _, k := range [...]string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Api-Version"} {
		if v := req.Header.Get(k); v != "" {
			vs = append(vs, v)
		}
	}
	if len(vs) == 0 && strings.Contains(req.URL.RawQuery, "api-version=") {
		return req.URL.Query().Get("api-version")
	}
	return strings.Join(vs, ", ")
}

func retry(h http.Header) int {
	n, err := strconv.Atoi(h.Get("X-Stainless-Retry-Count"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func encoding(h http.Header) string {
	if e := strings.ToLower(h.Get("Content-Encoding")); e != "identity" {
		return e
	}
	return ""
}

// sendRequest queues the request as far as its body is known; once.
func (x *exchange) sendRequest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sendRequestLocked()
}

func (x *exchange) sendRequestLocked() {
	if x.reqSent {
		return
	}
	x.reqSent = true
	x.putLocked(&x.req, &x.reqBody, 0)
}

func (x *exchange) putLocked(ev *event.Event, body *capture, half int) {
	if body.cut() {
		ev.Capture = event.CaptureCut
	}
	lost := body.lost
	var reserved int64
	ev.Body, reserved = body.take()
	x.hook.queue.put(ev, &x.ticket, half, reserved, lost)
}

// requestRead records bytes of a request body as the transport reads them.
func (x *exchange) requestRead(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reqSent {
		return
	}
	x.reqBody.write(p)
	if err == io.EOF { //nolint:errorlint // the end is io.EOF itself; an error that wraps it is an error
		x.sendRequestLocked()
	}
}

// answered begins the response.
func (x *exchange) answered(resp *http.Response) {
	x.sendRequest()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.res.FirstByte = time.Since(x.start)
	x.res.Status = resp.StatusCode
	x.res.ContentType, x.res.ContentEncoding = resp.Header.Get("Content-Type"), encoding(resp.Header)
	for _, k := range [...]string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid"} {
		if x.res.ProviderRequestID == "" {
			x.res.ProviderRequestID = resp.Header.Get(k)
		}
	}
	if x.resBody.limit == 0 && resp.StatusCode >= 400 {
		x.resBody.limit = maxError
	}
	if strings.HasPrefix(x.res.ContentType, "text/event-stream") && x.res.ContentEncoding == "" {
		x.stream = new(terminal)
	}
	x.want = resp.ContentLength
	if resp.Body == nil || resp.Body == http.NoBody || x.want == 0 || resp.StatusCode == http.StatusSwitchingProtocols {
		x.endLocked("")
		return
	}
	x.stop = context.AfterFunc(x.ctx, func() { x.end(context.Cause(x.ctx).Error()) })
	resp.Body = &responseBody{ReadCloser: resp.Body, x: x}
}

// responseRead records what the agent's code read of the answer.
func (x *exchange) responseRead(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	over := false
	if x.stream != nil {
		if n := x.stream.feed(p); n >= 0 {
			p, over = p[:n], true
		}
	}
	x.resBody.write(p)
	x.got += int64(len(p))
	switch {
	case over, err == io.EOF, err == nil && x.got == x.want: //nolint:errorlint // as in requestRead
		x.endLocked("")
	case err != nil:
		x.endLocked(err.Error())
	}
}

// unreadError says that the answer is an error whose end has not been read.
func (x *exchange) unreadError() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.ended && x.res.Status >= 400 && x.ctx.Err() == nil
}

// closed ends the exchange because the agent's code is done with the answer.
func (x *exchange) closed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stream != nil && x.stream.seen:
		x.endLocked("")
	case x.ctx.Err() != nil:
		x.endLocked(context.Cause(x.ctx).Error())
	default:
		x.endLocked("closed before the end of the body")
	}
}

// end queues the response, once. why is empty for an answer that came whole.
func (x *exchange) end(why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endLocked(why)
}

func (x *exchange) endLocked(why string) {
	if x.ended {
		return
	}
	x.ended = true
	if x.stop != nil {
		x.stop()
	}
	x.sendRequestLocked()
	x.res.Duration = time.Since(x.start)
	x.res.Time = x.start.Add(x.res.Duration)
	x.res.Error = why
	x.putLocked(&x.res, &x.resBody, 1)
	x.hook.untrack(x)
}

// A responseBody is the provider's answer; what is read through it is recorded.
type responseBody struct {
	io.ReadCloser
	x *exchange
}

func (b *responseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 || err != nil {
		b.x.responseRead(p[:n], err)
	}
	return n, err
}

// Close reads the rest of an error answer in the background, because its text is the evidence and SDKs that retry throw
// it away unread.
func (b *responseBody) Close() error {
	if b.x.unreadError() {
		go b.drain()
		return nil
	}
	b.x.closed()
	return b.ReadCloser.Close()
}

// drain reads what the agent's code left of an error answer, within bounds.
func (b *responseBody) drain() {
	limit := time.AfterFunc(drainTimeout, func() { b.ReadCloser.Close() })
	defer limit.Stop()
	_, _ = io.CopyN(io.Discard, struct{ io.Reader }{b}, drainBytes) // errors end the exchange in Read
	b.x.closed()
	b.ReadCloser.Close()
}

// A requestBody is a body that can be read only once; what the transport reads of it is recorded.
type requestBody struct {
	io.ReadCloser
	x *exchange
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.requestRead(p[:n], err)
	return n, err
}
