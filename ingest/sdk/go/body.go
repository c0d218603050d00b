package llmtap

import (
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"
)

// Bounds on reading error answers that the agent's code closed unread.
const (
	drainBytes   = 64 << 10
	drainTimeout = time.Second
	maxDrains    = 64 // at a time
)

// A requestBody is a body that can be read only once; what the transport reads of it is recorded.
type requestBody struct {
	io.ReadCloser
	x *exchange
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.x.requestRead(p[:n], err)
	return n, err
}

// Close is the transport's word that it sends no more of the body.
func (b *requestBody) Close() error {
	b.x.sendRequest()
	return b.ReadCloser.Close()
}

// A responseBody is the provider's answer; what is read through it is recorded.
type responseBody struct {
	io.ReadCloser
	x       *exchange
	drained atomic.Bool // closed, and read to its end behind the agent's back
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
	runtime.KeepAlive(b) // a body that is being read is not left alone
	return n, err
}

// Close reads the rest of an error answer in the background, because its text is the evidence and SDKs that retry throw
// it away unread.
func (b *responseBody) Close() error {
	if b.drained.Load() {
		return nil
	}
	if b.x.unreadError() {
		select {
		case b.x.hook.drains <- struct{}{}:
			if b.drained.Swap(true) { // closed twice at the same time
				<-b.x.hook.drains
				return nil
			}
			go b.drain()
			return nil
		default: // enough of them are read
		}
	}
	b.x.closed()
	return b.ReadCloser.Close()
}

// drain reads what the agent's code left of an error answer, within bounds.
func (b *responseBody) drain() {
	defer func() { <-b.x.hook.drains }()
	limit := time.AfterFunc(drainTimeout, func() { b.ReadCloser.Close() })
	_, _ = io.CopyN(io.Discard, readFunc(b.read), drainBytes) // errors end the exchange in read
	b.x.closed()
	if limit.Stop() {
		b.ReadCloser.Close()
	}
}

// A writeFunc takes all that is written.
type writeFunc func([]byte)

func (f writeFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
