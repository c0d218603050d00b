package collector

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of a listener, so that slow and many clients do not use up memory and file descriptors.
const (
	maxConnections = 4096             // at a time; further ones wait in the queue of the kernel
	maxHeaderBytes = 64 << 10         // of a request
	headerTimeout  = 10 * time.Second // for the headers of a request
	bodyTimeout    = 30 * time.Second // for the body of a request
	idleTimeout    = 2 * time.Minute  // between requests
)

// newServer returns a server with limits for h. body is the time for the body of a request, or 0 if h limits it.
func newServer(h http.Handler, body time.Duration, logger *slog.Logger) *http.Server {
	if body > 0 {
		h = limitBodies(h, body)
	}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// limitBodies limits the time for the body of a request, also if next does not read it. http.Server.ReadTimeout would end
// requests whose answer takes longer, such as a stream.
func limitBodies(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			b := &limitedBody{r.Body, http.NewResponseController(w)}
			_ = b.conn.SetReadDeadline(time.Now().Add(timeout)) // only a test's recorder has none
			r = r.WithContext(r.Context())                      // a copy: the server decides by its Body how to end the request
			r.Body = b
		}
		next.ServeHTTP(w, r)
	})
}

// A limitedBody removes the deadline of its connection at its end, because the server reads on to notice a client that leaves.
type limitedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.conn.SetReadDeadline(time.Time{}) // as above
	}
	return n, err
}

// limit returns l with at most n connections at a time. It logs if there are as many, at most once a minute.
func limit(l net.Listener, n int, logger *slog.Logger) net.Listener {
	return &limitedListener{Listener: l, logger: logger, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	logger *slog.Logger
	slots  chan struct{} // one value per connection, and one for that to be accepted
	closed chan struct{} // closed by Close
	once   sync.Once     // of Close
	warned time.Time     // by the goroutine that accepts
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	default:
		if time.Since(l.warned) > time.Minute {
			l.warned = time.Now()
			l.logger.Warn("a listener has its maximum of connections; further clients wait", "address", l.Addr().String(), "connections", cap(l.slots))
		}
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
