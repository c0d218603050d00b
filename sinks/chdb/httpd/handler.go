package httpd

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/ingest/loopback"
	"github.com/llmtap/llmtap/sinks/chdb/engine"
)

// User has all rights that the engine grants, Reader may only read.
const (
	User   = "default"
	Reader = "reader"
)

// slotTimeout is the maximum time a request waits for one of MaxConcurrentQueries slots; then it fails with code 202.
const slotTimeout = 10 * time.Second

// Config configures a Handler.
type Config struct {
	Password             string // of User
	ReaderPassword       string // of Reader; empty: there is none
	MaxConcurrentQueries int
	Connect              func() (*engine.Conn, error)
	Server               Server
	Observe              func(Query) // called once per statement, concurrently
}

// Server describes the engine.
type Server struct {
	Version     string // e.g. 26.7.2.1
	DisplayName string
	Timezone    string
}

// A Query describes a completed statement.
type Query struct {
	ID          string `json:"id"`
	Kind        string `json:"kind"` // select, insert, ddl, other
	Code        int    `json:"code"` // ClickHouse's exception code; 0 if there was no exception
	Nanoseconds int64  `json:"ns"`
	ReadRows    uint64 `json:"read_rows"`
	WrittenRows uint64 `json:"written_rows"`
}

// A Handler serves ClickHouse's HTTP interface.
type Handler struct {
	cfg      Config
	slots    chan struct{} // contains one value per running statement
	sessions *sessions
}

// New returns a Handler. The caller must close it once no requests are running.
func New(cfg Config) *Handler {
	return &Handler{cfg: cfg, slots: make(chan struct{}, cfg.MaxConcurrentQueries), sessions: &sessions{connect: cfg.Connect, open: map[string]*session{}}}
}

// Close closes the connections of all sessions.
func (h *Handler) Close() { h.sessions.close() }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !local(r) {
		http.Error(w, "this ClickHouse serves only programs on this machine: invalid Host or Origin", http.StatusForbidden)
		return
	}
	if p := r.URL.Path; p == "/ping" || p == "/replicas_status" || p == "/" && r.URL.RawQuery == "" && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "Ok.\n")
		return
	}
	start := time.Now()
	req, err := newRequest(r)
	res := newResponse(w, req, h.cfg.Server)
	if err == nil {
		err = h.authorize(req)
	}
	var done Query
	if err == nil {
		done, err = h.serve(r.Context(), req, res)
	}
	done.ID, done.Nanoseconds = req.queryID, time.Since(start).Nanoseconds()
	if err == nil {
		res.finish()
	} else {
		done.Code = int(codeOf(err, r.Context()))
	}
	if done.Kind == "" {
		done.Kind = "other"
	}
	h.cfg.Observe(done)
	if err != nil {
		res.fail(err, r.Context())
	}
}

// local reports whether the request was addressed to this machine. A request that a browser was tricked into sending
// (DNS rebinding, a form on another page) has a Host that is not a loopback host, or an Origin.
func local(r *http.Request) bool {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return false
	}
	return loopback.Is(r.Host)
}

// authorize checks user and password of req. What GET may do, is all that Reader may do.
func (h *Handler) authorize(req *request) error {
	r, q := req.http, req.url
	user, password, ok := r.BasicAuth()
	if !ok {
		user, password = r.Header.Get("X-ClickHouse-User"), r.Header.Get("X-ClickHouse-Key")
		if user == "" && password == "" {
			user, password = q.Get("user"), q.Get("password")
		}
	}
	if user == "" {
		user = User
	}
	req.readOnly = user == Reader || r.Method == http.MethodGet
	want := map[string]string{User: h.cfg.Password, Reader: h.cfg.ReaderPassword}[user]
	if want == "" || subtle.ConstantTimeCompare([]byte(password), []byte(want)) != 1 {
		return exceptionf(proto.ErrAuthenticationFailed, "%s: Authentication failed: password is incorrect, or there is no user with such name", user)
	}
	return nil
}

// slot waits for a free slot for a statement. The caller must call release to free the slot.
func (h *Handler) slot(ctx context.Context) (release func(), err error) {
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	default:
	}
	t := time.NewTimer(slotTimeout)
	defer t.Stop()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.C:
		return nil, exceptionf(proto.ErrTooManySimultaneousQueries, "Too many simultaneous queries. Maximum: %d", cap(h.slots))
	}
}

func exceptionf(code proto.Error, format string, args ...any) error {
	return &engine.Error{Code: int(code), Message: fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", int(code), fmt.Sprintf(format, args...), code)}
}

func codeOf(err error, ctx context.Context) proto.Error {
	if ctx.Err() != nil {
		return proto.ErrQueryWasCancelled
	}
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return proto.Error(e.Code)
	}
	return proto.ErrStdException
}

// statusOf returns the HTTP status that ClickHouse sends for an exception code.
func statusOf(code proto.Error) int {
	switch code {
	case 194:
		return http.StatusUnauthorized
	case 192, 193, proto.ErrAuthenticationFailed, proto.ErrAccessDenied, proto.ErrReadonly:
		return http.StatusForbidden
	case 6, 15, 25, 26, 27, 38, 41, 44, 53, proto.ErrSyntaxError, 72, 190, 376, 427:
		return http.StatusBadRequest
	case 46, 47, 50, 56, 60, 63, 73, 81, proto.ErrUnknownSetting:
		return http.StatusNotFound
	case 159:
		return http.StatusRequestTimeout
	case 188:
		return http.StatusRequestEntityTooLarge
	case proto.ErrNotImplemented:
		return http.StatusNotImplemented
	case proto.ErrTooManySimultaneousQueries, 209, 439:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// nonce returns a random id, which clients can neither guess nor reuse.
func nonce() string { return rand.Text() }

const (
	maxSessions    = 100
	sessionTimeout = time.Minute // default timeout of a session
	maxTimeout     = time.Hour
)

// sessions contains the open sessions by session_id, at most maxSessions. Idle sessions that have timed out are closed
// when a session is requested.
type sessions struct {
	connect func() (*engine.Conn, error)

	mu   sync.Mutex // guards open and its values
	open map[string]*session
}

type session struct {
	conn    *engine.Conn
	busy    bool
	timeout time.Duration
	expires time.Time // valid while not busy
}

// take reserves the session with this id for one request. If check is set, the session must exist.
func (s *sessions) take(id string, check bool, timeout string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	ss := s.open[id]
	switch {
	case ss != nil && ss.busy:
		return nil, exceptionf(proto.ErrSessionIsLocked, "Session %s is locked by a concurrent client", id)
	case ss == nil && check:
		return nil, exceptionf(proto.ErrSessionNotFound, "Session %s not found", id)
	case ss == nil && len(s.open) >= maxSessions:
		return nil, exceptionf(proto.ErrTooManySimultaneousQueries, "Too many sessions. Maximum: %d", maxSessions)
	case ss == nil:
		conn, err := s.connect()
		if err != nil {
			return nil, err
		}
		ss = &session{conn: conn, timeout: sessionTimeout}
		s.open[id] = ss
	}
	if n, err := strconv.Atoi(timeout); err == nil && n > 0 {
		ss.timeout = min(time.Duration(n)*time.Second, maxTimeout)
	}
	ss.busy = true
	return ss, nil
}

// release ends a request's use of a session, and closes the session if closeIt is set.
func (s *sessions) release(id string, ss *session, closeIt bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss.busy = false
	ss.expires = time.Now().Add(ss.timeout)
	if closeIt {
		ss.conn.Close()
		delete(s.open, id)
	}
}

func (s *sessions) expire(now time.Time) {
	for id, ss := range s.open {
		if !ss.busy && now.After(ss.expires) {
			ss.conn.Close()
			delete(s.open, id)
		}
	}
}

func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, ss := range s.open {
		if !ss.busy {
			ss.conn.Close()
		}
		delete(s.open, id)
	}
}
