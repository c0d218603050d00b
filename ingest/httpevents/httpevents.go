package httpevents

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/jetstream"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

// Path is the path of the endpoint below the URL of the receiver.
const Path = "/v1/events"

// storeTimeout is the time in which JetStream must store a payload. Clients try again later.
const storeTimeout = 5 * time.Second

// A Rejection is an event that can never be stored.
type Rejection = jetstream.Rejection

// Options are the dependencies of a Handler.
type Options struct {
	// Publish stores events in order and returns those that can never be stored. An error means that none counts as stored.
	Publish func(context.Context, []*event.Event) ([]Rejection, error)
	Budget  *httpbody.Budget // of all receivers
}

// A Handler stores the events of payloads. It is safe for concurrent use.
type Handler struct {
	publish func(context.Context, []*event.Event) ([]Rejection, error)
	budget  *httpbody.Budget
	m       *metrics
}

// New returns a Handler. Metrics are registered only if reg is not nil.
func New(o Options, reg prometheus.Registerer) *Handler {
	return &Handler{publish: o.Publish, budget: o.Budget, m: newMetrics(reg, o.Budget)}
}

// An Answer is the body of a response.
type Answer struct {
	Error    string     `json:"error,omitempty"`
	Accepted int        `json:"accepted"` // events stored by JetStream
	Rejected []Rejected `json:"rejected"` // events that can never be stored
	Warnings []string   `json:"warnings"`
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	a := Answer{Rejected: []Rejected{}, Warnings: []string{}}
	status := http.StatusOK
	if err := h.receive(r, &a); err != nil {
		status, a.Error = http.StatusServiceUnavailable, "the events are not stored: "+err.Error()
		if refused, ok := errors.AsType[*httpbody.Error](err); ok {
			status, a.Error = refused.Status, refused.Message
		}
	}
	switch status {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPost)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", httpbody.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // an error means that the client is gone
	h.m.requests.WithLabelValues(strconv.Itoa(status)).Inc()
	h.m.duration.Observe(time.Since(start).Seconds())
}

// receive stores the events of a payload. An error that is not an *httpbody.Error means that none counts as stored.
func (h *Handler) receive(r *http.Request, a *Answer) error {
	if r.Method != http.MethodPost {
		return &httpbody.Error{Status: http.StatusMethodNotAllowed, Message: "send events with POST"}
	}
	payload, err := httpbody.Read(r, h.budget)
	if err != nil {
		return err
	}
	defer payload.Release()
	d := &decoder{payload: payload, now: time.Now().UTC(), client: r.RemoteAddr}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		d.client = host
	}
	if err := d.decode(r.Header.Get("Content-Type")); err != nil {
		return err
	}
	a.Warnings = append(a.Warnings, d.warnings...)
	a.Rejected = append(a.Rejected, d.rejected...)
	if len(d.events) > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		rejected, err := h.publish(ctx, d.events)
		if err != nil {
			a.Rejected = a.Rejected[:0] // the client sends the whole payload again
			return err
		}
		for _, r := range rejected {
			a.Rejected = append(a.Rejected, Rejected{d.indexes[r.Index], r.Err.Error()})
		}
		a.Accepted = len(d.events) - len(rejected)
		h.m.dropped.WithLabelValues(reasonTooLarge).Add(float64(len(rejected)))
	}
	h.m.received.Add(float64(d.count))
	h.m.stored.Add(float64(a.Accepted))
	h.m.dropped.WithLabelValues(reasonMalformed).Add(float64(len(d.rejected)))
	if a.Accepted == 0 {
		return malformed("no event is valid")
	}
	return nil
}
