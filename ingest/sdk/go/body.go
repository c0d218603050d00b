package llmtap

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds on reading error responses that the agent closed unread.
const (
	drainBytes   = 64 << 10
	drainTimeout = time.Second
	maxDrains    = 64 // error responses read at the same time
)

// errClosed is what a response of net/http returns.
var errClosed = errors.New("http: read on closed response body")

// A requestBody records a body that can be read only once, while the transport reads it.
type requestBody struct {
	io.ReadCloser
	x     *exchange
	again bool // the transport may send the body once more
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.requestRead(p[:n], err)
	return n, err
}

// Close ends the recording unless the transport may send the body again. The end of the call ends it then.
func (b *requestBody) Close() error {
	if b.again {
		b.x.requestClosed()
	} else {
		b.x.sendRequest()
	}
	return b.ReadCloser.Close()
}

// A responseBody records the response while the agent reads it.
type responseBody struct {
	io.ReadCloser
	x       *exchange
	pool    *pool       // of the connection, nil if no call waits for it
	drained atomic.Bool // the agent has closed the body; it is being read in the background
	once    sync.Once   // for its end
}

func (b *responseBody) Read(p []byte) (int, error) {
	if b.drained.Load() {
		return 0, errClosed
	}
	return b.read(p)
}

func (b *responseBody) read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 || err != nil {
		b.x.responseRead(p[:n], err)
	}
	runtime.KeepAlive(b) // prevents the cleanup from running during a read
	return n, err
}

// Close reads the rest of an error response in the background, because its text is the evidence and SDKs that retry
// discard it unread, unless a call may wait for the connection.
func (b *responseBody) Close() error {
	if b.drained.Load() {
		return nil
	}
	if b.x.hasUnreadError() && b.pool.lend(b) {
		select {
		case b.x.hook.drains <- struct{}{}:
			if b.drained.Swap(true) { // another Close was faster
				<-b.x.hook.drains
				return nil
			}
			go b.drain()
			return nil
		default: // maxDrains error responses are already being read
			b.pool.takeBack(b)
		}
	}
	b.x.closed()
	return b.ReadCloser.Close()
}

// drain reads the unread part of an error response, up to drainBytes and for at most drainTimeout.
func (b *responseBody) drain() {
	defer func() {
		b.pool.takeBack(b)
		<-b.x.hook.drains
	}()
	limit := time.AfterFunc(drainTimeout, b.release)
	_, _ = io.CopyN(io.Discard, readFunc(b.read), drainBytes) // read handles errors: they end the exchange
	b.x.closed()
	limit.Stop()
	b.release()
}

// release closes the body that the agent has closed, once.
func (b *responseBody) release() { b.once.Do(func() { b.ReadCloser.Close() }) }

// A pool has the unread error responses that hold connections of a transport for which calls may wait.
type pool struct {
	mu    sync.Mutex
	calls int // calls without a response
	lent  map[*responseBody]struct{}
}

// mayWait reports whether a call over base may wait until another one releases its connection.
func mayWait(base http.RoundTripper) bool {
	t, ok := base.(*http.Transport)
	return !ok || t.MaxConnsPerHost > 0
}

// begin closes the responses that are being read, before a call that may need their connections.
func (p *pool) begin() {
	p.mu.Lock()
	p.calls++
	lent := p.lent
	p.lent = nil
	p.mu.Unlock()
	for b := range lent {
		b.release()
	}
}

func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls--
}

// lend reports whether b may keep its connection after its Close.
func (p *pool) lend(b *responseBody) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls > 0 {
		return false
	}
	if p.lent == nil {
		p.lent = make(map[*responseBody]struct{})
	}
	p.lent[b] = struct{}{}
	return true
}

func (p *pool) takeBack(b *responseBody) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lent, b)
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// A writeFunc is an io.Writer that never fails.
type writeFunc func([]byte)

func (f writeFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
