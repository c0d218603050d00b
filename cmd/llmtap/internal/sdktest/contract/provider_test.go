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

// An exchange is one call as the provider saw it.
type exchange struct {
	path, method string // the path with its query
	header       http.Header
	request      []byte

	answer answer
	pieces [][]byte // of the answer, as they went over the network
	sized  bool
}

// response returns the answer's body as it went over the network.
func (x *exchange) response() []byte { return bytes.Join(x.pieces, nil) }

// A model is the provider of one run: it answers what its case says, or as the strict provider does.
type model struct {
	t       testing.TB
	server  *httptest.Server
	answers []answer
	strict  http.Handler
	done    chan struct{} // closed when the run is over

	mu    sync.Mutex // guards all below
	wire  []*exchange
	calls int
}

func startModel(t testing.TB, answers []answer) *model {
	m := &model{t: t, answers: answers, done: make(chan struct{}), strict: provider.New(provider.Config{Seed: 1})}
	m.server = httptest.NewUnstartedServer(http.HandlerFunc(m.serve))
	m.server.Config.ErrorLog = quietLog
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

// took returns what was asked and answered, in the order of the requests.
func (m *model) took() []*exchange {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.wire)
}

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent is gone
	}
	x := &exchange{path: r.RequestURI, method: r.Method, header: r.Header, request: body}
	m.mu.Lock()
	n := m.calls
	m.calls++
	m.mu.Unlock()
	if len(m.answers) == 0 {
		m.askStrict(x, r)
	} else {
		x.answer = m.answers[min(n, len(m.answers)-1)]
		x.pieces, x.sized = x.answer.pieces(m.t)
	}
	m.mu.Lock()
	m.wire = append(m.wire, x)
	m.mu.Unlock()
	m.say(w, r, x)
}

// askStrict lets the strict provider answer.
func (m *model) askStrict(x *exchange, r *http.Request) {
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

// say answers over the network.
func (m *model) say(w http.ResponseWriter, r *http.Request, x *exchange) {
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
			_ = http.NewResponseController(w).Flush() // fails only where the agent is gone
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

// reset ends the connection; before an answer, by a reset.
func (m *model) reset(w http.ResponseWriter, said bool) {
	if said {
		panic(http.ErrAbortHandler) // what was said still arrives
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

// A recorder is the ResponseWriter of an answer that is said later.
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

// replay returns the answers that make a model say again what it said to xs.
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

// errorClass says what kind of failure Llmtap-Error tells: none, cancelled, timeout, unread (the agent closed the answer)
// or other.
func errorClass(why string, cancelled bool) string {
	low := strings.ToLower(why)
	switch {
	case why == "":
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

var errTimeout = errors.New("it took too long")

// waitFor asks ok until it says yes; false after limit.
func waitFor(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}
