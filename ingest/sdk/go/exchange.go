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

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

// Values of Llmtap-Error set by the hook; other values are texts of errors.
const (
	errUnread     = "closed before the end of the body"
	errAbandoned  = "neither read to its end nor closed"
	errExit       = "the process exited before the response ended"
	errNoResponse = "the transport returned neither a response nor an error"
	errTransport  = "the transport panicked"
)

// An exchange is a call in progress. The request is queued when it is sent, the response when it ends.
type exchange struct {
	hook  *Hook
	ctx   context.Context // context of the call, to detect cancellation
	pair  pair
	start time.Time
	query string // query of the URL; must not be published

	mu        sync.Mutex // guards the fields below
	req, res  event.Event
	reqBody   capture
	resBody   capture
	sending   bool  // the request body has not been read to its end
	reqWant   int64 // Content-Length of the request, not positive if unknown
	reqGot    int64
	reqClosed bool // the transport has closed the body, and may send it again
	reqSent   bool
	ended     bool
	stream    wire.StreamEnd // nil if the response is not a stream
	want      int64          // Content-Length of the response, -1 if unknown
	got       int64
	unwatch   func() bool // stops watching ctx
}

// begin returns a new exchange for req, or nil if the call cannot be recorded.
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
	x.pair.dialect = wire.PathDialect(req.URL.EscapedPath())
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
	x.req.Account = h.accountOf(req)
	x.req.Retry = retry(req.Header)
	if !h.cfg.NoCode {
		x.req.Code = agentCode().caller()
	}
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

// apiVersion joins the values of the version headers. On Azure, the version is in the query.
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

// An account is the text of wire.Account and its hash.
type account struct{ text, hash string }

// accountOf returns the hash of the account of req. It remembers the newest one, because a process seldom has several.
func (h *Hook) accountOf(req *http.Request) string {
	text := wire.Account(req.Header, req.URL.RawQuery)
	if text == "" {
		return ""
	}
	a := h.account.Load()
	if a == nil || a.text != text {
		a = &account{text, event.HashAccount(h.cfg.userKey, text)}
		h.account.Store(a)
	}
	return a.hash
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

// describe copies the content type and encoding from the headers h to ev. A body in an unknown encoding is not
// captured.
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

// sendRequest queues the request with the part of its body that was read. Further calls do nothing.
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
	x.req.Degraded = x.sending
	x.putLocked(&x.req, &x.reqBody, 0)
}

func (x *exchange) putLocked(ev *event.Event, body *capture, half int) {
	if body.cut() {
		ev.Capture = event.CaptureCut
	}
	lost := body.lost
	var reserved int64
	ev.Body, reserved = body.take()
	x.hook.queue.push(ev, &x.pair, half, reserved, lost)
}

// requestBodyPending records that the request has a body that has not been read yet.
func (x *exchange) requestBodyPending() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sending = true
	x.reqBody.expect()
}

// requestClosed records that the transport has closed the body, which it may send again.
func (x *exchange) requestClosed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reqClosed = true
}

// requestAbandoned reports whether the transport has closed the body before its end. A body that is still open may be read.
func (x *exchange) requestAbandoned() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.reqClosed && !x.reqSent
}

// requestAgain forgets what was read of the body, because the transport sends it again on another connection.
func (x *exchange) requestAgain() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.reqSent {
		x.reqBody.clear()
		x.reqGot, x.reqClosed = 0, false
	}
}

// requestRead records bytes of the request body while the transport reads them.
func (x *exchange) requestRead(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.reqSent {
		return
	}
	x.reqBody.write(p)
	x.reqGot += int64(len(p))
	if err == io.EOF || err == nil && x.reqGot == x.reqWant { //nolint:errorlint // only io.EOF itself is the end; an error that wraps it is an error
		x.sending = false
		x.sendRequestLocked()
	}
}

// responded records the status and headers of the response.
func (x *exchange) responded(resp *http.Response) {
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
	x.res.RateLimits = wire.FormatRateLimits(resp.Header)
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
	x.unwatch = context.AfterFunc(x.ctx, func() { x.end(x.errorText(x.ctx.Err())) })
	body := &responseBody{ReadCloser: resp.Body, x: x}
	runtime.AddCleanup(body, func(x *exchange) { x.end(errAbandoned) }, x)
	resp.Body = body
}

// responseRead records bytes of the response body while the agent reads them.
func (x *exchange) responseRead(p []byte, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	last := false
	if x.stream != nil {
		if n := x.stream.Feed(p); n >= 0 {
			p, last = p[:n], true
		}
	}
	x.resBody.write(p)
	x.got += int64(len(p))
	switch {
	case last, err == io.EOF, err == nil && x.got == x.want: //nolint:errorlint // as in requestRead
		x.endLocked("")
	case err != nil:
		x.endLocked(x.errorText(err))
	}
}

// errorText returns the text of err to publish: truncated and without the query of the URL, which may contain a key.
// If the call was cancelled, the text begins with the context's error.
func (x *exchange) errorText(err error) string {
	if ended := x.ctx.Err(); ended != nil {
		if err = context.Cause(x.ctx); err == ended { //nolint:errorlint // a cause that wraps it has more detail
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

// hasUnreadError reports whether the response is an error that has not been read to its end.
func (x *exchange) hasUnreadError() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.ended && x.res.Status >= 400 && x.ctx.Err() == nil
}

// closed ends the exchange when the agent closes the response.
func (x *exchange) closed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stream != nil && x.stream.Near():
		x.endLocked("")
	case x.ctx.Err() != nil:
		x.endLocked(x.errorText(x.ctx.Err()))
	case x.stream == nil && x.want < 0 && x.resBody.limit <= 0:
		x.endLocked("") // bodies are not recorded, so completeness is unknown
	default:
		x.endLocked(errUnread)
	}
}

// end queues the response. errorText is empty for a complete response. Further calls do nothing.
func (x *exchange) end(errorText string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endLocked(errorText)
}

func (x *exchange) endLocked(errorText string) {
	if x.ended {
		return
	}
	x.ended = true
	if x.unwatch != nil {
		x.unwatch()
	}
	x.sendRequestLocked()
	x.res.Duration = time.Since(x.start)
	x.res.Time = x.start.Add(x.res.Duration)
	x.res.Error = errorText
	x.putLocked(&x.res, &x.resBody, 1)
	x.hook.untrack(x)
}
