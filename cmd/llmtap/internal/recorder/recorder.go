/*
Package recorder writes the calls of a program as JSON lines, which llmtap lint and llmtap import read. It needs no NATS.

	program with hooks ── POST /v1/events ──> Recorder ── request and response joined ──> file
*/
package recorder

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/llmtap/llmtap/analyzer/facts"
	"github.com/llmtap/llmtap/analyzer/payload"
	"github.com/llmtap/llmtap/ingest/httpbody"
	"github.com/llmtap/llmtap/ingest/httpevents"
	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
)

const (
	maxInFlight = 256 << 20       // bytes of payloads
	drain       = 5 * time.Second // for payloads in flight when the program has ended
)

// A line has the names of recorded.Line.
type line struct {
	Time             time.Time         `json:"time"`
	Service          string            `json:"service,omitempty"`
	ServiceVersion   string            `json:"service_version,omitempty"`
	Environment      string            `json:"environment,omitempty"`
	Agent            string            `json:"agent,omitempty"`
	Stage            string            `json:"stage,omitempty"`
	Conversation     string            `json:"conversation,omitempty"`
	Run              string            `json:"run_id,omitempty"`
	Attributes       map[string]string `json:"attributes,omitempty"`
	Method           string            `json:"method,omitempty"`
	URL              string            `json:"url"`
	Request          json.RawMessage   `json:"request"`
	RequestEncoding  string            `json:"request_encoding,omitempty"`
	Status           int               `json:"status,omitempty"`
	Error            string            `json:"error,omitempty"`
	DurationMS       float64           `json:"duration_ms,omitempty"`
	Response         json.RawMessage   `json:"response,omitempty"`
	ResponseEncoding string            `json:"response_encoding,omitempty"`
}

// A Recorder writes calls in the order in which they end. It is safe for concurrent use.
type Recorder struct {
	listener net.Listener
	server   *http.Server

	mu       sync.Mutex // guards the fields below
	inflater payload.Inflater
	encoder  *json.Encoder
	calls    map[string]*line // by exchange; nil for one that is written, because a hook may send it again
	written  int
	err      error // the first error of the writer
}

// New returns a Recorder that listens on loopback.
func New(ctx context.Context, w io.Writer) (*Recorder, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	r := &Recorder{listener: l, encoder: json.NewEncoder(w), calls: map[string]*line{}}
	r.encoder.SetEscapeHTML(false)
	mux := http.NewServeMux()
	mux.Handle(httpevents.Path, httpevents.New(httpevents.Options{Publish: r.publish, Budget: httpbody.NewBudget(maxInFlight)}, nil))
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(l) }() // it ends in Close
	return r, nil
}

// URL returns the endpoint for hooks.
func (r *Recorder) URL() string { return "http://" + r.listener.Addr().String() }

// Close writes the calls without an answer, and returns the number of all calls and the first error of the writer.
func (r *Recorder) Close(ctx context.Context) (calls int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain) // a signal has ended ctx, but not the program that is recorded
	defer cancel()
	_ = r.server.Shutdown(ctx) // what it still receives is not written
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.calls)) { // ids begin with the time
		r.write(id, r.calls[id])
	}
	return r.written, r.err
}

// publish stores the events of a payload, whose memory is reused.
func (r *Recorder) publish(_ context.Context, events []*event.Event) ([]httpevents.Rejection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ev := range events {
		call, known := r.calls[ev.Exchange]
		switch {
		case ev.Kind == event.Request && !known:
			r.begin(ev)
		case ev.Kind == event.Response && call != nil:
			call.Status, call.Error, call.DurationMS = ev.Status, ev.Error, float64(ev.Duration)/float64(time.Millisecond)
			call.Response, call.ResponseEncoding = r.body(ev)
			r.write(ev.Exchange, call)
		}
	}
	return nil, r.err
}

// begin stores a request, unless it has no history: embeddings, or another program at a recorded host.
func (r *Recorder) begin(ev *event.Event) {
	l := ev.Labels
	call := &line{
		Time: ev.Time, Service: l.Service, ServiceVersion: l.ServiceVersion, Environment: l.Environment, Agent: l.Agent, Stage: l.Stage,
		Conversation: l.Conversation, Run: l.Run, Attributes: ev.Attrs, Method: ev.Method, URL: ev.URL,
	}
	call.Request, call.RequestEncoding = r.body(ev)
	if call.Request != nil && facts.Detect(ev.URL, "", call.Request).Dialect != wire.Other {
		r.calls[ev.Exchange] = call
	}
}

func (r *Recorder) write(id string, call *line) {
	r.calls[id] = nil
	if call == nil || r.err != nil {
		return
	}
	if r.err = r.encoder.Encode(call); r.err == nil {
		r.written++
	}
}

// body returns a body as a member of a line: JSON, else a string with its text or, if it is binary, its base64.
func (r *Recorder) body(ev *event.Event) (v json.RawMessage, encoding string) {
	text, err := r.inflater.Inflate(ev.ContentEncoding, ev.Body)
	if err != nil {
		text = ev.Body
	}
	if len(text) == 0 {
		return nil, ""
	}
	if json.Valid(text) {
		return slices.Clone(text), ""
	}
	s := string(text)
	if !utf8.Valid(text) {
		s, encoding = base64.StdEncoding.EncodeToString(text), "base64"
	}
	v, _ = json.Marshal(s) // a string can always be encoded
	return v, encoding
}
