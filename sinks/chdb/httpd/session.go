package httpd

import (
	"strconv"
	"sync"
	"time"

	"github.com/llmtap/llmtap/sinks/chdb/engine"
)

const (
	maxSessions    = 100
	sessionTimeout = time.Minute // default
	maxTimeout     = time.Hour
)

// sessions are the connections of sessions by session_id. There are at most maxSessions; idle sessions that have timed out are
// closed when a session is requested.
type sessions struct {
	connect func() (*engine.Conn, error)

	mu   sync.Mutex // guards open and its values
	open map[string]*session
}

type session struct {
	conn    *engine.Conn
	busy    bool
	timeout time.Duration
	expires time.Time // while not busy
}

func newSessions(connect func() (*engine.Conn, error)) *sessions {
	return &sessions{connect: connect, open: map[string]*session{}}
}

// take reserves session id for one request. With check the session must exist.
func (s *sessions) take(id string, check bool, timeout string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	ss := s.open[id]
	switch {
	case ss != nil && ss.busy:
		return nil, exceptionf(codeSessionIsLocked, "SESSION_IS_LOCKED", "Session %s is locked by a concurrent client", id)
	case ss == nil && check:
		return nil, exceptionf(codeSessionNotFound, "SESSION_NOT_FOUND", "Session %s not found", id)
	case ss == nil && len(s.open) >= maxSessions:
		return nil, exceptionf(codeTooManyQueries, "TOO_MANY_SIMULTANEOUS_QUERIES", "Too many sessions. Maximum: %d", maxSessions)
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

// release ends the use of a session by a request, and closes the session if closeIt is set.
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
