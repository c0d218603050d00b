package llmtap

import (
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"
)

// Bounds on reading error responses that the agent closed unread.
const (
	drainBytes   = 64 << 10
	drainTimeout = time.Second
	maxDrains    = 64 // error responses read at the same time
)

// A requestBody records a body that can be read only once, while the transport reads it.
type requestBody struct {
	io.ReadCloser
	x *exchange
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.requestRead(p[:n], err)
	return n, err
}

// Close ends the recording, because the transport sends no more of the body.
func (b *requestBody) Close() error {
	b.x.sendRequest()
	return b.ReadCloser.Close()
}

// A responseBody records the response while the agent reads it.
type responseBody struct {
	io.ReadCloser
	x       *exchange
	drained atomic.Bool // the agent has closed the body; it is being read in the background
}

func (b *responseBody) Read(p []byte) (int, error) {
	if b.drained.Load() {
		return 0, http.ErrBodyReadAfterClose
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
// discard it unread.
func (b *responseBody) Close() error {
	if b.drained.Load() {
		return nil
	}
	if b.x.hasUnreadError() {
		select {
		case b.x.hook.drains <- struct{}{}:
			if b.drained.Swap(true) { // another Close was faster
				<-b.x.hook.drains
				return nil
			}
			go b.drain()
			return nil
		default: // maxDrains error responses are already being read
		}
	}
	b.x.closed()
	return b.ReadCloser.Close()
}

// drain reads the unread part of an error response, up to drainBytes and for at most drainTimeout.
func (b *responseBody) drain() {
	defer func() { <-b.x.hook.drains }()
	limit := time.AfterFunc(drainTimeout, func() { b.ReadCloser.Close() })
	_, _ = io.CopyN(io.Discard, readFunc(b.read), drainBytes) // read handles errors: they end the exchange
	b.x.closed()
	if limit.Stop() {
		b.ReadCloser.Close()
	}
}

// A writeFunc is an io.Writer that never fails.
type writeFunc func([]byte)

func (f writeFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
