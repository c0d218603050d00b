package contract

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmtap/llmtap/cmd/llmtap/internal/fleet/provider"
)

// An exchange is one call as recorded by the provider.
type exchange struct {
	path, method string // the path with its query
	header       http.Header
	request      []byte

	answer answer
	pieces [][]byte // of the response body as sent over the network
	sized  bool
}

// response returns the response body as sent over the network.
func (x *exchange) response() []byte { return bytes.Join(x.pieces, nil) }

// A model is the provider of one run. It responds as configured by the case, or as the strict provider.
type model struct {
	t       testing.TB
	server  *httptest.Server
	answers []answer
	strict  http.Handler
	done    chan struct{} // closed at the end of the run

	mu    sync.Mutex // guards all below
	wire  []*exchange
	calls int
}

func startModel(t testing.TB, answers []answer) *model {
	m := &model{t: t, answers: answers, done: make(chan struct{}), strict: provider.New(provider.Config{Seed: 1})}
	m.server = httptest.NewUnstartedServer(http.HandlerFunc(m.serve))
	m.server.Config.ErrorLog = quietLog
	m.server.Config.Protocols = new(http.Protocols)
	m.server.Config.Protocols.SetHTTP1(true)
	m.server.Config.Protocols.SetUnencryptedHTTP2(true) // the AWS SDK for JavaScript
	m.server.Start()
	if len(answers) == 1 && answers[0].End == "refused" {
		m.server.Listener.Close()
	}
	return m
}

func (m *model) close() {
	close(m.done)
	m.server.CloseClientConnections()
	m.server.Close()
}

func (m *model) host() string { return m.server.Listener.Addr().String() }

// exchanges returns the recorded exchanges in the order of the requests.
func (m *model) exchanges() []*exchange {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.wire)
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has disconnected
	}
	x := &exchange{path: r.RequestURI, method: r.Method, header: r.Header, request: body}
	m.mu.Lock()
	n := m.calls
	m.calls++
	m.mu.Unlock()
	if len(m.answers) == 0 {
		m.respondStrict(x, r)
	} else {
		x.answer = m.answers[min(n, len(m.answers)-1)]
		x.pieces, x.sized = x.answer.pieces(m.t)
	}
	m.mu.Lock()
	m.wire = append(m.wire, x)
	m.mu.Unlock()
	m.respond(w, r, x)
}

// respondStrict gets the response from the strict provider.
func (m *model) respondStrict(x *exchange, r *http.Request) {
	r2 := r.Clone(context.Background())
	r2.Body = io.NopCloser(bytes.NewReader(x.request))
	rec := &recorder{header: make(http.Header)}
	m.strict.ServeHTTP(rec, r2)
	x.answer = answer{Status: max(rec.status, http.StatusOK), Headers: make(map[string]string)}
	for k, v := range rec.header {
		x.answer.Headers[k] = v[0]
	}
	x.pieces, x.sized = rec.pieces, len(rec.pieces) == 1
}

// respond writes the response.
func (m *model) respond(w http.ResponseWriter, r *http.Request, x *exchange) {
	a := &x.answer
	if a.Status != 0 {
		for k, v := range a.Headers {
			w.Header().Set(k, v)
		}
		if a.Encoding != "" {
			w.Header().Set("Content-Encoding", a.Encoding)
		}
		if length := max(a.Length, len(x.response())); x.sized && length > 0 {
			w.Header().Set("Content-Length", strconv.Itoa(length))
		}
		w.WriteHeader(a.Status)
		for _, p := range x.pieces {
			if _, err := w.Write(p); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush() // fails only if the agent has disconnected
		}
	}
	switch a.End {
	case "reset":
		m.reset(w, len(x.pieces) > 0)
	case "hold":
		select {
		case <-m.done:
		case <-r.Context().Done():
		}
	}
}

// reset closes the connection, with a TCP reset if nothing was sent.
func (m *model) reset(w http.ResponseWriter, sent bool) {
	if sent {
		panic(http.ErrAbortHandler) // the sent data still arrives
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		m.t.Error(err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the connection is closed next
	}
	conn.Close()
}

// A recorder is a ResponseWriter that stores the response.
type recorder struct {
	header http.Header
	status int
	pieces [][]byte
}

func (r *recorder) Header() http.Header    { return r.header }
func (r *recorder) WriteHeader(status int) { r.status = status }
func (r *recorder) Flush()                 {}
func (r *recorder) Write(p []byte) (int, error) {
	r.pieces = append(r.pieces, bytes.Clone(p))
	return len(p), nil
}

// replay returns answers with the responses of xs.
func replay(xs []*exchange) []answer {
	var as []answer
	for _, x := range xs {
		a := x.answer
		if a.Encoding != "" {
			a.Headers = maps.Clone(a.Headers)
			a.Headers["Content-Encoding"] = a.Encoding
		}
		a.Encoding, a.Short, a.Body, a.Events = "", 0, nil, nil
		if x.sized {
			a.Body = &text{Base64: x.response()}
		} else {
			for _, p := range x.pieces {
				a.Events = append(a.Events, string(p))
			}
		}
		as = append(as, a)
	}
	return as
}

// errorClass returns the class of Llmtap-Error: none, cancelled, timeout, unread (the agent closed the response) or other.
func errorClass(text string, cancelled bool) string {
	low := strings.ToLower(text)
	switch {
	case text == "":
		return "none"
	case cancelled:
		return "cancelled"
	case strings.Contains(low, "timeout"), strings.Contains(low, "timed out"), strings.Contains(low, "deadline"):
		return "timeout"
	case strings.Contains(low, "closed before the end of the body"):
		return "unread"
	}
	return "other"
}

var errTimeout = errors.New("timed out")

// waitFor polls ok until it returns true. It returns false after limit.
func waitFor(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}
