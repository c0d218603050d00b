package llmtap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	eventsPath = "/v1/events"

	maxPayload      = 1 << 20 // bytes of a payload, unless a single event is longer
	endpointTimeout = 30 * time.Second
	maxRetryAfter   = 30 * time.Second
	maxAnswer       = 4 << 20 // bytes of an answer
)

// checkEndpoint accepts the URLs of receivers.
func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("invalid URL") // the error of url.Parse may contain a password
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("scheme %q is not https or http", u.Scheme)
	case u.Hostname() == "":
		return errors.New("no host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("user, query and fragment are not allowed; the token has a setting of its own")
	}
	return nil
}

// A refusedError is an answer of the endpoint that a later attempt may change.
type refusedError struct {
	status int
	text   string
	after  time.Duration // Retry-After
}

func (e *refusedError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.status, e.text) }

// An endpointSender sends queued events to a receiver over HTTP, oldest first, and retains each until NATS has stored it. It
// sends one payload at a time. After a failure it starts again with the oldest event.
type endpointSender struct {
	*sender
	url     string
	token   string
	cfg     *Config
	client  *http.Client // nil before the first payload, and after a failure: the files for TLS are read again
	payload []byte
	single  bool // send one event at a time, because the last payload was too large
}

func newEndpointSender(s *sender, cfg *Config) *endpointSender {
	return &endpointSender{sender: s, url: strings.TrimSuffix(strings.TrimRight(cfg.Endpoint, "/"), eventsPath) + eventsPath, token: cfg.Token, cfg: cfg}
}

// open makes the client.
func (s *endpointSender) open() error {
	files, err := s.cfg.clientTLS()
	if err != nil {
		return err
	}
	t := &http.Transport{ // not http.DefaultTransport, which may record its calls
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, ForceAttemptHTTP2: true, TLSClientConfig: files,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
	}
	s.client = &http.Client{Transport: t, Timeout: endpointTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return nil
}

func (s *endpointSender) close() {
	if s.client != nil {
		s.client.CloseIdleConnections()
		s.client = nil
	}
}

// run sends until ctx ends.
func (s *endpointSender) run(ctx context.Context) {
	defer s.close()
	for backoff := minBackoff; ; {
		err := s.turn(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			backoff = minBackoff
			continue
		}
		s.report.failed(err, s.queue.stats().Pending > 0, time.Now())
		s.queue.requeue()
		wait := backoff
		var refused *refusedError
		if errors.As(err, &refused) {
			wait = max(wait, min(refused.after, maxRetryAfter))
		} else {
			s.close()
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// turn waits for events, and sends a payload of the oldest ones.
func (s *endpointSender) turn(ctx context.Context) error {
	items := s.next()
	if len(items) == 0 {
		select {
		case <-s.queue.wake:
		case <-ctx.Done():
		}
		return nil
	}
	a, err := s.post(ctx)
	switch {
	case err != nil:
		return err
	case a.status == http.StatusRequestEntityTooLarge && len(items) > 1:
		s.single = true
		s.queue.requeue()
		return nil
	case a.status != http.StatusOK && len(a.Rejected) == 0:
		for _, it := range items {
			s.reject(it, errors.New(a.text()))
		}
		s.single = false
		return nil
	}
	s.single = false
	rejected := make(map[int]string, len(a.Rejected))
	for _, r := range a.Rejected {
		rejected[r.Event] = r.Error
	}
	for i, it := range items { // the oldest items in flight
		if why, ok := rejected[i]; ok {
			s.reject(it, errors.New(why))
		} else {
			s.published(s.queue.ack())
		}
	}
	s.report.succeeded(s.queue.droppedExchanges(), time.Now())
	return nil
}

// reject drops an exchange that the endpoint will never accept.
func (s *endpointSender) reject(it *item, err error) {
	s.log.Warn("llmtap: the endpoint rejects an exchange, dropping it", "error", err)
	s.queue.reject(it)
}

// next returns the oldest items, and encodes them to the payload.
func (s *endpointSender) next() (items []*item) {
	if s.payload = s.payload[:0]; cap(s.payload) > 2*maxPayload {
		s.payload = nil
	}
	for len(s.payload) < maxPayload && (!s.single || len(items) == 0) {
		it := s.queue.next(maxInFlight)
		if it == nil {
			break
		}
		if !it.prepared {
			s.prepare(it)
			it.prepared = true
		}
		items = append(items, it)
		s.payload = append(it.ev.AppendJSON(s.payload), '\n')
	}
	return items
}

// A reply is a final answer of the endpoint.
type reply struct {
	status   int
	Accepted *int   `json:"accepted"`
	Error    string `json:"error"`
	Rejected []struct {
		Event int    `json:"event"`
		Error string `json:"error"`
	} `json:"rejected"`
}

func (a *reply) text() string {
	return fmt.Sprintf("HTTP %d: %s", a.status, cmp.Or(a.Error, http.StatusText(a.status)))
}

// post sends the payload. An error means that it must be sent again.
func (s *endpointSender) post(ctx context.Context) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(s.payload))
	if err != nil {
		return nil, err
	}
	req.Header["Idempotency-Key"] = nil // not sent; permits net/http to retry on a connection that the server has closed
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("User-Agent", "llmtap-go/"+Version)
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	if s.client == nil {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // the reporter names the URL
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	a := &reply{status: resp.StatusCode}
	ours := json.Unmarshal(body, a) == nil && a.Accepted != nil
	switch {
	case ours && (a.status == http.StatusOK || dropping(a.status)), a.status == http.StatusRequestEntityTooLarge:
		return a, nil
	case a.status == http.StatusOK:
		return nil, &refusedError{a.status, "the answer is not that of llmtap", 0}
	}
	text := a.Error
	if text == "" {
		text = string(body[:min(len(body), 200)])
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return nil, &refusedError{a.status, cmp.Or(strings.TrimSpace(text), http.StatusText(a.status)), time.Duration(after) * time.Second}
}

// dropping reports whether a status of llmtap means that the events of a payload will never be stored. Any other status may
// change: with the receiver's state, the token or the URL.
func dropping(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// endpointFix returns what to do about an error of the endpoint.
func endpointFix(err error) string {
	var refused *refusedError
	ok := errors.As(err, &refused)
	switch text := err.Error(); {
	case ok && (refused.status == http.StatusUnauthorized || refused.status == http.StatusForbidden):
		return "set " + event.EnvToken + " to the token of receive.token"
	case ok && (refused.status == http.StatusTooManyRequests || refused.status >= 500):
		return "wait, or see /readyz and the log of llmtap up"
	case ok:
		return event.EnvEndpoint + " must be the URL of an llmtap with the role receive"
	case strings.Contains(text, "x509") || strings.Contains(text, "tls") || strings.Contains(text, "for TLS"):
		return "check the certificate of the endpoint, and whether its CA is in " + event.EnvCAFile
	}
	return "run llmtap up with the role receive, or correct " + event.EnvEndpoint
}
