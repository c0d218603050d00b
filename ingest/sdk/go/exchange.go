package llmtap

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/llmtap/llmtap/ingest/event"
	"github.com/llmtap/llmtap/ingest/event/redact"
	"github.com/llmtap/llmtap/ingest/wire"
)

// Values of Llmtap-Error that are the hook's own.
const (
	errUnread    = "closed before the end of the body"
	errLeft      = "neither read to its end nor closed"
	errExit      = "the process ended before the answer did"
	errNoAnswer  = "the transport returned neither an answer nor an error"
	errTransport = "the transport panicked"
)

// An exchange is one call while it lasts: its request is queued when it is sent, its response when it ends.
type exchange struct {
	hook   *Hook
	ctx    context.Context // of the call: says when it is cancelled
	ticket ticket
	start  time.Time
	query  string // of the call's URL: kept out of what is published

	mu       sync.Mutex // guards all below
	req, res event.Event
	reqBody  capture
	resBody  capture
	sending  bool // the body of the request has not been read to its end
	reqWant  int64
	reqGot   int64
	reqSent  bool
	ended    bool
	stream   wire.StreamEnd // nil if the response has none
	want     int64          // Content-Length of the response, -1 if unknown
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
	x := &exchange{hook: h, ctx: req.Context(), start: time.Now(), query: req.URL.RawQuery, reqWant: req.ContentLength, want: -1}
	limit := maxBody
	if h.cfg.Capture == event.CaptureNone {
		limit = 0
	}
	x.ticket.dialect = wire.PathDialect(req.URL.EscapedPath())
	x.reqBody = capture{queue: h.queue, limit: limit, want: req.ContentLength}
	x.resBody = capture{queue: h.queue, limit: limit}
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
	x.req.Traceparent = h.traceparent(req)
	describe(&x.req, &x.reqBody, req.Header)
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
		vs = append(vs, req.Header.Values(k)...)
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

func (h *Hook) traceparent(req *http.Request) string {
	if v := req.Header.Get("Traceparent"); v != "" || h.cfg.Traceparent == nil {
		return v
	}
	return h.cfg.Traceparent(req.Context())
}

// describe sets what the headers of a body say about it. A body in an encoding that nobody here knows is not captured.
func describe(ev *event.Event, body *capture, h http.Header) {
	ev.ContentType = h.Get("Content-Type")
	switch e := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ","))); e {
	case "", "identity":
	case "gzip", "x-gzip":
		ev.ContentEncoding = "gzip"
	case "zstd", "br", "deflate":
		ev.ContentEncoding = e
	default:
		body.limit, ev.Capture = -1, event.CaptureNone
	}
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
	x.req.Degraded = x.sending // what was not read of the body is no evidence
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

// sends says that the request has a body, which is still to be read.
func (x *exchange) sends() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sending = true
}

// requestRoom is memory for a request body of n bytes, to be given back with requestCopied; nil if there is none.
func (x *exchange) requestRoom(n int) []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reqSent {
		return nil
	}
	return x.reqBody.room(n)
}

// requestCopied queues the request, whose body has been read to its end or up to err. It is body, which is in the memory
// of requestRoom, or what requestRead recorded.
func (x *exchange) requestCopied(body []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reqSent {
		return
	}
	if body != nil {
		x.reqBody.adopt(body)
	}
	x.sending = err != nil
	x.sendRequestLocked()
}

// requestRead records bytes of a request body as the transport reads them.
func (x *exchange) requestRead(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reqSent {
		return
	}
	x.reqBody.write(p)
	x.reqGot += int64(len(p))
	if err == io.EOF || err == nil && x.reqGot == x.reqWant { //nolint:errorlint // the end is io.EOF itself; an error that wraps it is an error
		x.sending = false
		x.sendRequestLocked()
	}
}

// answered begins the response.
func (x *exchange) answered(resp *http.Response) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.res.FirstByte = time.Since(x.start)
	x.res.Status = resp.StatusCode
	describe(&x.res, &x.resBody, resp.Header)
	for _, k := range [...]string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid"} {
		if x.res.ProviderRequestID == "" {
			x.res.ProviderRequestID = resp.Header.Get(k)
		}
	}
	if resp.StatusCode >= 400 && x.resBody.limit >= 0 && x.hook.cfg.Capture != event.CaptureFull {
		x.resBody.limit = errorRead
	}
	if x.res.ContentEncoding == "" {
		x.stream = wire.NewStreamEnd(x.res.ContentType)
	}
	x.want, x.resBody.want = resp.ContentLength, resp.ContentLength
	if resp.Body == nil || resp.Body == http.NoBody || x.want == 0 || resp.StatusCode == http.StatusSwitchingProtocols {
		x.endLocked("")
		return
	}
	x.stop = context.AfterFunc(x.ctx, func() { x.end(x.why(x.ctx.Err())) })
	body := &responseBody{ReadCloser: resp.Body, x: x}
	runtime.AddCleanup(body, func(x *exchange) { x.end(errLeft) }, x)
	resp.Body = body
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
		if n := x.stream.Feed(p); n >= 0 {
			p, over = p[:n], true
		}
	}
	x.resBody.write(p)
	x.got += int64(len(p))
	switch {
	case over, err == io.EOF, err == nil && x.got == x.want: //nolint:errorlint // as in requestRead
		x.endLocked("")
	case err != nil:
		x.endLocked(x.why(err))
	}
}

// why is err as it is published: short, without the query of the call's URL, which may hold a key, and plain about a
// call that was cancelled, whatever the cause given.
func (x *exchange) why(err error) string {
	if ended := x.ctx.Err(); ended != nil {
		if err = context.Cause(x.ctx); err == ended { //nolint:errorlint // a cause that wraps it says more
			return ended.Error()
		}
		err = fmt.Errorf("%w: %w", ended, err)
	}
	s := err.Error()
	if x.query != "" {
		s = strings.ReplaceAll(s, x.query, "…")
	}
	return clip(string(redact.Append(nil, []byte(s))))
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
	case x.stream != nil && x.stream.Near():
		x.endLocked("")
	case x.ctx.Err() != nil:
		x.endLocked(x.why(x.ctx.Err()))
	case x.stream == nil && x.want < 0 && x.resBody.limit <= 0:
		x.endLocked("") // without the body nobody can say whether something was left of it
	default:
		x.endLocked(errUnread)
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
